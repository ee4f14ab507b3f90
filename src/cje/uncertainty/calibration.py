"""Debias the judge's means, and measure how far its stated variances are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array
from cje.data.folds import get_content_folds
from cje.data.judge_score import JudgeScore, JudgeScores
from cje.diagnostics.judge_variance import (
    Gamma,
    apply_variance_scaling,
    calibrate_variance_gamma,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = [
    "CalibratedReward",
    "CalibratedRewards",
    "IsotonicCalibration",
    "apply_full_calibration",
    "as_judge_scores",
    "calibrate_scores_isotonic",
]


@dataclass(frozen=True)
class IsotonicCalibration:
    """A monotone map from judge score to expected label: linear between knots, constant outside."""

    x_knots: FloatArray
    y_knots: FloatArray

    def predict(self, scores: ArrayLike) -> FloatArray:
        """The expected label at each score."""
        scores = float_array("scores", scores)
        if not np.isfinite(scores).all():
            raise CJEError("scores must be finite", value=float(scores[~np.isfinite(scores)][0]))
        return isotonic_predict(self.x_knots, self.y_knots, scores)

    __call__ = predict


@dataclass(frozen=True)
class CalibratedReward:
    """A reward with the variance of the label around it, and the raw score."""

    mean: float
    variance: float
    raw: JudgeScore


class CalibratedRewards(Sequence[CalibratedReward]):
    """A batch of `CalibratedReward` as arrays; iterating gives the single rewards."""

    def __init__(self, mean: FloatArray, variance: FloatArray, raw: JudgeScores) -> None:
        self.mean, self.variance, self.raw = mean, variance, raw

    def __len__(self) -> int:
        return len(self.mean)

    @overload
    def __getitem__(self, index: int) -> CalibratedReward: ...
    @overload
    def __getitem__(self, index: slice) -> CalibratedRewards: ...
    def __getitem__(self, index: int | slice) -> CalibratedReward | CalibratedRewards:
        if isinstance(index, slice):
            return CalibratedRewards(self.mean[index], self.variance[index], self.raw[index])
        return CalibratedReward(
            float(self.mean[index]), float(self.variance[index]), self.raw[index]
        )

    def __iter__(self) -> Iterator[CalibratedReward]:
        return (self[i] for i in range(len(self)))


def as_judge_scores(scores: JudgeScores | Iterable[JudgeScore]) -> JudgeScores:
    """Any collection of `JudgeScore` as two arrays."""
    if isinstance(scores, JudgeScores):
        return scores
    try:
        items = list(scores)
    except TypeError as error:
        raise CJEError("judge scores must be JudgeScores or a list", value=scores) from error
    for row, score in enumerate(items):
        if not isinstance(score, JudgeScore):
            raise CJEError(
                "a judge score must be a JudgeScore", where=f"row {row}", value=score,
                hint="use JudgeScores(means, variances) for arrays, JudgeScore(mean, variance) "
                "for one; a judge without variance has variance 0",
            )  # fmt: skip
    return JudgeScores.from_scores(items)


def calibrate_scores_isotonic(
    judge_scores: JudgeScores | Iterable[JudgeScore],
    true_labels: ArrayLike,
    *,
    k_folds: int = 5,
    random_state: int = 42,
) -> tuple[IsotonicCalibration, Gamma]:
    r"""Fit the map from judge mean to label, and gamma.

    The map is isotonic on all labelled scores. Gamma compares squared errors with stated
    variances, :math:`\gamma = \sum (r_i - \hat m_i)^2 / \sum v_i`, with :math:`\hat m_i` predicted
    by a map fitted without row i's fold: with in-sample residuals gamma would be too small.

    Parameters
    ----------
    judge_scores : JudgeScores or iterable of JudgeScore
    true_labels : array (n,)
        Labels on [0, 1]; NaN where there is none.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(2000)
    >>> said = JudgeScores(np.clip(truth + rng.normal(0, 0.1, 2000), 0, 1), 0.01 / 4)
    >>> model, gamma = calibrate_scores_isotonic(said, truth)
    >>> bool(gamma > 2), gamma.identified
    (True, True)
    """
    scores = as_judge_scores(judge_scores)
    labels = float_array("true_labels", true_labels)
    if labels.shape != (len(scores),):
        raise CJEError(f"{len(scores)} judge scores but labels of shape {labels.shape}")
    known = np.flatnonzero(~np.isnan(labels))
    x, y = scores.mean[known], labels[known]
    if not isinstance(k_folds, int | np.integer) or k_folds < 2:
        raise CJEError("k_folds must be an integer of at least 2", value=k_folds)
    check_labels(y, k_folds)
    folds = get_content_folds([x, scores.variance[known], y], k_folds, random_state)
    held_out = np.empty(len(known))
    for fold in range(k_folds):
        inside = folds == fold
        if inside.any():
            model = isotonic_fit(x[~inside], y[~inside])
            held_out[inside] = isotonic_predict(*model, x[inside])
    gamma = calibrate_variance_gamma(y, held_out, scores.variance[known])
    return IsotonicCalibration(*isotonic_fit(x, y)), gamma


def check_labels(labels: FloatArray, n_folds: int) -> None:
    """Check that labels are on [0, 1], and at least as many as folds.

    Raises
    ------
    CJEError
        With the first label outside [0, 1], or the number of labels.
    """
    good = (labels >= 0.0) & (labels <= 1.0)
    if not good.all():
        row = int(np.argmin(good))
        raise CJEError(
            "a label must be in [0, 1]", where=f"label {row}", value=float(labels[row]),
            hint="map the labels' scale first: Scale(low, high).to_unit(labels)",
        )  # fmt: skip
    if len(labels) < n_folds:
        raise CJEError(
            f"{len(labels)} labels are fewer than the {n_folds} folds",
            hint="label more rows, or lower k_folds",
        )


def apply_full_calibration(
    judge_scores: JudgeScores | Iterable[JudgeScore], iso_model: IsotonicCalibration, gamma: float
) -> CalibratedRewards:
    """Debiased means and scaled variances of every score."""
    if not isinstance(iso_model, IsotonicCalibration):
        raise CJEError(
            "iso_model must be an IsotonicCalibration", value=iso_model,
            hint="calibrate_scores_isotonic gives one",
        )  # fmt: skip
    scores = as_judge_scores(judge_scores)
    variance = apply_variance_scaling(scores.variance, gamma)
    return CalibratedRewards(iso_model.predict(scores.mean), variance, scores)
