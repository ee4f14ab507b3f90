"""Our classification layer beside MAPIE, netcal and scikit-learn, in one process of their venv.

Run by `benchmarks.toplabel` as ``.venvs/peers/bin/python benchmarks/workers/toplabel_peer.py TASK``
with ``src`` on the path; prints one JSON list of rows. TASK is ``speed`` or ``quality``, or
``fixtures FOLDER`` to write the reference values that the tests read.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from benchmarks.timing import interleaved, ratio, row
from cje import classification as ours

N_BINS = 15


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its output: times the calibration alone."""

    def __init__(self, n_classes: int = 10) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: Any, y: Any) -> Given:
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return np.argmax(X, axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def bare_top_label(p: Any, y: Any, new: Any) -> Any:
    """The whole computation with no class, no check: fit on (p, y), distributions for `new`."""
    top = np.argmax(p, axis=1)
    score = p[np.arange(len(p)), top]
    right = (top == y).astype(float)
    new_top = np.argmax(new, axis=1)
    new_score = new[np.arange(len(new)), new_top]
    calibrated = np.empty(len(new))
    for k in range(p.shape[1]):
        rows = np.flatnonzero(top == k)
        x = score[rows]
        order = np.argsort(x)
        fit = isotonic_regression(right[rows][order]).x
        where = np.flatnonzero(new_top == k)
        calibrated[where] = np.interp(new_score[where], x[order], fit)
    out = new * ((1.0 - calibrated) / (1.0 - new_score))[:, None]
    out[np.arange(len(new)), new_top] = calibrated
    return out


def bare_ece(y: Any, p: Any) -> float:
    bins = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    return float(np.abs(np.bincount(bins, weights=y - p)).sum() / len(p))


def bare_top_label_ece(y: Any, p: Any) -> float:
    top = np.argmax(p, axis=1)
    score = p[np.arange(len(p)), top]
    cells = top * N_BINS + np.minimum((score * N_BINS).astype(np.intp), N_BINS - 1)
    return float(np.abs(np.bincount(cells, weights=(top == y) - score)).sum() / len(p))


def speed(quick: bool) -> list[dict[str, Any]]:
    """Ratios to the bare NumPy versions and to the peers."""
    return [
        *_speed_fit(quick),
        *_speed_ece(quick),
        *_speed_top_label_ece(quick),
        *_smooth_ece(quick),
    ]


def _speed_fit(quick: bool) -> list[dict[str, Any]]:
    from mapie.calibration import TopLabelCalibrator as MapieTopLabel

    n, k = (20_000 if quick else 200_000), 10
    rng = np.random.default_rng(0)
    p, new = rng.dirichlet(np.full(k, 0.3), (2, n))
    y = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    model = Given(k)

    def own() -> Any:
        fitted = ours.TopLabelCalibrator(FrozenEstimator(model), calibrator="isotonic").fit(p, y)
        return fitted.predict_proba(new)

    def mapie() -> Any:
        return MapieTopLabel(model, calibrator="isotonic", cv="prefit").fit(p, y).predict_proba(new)

    seconds = interleaved(
        {"own": own, "bare": lambda: bare_top_label(p, y, new), "mapie": mapie}, 3 if quick else 9
    )
    worst = float(np.abs(own() - bare_top_label(p, y, new)).max())
    return [
        row(f"top-label isotonic fit + predict, {n} x {k}: ours / bare NumPy",
             ratio(seconds, "own", "bare"), 1.3, f"largest difference {worst:.1e}"),
        row("top-label isotonic fit + predict: ours / MAPIE", ratio(seconds, "own", "mapie"), 1.0),
    ]  # fmt: skip


def _speed_ece(quick: bool) -> list[dict[str, Any]]:
    from mapie.metrics.calibration import expected_calibration_error as mapie_ece

    n = 100_000 if quick else 1_000_000
    rng = np.random.default_rng(1)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(np.int64)
    calls = {
        "own": lambda: ours.expected_calibration_error(y, p, N_BINS),
        "bare": lambda: bare_ece(y, p),
        "mapie": lambda: mapie_ece(y, p, num_bins=N_BINS + 1, split_strategy="uniform"),
        "quantile": lambda: ours.expected_calibration_error(y, p, N_BINS, "quantile"),
        "argsort": lambda: np.argsort(p),
    }
    netcal_note = ""
    try:
        from netcal.metrics import ECE

        measure = ECE(N_BINS)
        calls["netcal"] = lambda: measure.measure(p, y)
    except ImportError as error:
        netcal_note = f"netcal not measured: {error}"
    seconds = interleaved(calls, 5 if quick else 15)
    rows = [
        row(f"ECE, {n}: ours / bare NumPy", ratio(seconds, "own", "bare"), 1.5),
        row("ECE: ours / MAPIE (at least 10 x faster)", ratio(seconds, "own", "mapie"), 0.1,
             netcal_note),
        row("equal-mass ECE: ours / one np.argsort", ratio(seconds, "quantile", "argsort"), 1.0),
    ]  # fmt: skip
    if "netcal" in seconds:
        bar = "ECE: ours / netcal (at least 10 x faster)"
        rows.insert(2, row(bar, ratio(seconds, "own", "netcal"), 0.1))
    return rows


def _speed_top_label_ece(quick: bool) -> list[dict[str, Any]]:
    from mapie.metrics.calibration import top_label_ece as mapie_top_label_ece

    n, k = (20_000 if quick else 200_000), 10
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.full(k, 0.3), n)
    y = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    calls = {
        "own": lambda: ours.top_label_ece(y, p, N_BINS),
        "bare": lambda: bare_top_label_ece(y, p),
        "mapie": lambda: mapie_top_label_ece(y, p, num_bins=N_BINS + 1, split_strategy="uniform"),
    }
    seconds = interleaved(calls, 5 if quick else 15)
    return [
        row(f"top-label ECE, {n} x {k}: ours / bare NumPy", ratio(seconds, "own", "bare"), 1.5),
        row("top-label ECE: ours / MAPIE (at least 3 x faster)", ratio(seconds, "own", "mapie"),
             1.0 / 3.0),
    ]  # fmt: skip


def _smooth_ece(quick: bool) -> list[dict[str, Any]]:
    """Beside relplot, whose authors proposed it: the same value, and the time."""
    import relplot

    n = 2_000 if quick else 20_000
    rng = np.random.default_rng(3)
    p = rng.random(n)
    y = (rng.random(n) < p**1.3).astype(np.float64)
    seconds = interleaved(
        {"own": lambda: ours.smooth_ece(y, p), "relplot": lambda: relplot.smECE(p, y)}, 5
    )
    gap = abs(float(ours.smooth_ece(y, p)) - float(relplot.smECE(p, y)))
    return [
        row(f"smooth ECE, {n}: ours / relplot", ratio(seconds, "own", "relplot"), 1.0),
        row("smooth ECE: difference from relplot's", gap, 1e-3,
             "relplot evaluates on a grid of scores, ours at the scores themselves"),
    ]  # fmt: skip


def _top_label_ece(y: Any, label: Any, confidence: Any) -> float:
    """Top-label ECE of (label, confidence) pairs, frequency-weighted, ten bins."""
    total = 0.0
    for name in np.unique(label):
        rows = label == name
        value = ours.expected_calibration_error(y[rows] == name, confidence[rows], 10)
        total += rows.mean() * value
    return float(total)


def _synthetic(seed: int) -> tuple[Any, Any]:
    share = [0.11] * 9 + [0.01]
    return make_classification(
        n_samples=3000, n_features=20, n_informative=10, n_redundant=5, n_classes=10,
        n_clusters_per_class=1, weights=share, class_sep=1.2, flip_y=0.02, random_state=seed,
    )  # fmt: skip


def _scores(X: Any, y: Any, seed: int, method: str) -> dict[str, float]:
    """Test top-label ECE of each way to calibrate a naive Bayes classifier."""
    from mapie.calibration import TopLabelCalibrator as MapieTopLabel
    from sklearn.calibration import CalibratedClassifierCV

    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, random_state=seed, stratify=y
    )
    base = GaussianNB(var_smoothing=1e-3)
    own = ours.TopLabelCalibrator(base, calibrator=method, cv=5, random_state=seed)
    label, confidence = own.fit(train, y_train).predict_top_label(test)
    out = {"ours": _top_label_ece(y_test, label, confidence)}
    p = own.predict_proba(test)
    out["ours, argmax"] = _top_label_ece(y_test, own.classes_[p.argmax(1)], p.max(1))
    peer = MapieTopLabel(base, calibrator=method).fit(train, y_train, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MAPIE warns of classes it could not calibrate
        confidence = np.nanmax(peer.predict_proba(test), axis=1)
    raw = peer.single_estimator_.predict_proba(test)
    out["mapie"] = _top_label_ece(y_test, peer.classes_[raw.argmax(1)], confidence)
    cv = CalibratedClassifierCV(base, method=method, cv=5).fit(train, y_train)
    p = cv.predict_proba(test)
    out["sklearn"] = _top_label_ece(y_test, cv.classes_[p.argmax(1)], p.max(1))
    p = base.fit(train, y_train).predict_proba(test)
    out["uncalibrated"] = _top_label_ece(y_test, base.classes_[p.argmax(1)], p.max(1))
    return out


def quality(quick: bool) -> list[dict[str, Any]]:
    """Mean top-label ECE over seeds, ours against the peers, with the same classifier and rows."""
    digits = load_digits(return_X_y=True)
    rows = []
    for data in ("digits", "synthetic"):
        for method in ("sigmoid", "isotonic"):
            runs = []
            for seed in range(4 if quick else 20):
                X, y = digits if data == "digits" else _synthetic(seed)
                runs.append(_scores(X, y, seed, method))
            mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
            note = ", ".join(f"{name} {value:.4f}" for name, value in mean.items())
            best = min(mean["mapie"], mean["sklearn"])
            bar = f"top-label ECE after {method}, {data}: ours / better peer"
            rows.append(row(bar, mean["ours"] / best, 1.0, note))
    return rows


def fixtures(folder: Path) -> None:
    """Reference values of MAPIE 1.6.0 (split protocol, metrics) and relplot (smooth ECE)."""
    import relplot
    from mapie.calibration import TopLabelCalibrator as MapieTopLabel
    from mapie.metrics.calibration import expected_calibration_error, top_label_ece

    cases = []
    for name, load in (("iris", load_iris), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        for method in ("isotonic", "sigmoid"):
            peer = MapieTopLabel(GaussianNB(), calibrator=method)
            peer.fit(X, y, calib_size=0.5, random_state=7)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                confidence = np.nanmax(peer.predict_proba(X), axis=1)
            case = {"data": name, "calibrator": method, "calib_size": 0.5, "random_state": 7}
            cases.append(case | {"confidence": confidence.round(12).tolist()})
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(4, 0.7), 300)
    y = (p.cumsum(axis=1) ** 1.3 > rng.random(300)[:, None]).argmax(axis=1)
    score = rng.random(400)
    hit = (rng.random(400) < score**1.5).astype(int)
    # MAPIE's num_bins counts edges: 16 of them make 15 bins.
    metrics = {
        "p": p.tolist(), "y": y.tolist(), "score": score.tolist(), "hit": hit.tolist(),
        "ece": expected_calibration_error(hit, score, num_bins=16, split_strategy="uniform"),
        "mean_top_label_ece": top_label_ece(y, p, num_bins=16, split_strategy="uniform"),
        "smooth_ece": float(relplot.smECE(score, hit)),
        "smooth_ece_at_0.1": float(relplot.smECE_sigma(score, hit, 0.1)),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"top_label": cases, "metrics": metrics})
    (folder / "peers.json").write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "fixtures":
        fixtures(Path(sys.argv[2]))
    else:
        result = {"speed": speed, "quality": quality}[sys.argv[1]]("--quick" in sys.argv)
        print(json.dumps(result))
