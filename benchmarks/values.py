"""Values beside peers: the same quantity on the same rows, equal or explained.

- temperature, vector and matrix scaling beside scikit-learn and probmetrics;
- Brier score, AUC and observed/expected, with and without competing risks, beside R;
- judge-human agreement beside evalstats;
- Bradley-Terry strengths beside arena-rank.

``python -m benchmarks.values [--quick]``; `benchmarks/peers.toml` has the environments, and
``scripts/setup_r.sh`` installs R's packages; without R a row says so in place of its values.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import log_loss

from benchmarks.environments import ROOT, python_of
from benchmarks.timing import main, row, show
from cje.classification.multiclass import fit_temperature, fit_vector
from cje.data.comparisons import Comparisons
from cje.diagnostics import cohen_kappa, rank_correlation
from cje.estimators.registry import REGISTRY
from cje.survival import (
    brier_score,
    index_of_prediction_accuracy,
    observed_expected_at_horizon,
    time_dependent_auc,
)

__all__ = ["run"]

Rows = list[dict[str, Any]]
WORKERS = ROOT / "benchmarks" / "workers"
_FLOAT = 1e-9  # the same formula in another order of operations


def _peer(environment: str, task: str, given: Any) -> Any:
    done = subprocess.run(
        [python_of(environment), "-I", WORKERS / "values_peer.py", task],
        input=json.dumps(given), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{environment}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _distance(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    return max(abs(value - theirs[name]) for name, value in ours.items())


# ---- scaling of a classifier -------------------------------------------------------------------


def scaling(quick: bool) -> Rows:
    """Log loss on new rows after each way to scale an overconfident classifier."""
    k, n = 6, 3_000
    rng = np.random.default_rng(7)
    weights = rng.normal(0.0, 1.2, (k, k)) * 0.4 + np.eye(k) * 1.5
    signal = rng.normal(size=(2 * n, k))
    label = (signal @ weights + rng.gumbel(size=(2 * n, k))).argmax(axis=1)
    claimed = 2.0 * signal + rng.normal(0.0, 0.3, k)  # overconfident, without the off-diagonal
    p = np.exp(claimed - claimed.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    fit, new, y, truth = p[:n], p[n:], label[:n], label[n:]
    given = {"fit": fit.tolist(), "label": y.tolist(), "new": new.tolist()}
    learned = _peer("peers", "sklearn_temperature", given)
    structured = _peer("probmetrics", "probmetrics", given)
    own_temperature = fit_temperature(fit, y, None).apply(new)
    loss = {
        "none": new, "temperature": own_temperature,
        "temperature, scikit-learn": np.array(learned["temperature"]),
        "temperature, probmetrics": np.array(structured["temperature"]),
        "vector": fit_vector(fit, y, None).apply(new),
        "vector, probmetrics": np.array(structured["vector"]),
        "structured matrix, probmetrics": np.array(structured["matrix"]),
    }  # fmt: skip
    value = {name: float(log_loss(truth, q)) for name, q in loss.items()}
    note = ", ".join(f"{name} {v:.5f}" for name, v in value.items())
    bars = [
        row(f"temperature scaling: largest difference of a probability from {peer}",
            float(np.abs(own_temperature - loss[f"temperature, {peer}"]).max()), 1e-6)
        for peer in ("scikit-learn", "probmetrics")
    ]  # fmt: skip
    excess = value["vector"] - value["vector, probmetrics"]
    return [
        *bars,
        row("vector scaling: log loss above probmetrics'", excess, 1e-3,
            f"ours shrinks towards temperature scaling; a matrix is not offered; log loss: {note}"),
    ]  # fmt: skip


# ---- survival, beside R ------------------------------------------------------------------------


def survival(quick: bool) -> Rows:
    """Values and standard errors of riskRegression, alone and with a competing risk."""
    if shutil.which("Rscript") is None:
        return [row("survival beside R", float("nan"), 1.0, "no Rscript: bash scripts/setup_r.sh")]
    n, horizon = 600, 2.0
    rng = np.random.default_rng(11)
    x = rng.normal(size=n)
    first, other = rng.exponential(2.5 * np.exp(-0.7 * x)), rng.exponential(6.0, n)
    censored = rng.uniform(0.3, 7.0, n)
    time = np.minimum(np.minimum(first, other), censored)
    status = np.select([time == first, time == other], [1, 2], 0)
    risk = 1.0 - np.exp(-horizon / (3.0 * np.exp(-0.7 * x)))
    table = pl.DataFrame({"time": time, "status": status, "risk": risk, "horizon": horizon})
    with tempfile.TemporaryDirectory() as folder:
        table.write_csv(Path(folder) / "rows.csv")
        done = subprocess.run(
            ["Rscript", WORKERS / "values_peer.R", Path(folder) / "rows.csv"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        reason = "R lacks a package (bash scripts/setup_r.sh): " + done.stderr.strip()[-200:]
        return [row("survival beside R", float("nan"), 1.0, reason)]
    found = json.loads(done.stdout)
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return [
        *_survival_rows("one event", risk, (time, (status == 1).astype(int)), horizon, {},
                        found["alone"], versions),
        *_survival_rows("competing risks", risk, (time, status), horizon, {"cause": 1},
                        found["competing"], versions),
    ]  # fmt: skip


def _survival_rows(
    name: str, risk: Any, y: tuple[Any, Any], t: float, options: dict[str, int],
    theirs: dict[str, float], versions: str,
) -> Rows:  # fmt: skip
    brier = brier_score(1.0 - risk, *y, t, **options)
    auc = time_dependent_auc(risk, *y, t, **options)
    ipa = index_of_prediction_accuracy(1.0 - risk, *y, t, **options)
    oe = observed_expected_at_horizon(1.0 - risk, *y, t, **options)
    values = {"brier": float(brier), "auc": float(auc), "ipa": float(ipa), "oe": float(oe)}
    spread = max(
        abs(brier.standard_error / theirs["brier_se"] - 1.0),
        abs(auc.standard_error / theirs["auc_se"] - 1.0),
    )
    note = ", ".join(f"{key} {value:.6f}" for key, value in values.items())
    return [
        row(f"Brier, AUC, IPA and O/E, {name}: largest difference from R",
            _distance(values, theirs), _FLOAT, f"{note}; {versions}"),
        row(f"standard errors of Brier and AUC, {name}: relative difference from R", spread, 1e-4),
    ]  # fmt: skip


# ---- agreement of a judge with people ----------------------------------------------------------


def alignment(quick: bool) -> Rows:
    """Kappa, weighted kappa and rank correlation on binary, 1-5 and continuous scores."""
    rng = np.random.default_rng(3)
    human = rng.normal(size=400)
    judge = human + rng.normal(0.0, 0.7, 400)
    cuts = [-1.2, -0.3, 0.4, 1.1]
    scores = {
        "binary": ((judge > 0.2).astype(float), (human > 0.0).astype(float)),
        "likert": (1.0 + np.digitize(judge, cuts), 1.0 + np.digitize(human, cuts)),
        "continuous": (judge, human),
    }
    given = {kind: [a.tolist(), b.tolist()] for kind, (a, b) in scores.items()}
    theirs = _peer("evalstats", "evalstats", given)
    ours = {
        "cohens_kappa": (cohen_kappa(*scores["binary"]), theirs["binary"]["cohens_kappa"]),
        "weighted_kappa": (
            cohen_kappa(*scores["likert"], weights="quadratic"), theirs["likert"]["weighted_kappa"]
        ),
        "spearman": (rank_correlation(*scores["continuous"]), theirs["continuous"]["spearman_r"]),
    }  # fmt: skip
    note = ", ".join(f"{name} {value:.6f}" for name, (value, _) in ours.items())
    gap = max(abs(a - b) for a, b in ours.values())
    return [row("kappa, weighted kappa, Spearman: largest difference from evalstats", gap, _FLOAT,
                note)]  # fmt: skip


# ---- strengths ---------------------------------------------------------------------------------


def strengths(quick: bool) -> Rows:
    """Bradley-Terry on comparisons that people judged completely."""
    names = ["ash", "elm", "fir", "oak", "yew"]
    n = 600
    rng = np.random.default_rng(20)
    worth = np.linspace(0.8, -0.8, len(names))
    pairs = np.array([rng.permutation(len(names))[:2] for _ in range(n)])
    chance = 1.0 / (1.0 + np.exp(worth[pairs[:, 1]] - worth[pairs[:, 0]]))
    draw = rng.random(n)
    human = np.where(draw < 0.8 * chance, 1.0, np.where(draw < 0.8, 0.0, 0.5))
    winner = np.select([human == 1.0, human == 0.0], ["model_a", "model_b"], "tie")
    first, second = ([names[i] for i in pairs[:, k]] for k in (0, 1))
    found = _peer("arena_rank", "arena_rank", {
        "models": names,
        "comparisons": {"model_a": first, "model_b": second, "winner": winner.tolist()},
    })  # fmt: skip
    data = Comparisons.from_arrays(
        prompt_id=[f"p{i}" for i in range(n)], first=first, second=second, human=human.tolist()
    )
    estimator = REGISTRY["pairwise"].build(data, position=False)
    estimator.fit_and_estimate()
    ours = estimator.ranking_.strengths.select(names)
    ratio = np.diag(ours.covariance()) / np.array(found["variances"])
    return [
        row("Bradley-Terry strengths: largest difference from arena-rank",
            float(np.abs(ours.values - found["ratings"]).max()), 1e-6),
        row("their variances: largest relative difference from arena-rank's sandwich",
            float(np.abs(ratio - 1.0).max()), 0.02,
            "ours corrects for the fitted parameters"),
    ]  # fmt: skip


def run(quick: bool) -> Rows:
    """All sections; `quick` changes nothing: they take seconds."""
    rows = [*scaling(quick), *survival(quick), *alignment(quick), *strengths(quick)]
    show(rows)
    return rows


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
