"""Reliability curves, and judges' verdicts turned into calibrated scores."""

from __future__ import annotations

import numpy as np
import pytest

from cje import classification as c
from cje.data import JudgeScores
from cje.errors import CJEError


def _multiclass(n=2000, slope=1.0, seed=0, k=3):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((n, k))
    chance = np.exp(slope * logits)
    chance /= chance.sum(axis=1, keepdims=True)
    p = np.exp(logits)
    y = (chance.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return y, p / p.sum(axis=1, keepdims=True)


def test_a_curves_weighted_distance_from_the_diagonal_is_the_ece():
    y, p = _multiclass()
    right, score = p.argmax(axis=1) == y, p.max(axis=1)
    curve = c.calibration_curve(right, score)
    gap = np.abs(curve.observed - curve.x)
    assert curve.counts @ gap / len(y) == pytest.approx(
        c.expected_calibration_error(right, score), abs=1e-12
    )
    same = c.confidence_curve(y, p)
    np.testing.assert_array_equal(same.observed, curve.observed)
    total = sum(
        part.counts @ np.abs(part.observed - part.x) for part in c.top_label_curves(y, p).values()
    )
    assert total / len(y) == pytest.approx(c.top_label_ece(y, p), abs=1e-12)
    by_class = c.class_wise_curves(y, p)
    assert list(by_class) == [0, 1, 2]
    assert all(part.counts.sum() == len(y) for part in by_class.values())


def test_the_simultaneous_band_holds_the_whole_curve_at_its_level():
    held = pointwise = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(500)
        y = rng.random(500) < p
        curve = c.calibration_curve(y, p, n_bins=10)
        held += bool(((curve.low <= curve.x) & (curve.x <= curve.high)).all())
        narrow = c.calibration_curve(y, p, n_bins=10, band="pointwise")
        pointwise += bool(((narrow.low <= narrow.x) & (narrow.x <= narrow.high)).all())
    assert held >= 190
    assert pointwise < held


def test_curves_keep_names_and_weights_and_draw():
    y, p = _multiclass()
    names = np.array(["bad", "fair", "good"])
    curves = c.top_label_curves(names[y], p, labels=names, sample_weight=np.full(len(y), 2.0))
    assert set(curves) == set(names)
    assert sum(curve.counts.sum() for curve in curves.values()) == pytest.approx(2 * len(y))
    ax = curves["good"].plot(label="before")
    assert ax.get_title(loc="left") == "predicted: good"
    assert ax.get_xlabel() == "confidence"
    with pytest.raises(CJEError, match="band"):
        c.confidence_curve(y, p, band="wide")


VALUES = {"bad": 0.0, "fair": 0.5, "good": 1.0}


@pytest.mark.parametrize("reduction", ["top-label", "confidence", "class-wise"])
def test_an_overconfident_judge_gets_calibrated_means_and_variances(reduction):
    y, p = _multiclass(6000, slope=0.4)
    names = np.array(list(VALUES))
    judge = c.VerdictCalibrator(VALUES, calibrator="isotonic", reduction=reduction)
    judge.fit(p[:3000], names[y[:3000]])
    new, truth = p[3000:], np.array(list(VALUES.values()))[y[3000:]]
    scores = judge.scores(new)
    assert isinstance(scores, JudgeScores)
    raw = new @ np.array([0.0, 0.5, 1.0])
    raw_variance = new @ np.array([0.0, 0.25, 1.0]) - raw**2
    # The stated variance must match the squared error; the raw judge's is far too small.
    assert scores.variance.mean() == pytest.approx(((truth - scores.mean) ** 2).mean(), rel=0.12)
    assert raw_variance.mean() < 0.75 * ((truth - raw) ** 2).mean()
    assert ((truth - scores.mean) ** 2).mean() < ((truth - raw) ** 2).mean()
    np.testing.assert_allclose(judge.calibrate(new).sum(axis=1), 1.0, atol=1e-12)


def test_bad_verdicts_are_refused():
    y, p = _multiclass(50)
    names = np.array(list(VALUES))
    judge = c.VerdictCalibrator(VALUES)
    for call, words in (
        (lambda: c.VerdictCalibrator({"bad": 0, "good": 5}), "on \\[0, 1\\]"),
        (lambda: c.VerdictCalibrator({"good": 1}), "two verdicts"),
        (lambda: c.VerdictCalibrator(VALUES, reduction="all"), "reduction"),
        (lambda: c.VerdictCalibrator(VALUES, calibrator="x"), "calibrator"),
        (lambda: judge.scores(p), "not fitted"),
        (lambda: c.VerdictCalibrator(VALUES, reduction="class-wise").scores(p), "not fitted"),
        (lambda: judge.fit(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), names[y]), "columns"),
        (lambda: judge.fit(p, np.full(50, "great")), "never seen"),
        (lambda: judge.fit(p, names[y[:5]]), "one label"),
        (lambda: judge.fit(2 * p, names[y]), "must lie in|sum to one"),
    ):
        with pytest.raises(CJEError, match=words):
            call()


@pytest.mark.parametrize(
    ("values", "settings"),
    [(object(), {}), ({"a": "x", "b": 1}, {}), ({"a": 0, "b": 1}, {"min_count": "x"})],
)
def test_a_verdict_calibrator_with_senseless_settings_is_refused(values, settings):
    with pytest.raises(CJEError):
        c.VerdictCalibrator(values, **settings)
