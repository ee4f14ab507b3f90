"""Scores, calibration and gamma: what the founding document promises, and what bad input does."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import ArrayLike

from cje.data import RaterLabels
from cje.diagnostics.judge_variance import label_noise_of
from cje.errors import CJEError
from cje.kernels.isotonic import isotonic_fit, isotonic_predict
from cje.uncertainty import (
    CalibratedReward,
    JudgeScore,
    JudgeScores,
    apply_full_calibration,
    apply_variance_scaling,
    calibrate_scores_isotonic,
    calibrate_variance_gamma,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        (1.2, 0.0, "must be in"),
        (-0.1, 0.0, "must be in"),
        (float("nan"), 0.0, "must be in"),
        (0.5, -0.01, "cannot be negative"),
        (0.5, 0.26, "too large"),
        (0.5, float("nan"), "too large"),
    ],
)
def test_a_score_outside_its_range_is_refused(mean: float, variance: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JudgeScore(mean=mean, variance=variance)
    with pytest.raises(ValueError, match=message):
        JudgeScores([0.5, mean], [0.0, variance])


def test_a_million_scores_are_two_arrays_that_iterate_as_scores() -> None:
    scores = JudgeScores(RNG.random(1_000_000), 0.01)
    held = scores.mean.nbytes + scores.variance.nbytes
    assert held == 16_000_000
    assert sys.getsizeof(scores) < 200
    assert next(iter(scores)) == JudgeScore(float(scores.mean[0]), 0.01)
    assert len(scores) == 1_000_000


def _judged(n: int, confidence: float) -> tuple[JudgeScores, np.ndarray]:
    """A biased judge whose label noise has a known variance, and its stated share of it."""
    truth = RNG.uniform(0.2, 0.8, n)
    variance = RNG.uniform(0.002, 0.01, n)
    labels = np.clip(truth + RNG.normal(size=n) * np.sqrt(variance), 0, 1)
    return JudgeScores(0.1 + 0.5 * truth, variance * confidence), labels


@pytest.mark.parametrize("confidence", [0.25, 1.0, 4.0])
def test_gamma_finds_how_far_stated_variances_are_off(confidence: float) -> None:
    scores, labels = _judged(20_000, confidence)
    model, gamma = calibrate_scores_isotonic(scores, labels)
    assert float(gamma) * confidence == pytest.approx(1.0, abs=0.05)
    assert gamma.identified
    assert ("too sure" in gamma.verdict) == (gamma > 1.0)
    error = model.predict(scores.mean) - labels
    assert abs(error.mean()) < 1e-9  # the bias of 0.1 + 0.5 m is gone


def test_gamma_is_out_of_fold_so_it_does_not_understate_the_errors() -> None:
    inside, outside = [], []
    for _ in range(200):
        scores, labels = _judged(30, 1.0)
        _, gamma = calibrate_scores_isotonic(scores, labels)
        outside.append(float(gamma))
        fitted = isotonic_predict(*isotonic_fit(scores.mean, labels), scores.mean)
        inside.append(float(calibrate_variance_gamma(labels, fitted, scores.variance)))
    assert np.mean(inside) < 0.85  # in sample, the judge looks better than it is
    assert 0.95 < np.mean(outside) < 1.5


@pytest.mark.parametrize("reliability", [0.3, 0.8])
def test_gamma_of_a_judge_that_states_its_repeat_variance_is_its_reliability(
    reliability: float,
) -> None:
    """Normal scores around the truth: the calibrated score's error is b v, with b < 1."""
    rng = np.random.default_rng(8)
    truth = 0.5 + 0.08 * rng.standard_normal(40_000)
    v = 0.08**2 * (1.0 - reliability) / reliability
    said = truth + np.sqrt(v) * rng.standard_normal(len(truth))
    fitted = 0.5 + reliability * (said - 0.5)
    gamma = calibrate_variance_gamma(truth, fitted, np.full(len(truth), v))
    assert float(gamma) == pytest.approx(reliability, rel=0.03)
    assert gamma.believable


def test_label_noise_is_subtracted_where_known_and_named_where_not() -> None:
    rng = np.random.default_rng(9)
    mean = rng.random(20_000)
    fitted = mean + 0.1 * rng.standard_normal(len(mean))
    noisy = mean + 0.3 * rng.standard_normal(len(mean))
    stated = np.full(len(mean), 0.01)
    assert float(calibrate_variance_gamma(noisy, fitted, stated)) == pytest.approx(10.0, rel=0.05)
    assert "or labels are noisy" in calibrate_variance_gamma(noisy, fitted, stated).verdict
    known = calibrate_variance_gamma(noisy, fitted, stated, label_noise=0.09)
    assert float(known) == pytest.approx(1.0, abs=0.15)
    assert "noisy" not in known.verdict


def test_single_zeros_and_ones_do_not_identify_gamma_and_several_raters_do() -> None:
    rng = np.random.default_rng(10)
    chance = rng.random(20_000)
    stated = np.full(len(chance), 0.004)
    fitted = chance + np.sqrt(0.004) * rng.standard_normal(len(chance))
    single = (rng.random(len(chance)) < chance).astype(float)
    assert not calibrate_variance_gamma(single, fitted, stated).identified
    votes = rng.random((len(chance), 3)) < chance[:, None]
    rows = np.repeat(np.arange(len(chance)), 3)
    raters = RaterLabels.from_arrays(rows, votes.astype(float).ravel())
    noise = label_noise_of(raters)
    assert noise == pytest.approx(float((chance * (1 - chance)).mean()) / 3, rel=0.03)
    gamma = calibrate_variance_gamma(votes.mean(axis=1), fitted, stated, label_noise=noise)
    assert gamma.identified
    assert float(gamma) == pytest.approx(1.0, abs=0.25)


def test_without_stated_variances_gamma_is_one_and_not_identified() -> None:
    scores, labels = _judged(100, 0.0)
    _, gamma = calibrate_scores_isotonic(scores, labels)
    assert gamma == 1.0
    assert not gamma.identified
    assert "not identified" in gamma.verdict


def test_full_calibration_maps_means_and_scales_variances_within_bounds() -> None:
    scores, labels = _judged(500, 1.0)
    model, gamma = calibrate_scores_isotonic(scores, labels)
    rewards = apply_full_calibration(scores, model, gamma)
    first = rewards[0]
    assert isinstance(first, CalibratedReward)
    assert first.raw == scores[0]
    assert first.mean == model.predict(scores.mean[:1])[0]
    assert first.variance == pytest.approx(float(gamma) * scores[0].variance)
    assert len(list(rewards)) == 500
    assert len(rewards[:10]) == 10
    assert apply_variance_scaling([0.01, 0.2], 5.0).tolist() == [0.05, 0.25]


def test_labels_may_be_missing_and_lists_of_scores_are_taken() -> None:
    scores, labels = _judged(200, 1.0)
    some = labels.copy()
    some[50:] = np.nan
    _, gamma = calibrate_scores_isotonic(list(scores), some)
    assert gamma > 0.0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(20, np.nan), "fewer than the 5 folds"),
        (np.linspace(0, 2, 20), r"must be in \[0, 1\]"),
        (np.zeros(3), "20 judge scores"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(labels: ArrayLike, message: str) -> None:
    with pytest.raises(CJEError, match=message):
        calibrate_scores_isotonic(JudgeScores(np.linspace(0, 1, 20), 0.01), labels)


def test_a_value_that_is_not_a_judge_score_is_named() -> None:
    with pytest.raises(CJEError, match=r"must be a JudgeScore \[row 1\]"):
        calibrate_scores_isotonic([JudgeScore(0.5, 0.0), 0.7], [0.1, 0.2])  # type: ignore[list-item]
    with pytest.raises(CJEError, match="negative"):
        apply_variance_scaling([-0.1], 1.0)
    with pytest.raises(CJEError, match="gamma"):
        apply_variance_scaling([0.1], float("nan"))
    with pytest.raises(CJEError, match="gamma"):
        apply_variance_scaling([0.1], "twice")  # type: ignore[arg-type]
    with pytest.raises(CJEError, match="finite"):
        apply_variance_scaling([np.inf], 0.0)
    assert apply_variance_scaling([1e308], 2.0).tolist() == [0.25]
    with pytest.raises(CJEError, match="differ too much in size"):
        calibrate_variance_gamma([0.5, 0.5], [0.1, 0.2], [1e308, 1e308])
    with pytest.raises(CJEError, match="one length"):
        calibrate_variance_gamma([0.1], [0.1, 0.2], [0.1])
