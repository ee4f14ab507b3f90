"""Debias the judge's means, then ask how far its stated variances can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array, is_number
from cje.data.folds import get_content_folds
from cje.data.judge_score import MAX_VARIANCE, JudgeScore, JudgeScores
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = [
    "CalibratedReward",
    "CalibratedRewards",
    "Gamma",
    "IsotonicCalibration",
    "apply_full_calibration",
    "apply_variance_scaling",
    "as_judge_scores",
    "calibrate_scores_isotonic",
    "calibrate_variance_gamma",
]

# Outside this band the judge's stated variances mislead by more than a factor of two.
_BELIEVABLE = (0.5, 2.0)


class Gamma(float):
    """The factor that scales a judge's variances, with what it says about the judge.

    Attributes
    ----------
    identified : bool
        False where all stated variances are zero: nothing can be scaled, and the factor is 1.
    """

    identified: bool

    def __new__(cls, value: float, *, identified: bool = True) -> Gamma:
        self = super().__new__(cls, value)
        self.identified = identified
        return self

    @property
    def believable(self) -> bool:
        """Whether the stated variances mislead by no more than a factor of two."""
        return not self.identified or _BELIEVABLE[0] <= self <= _BELIEVABLE[1]

    @property
    def verdict(self) -> str:
        """What the factor means, in words."""
        if not self.identified:
            return "not identified: the judge states no variance"
        if self > _BELIEVABLE[1]:
            return f"the judge is too sure: its errors are {float(self):.2g} times its variances"
        if self > 1.0:
            return "the judge is a little too sure"
        if self < _BELIEVABLE[0]:
            return f"the judge is too unsure: its errors are {float(self):.2g} of its variances"
        return "the judge's variances are about right"


@dataclass(frozen=True)
class IsotonicCalibration:
    """A monotone map from judge score to expected label: linear between knots, flat outside."""

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
    """A reward with the uncertainty of the label around it: mean, variance, and the raw score."""

    mean: float
    variance: float
    raw: JudgeScore


class CalibratedRewards(Sequence[CalibratedReward]):
    """A batch of `CalibratedReward`: arrays that iterate as objects."""

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
    r"""Fit the map from judge mean to label, and gamma after it.

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
    x, y = scores.mean[known], check_labels(labels[known])
    if not isinstance(k_folds, int | np.integer) or k_folds < 2:
        raise CJEError("k_folds must be an integer of at least 2", value=k_folds)
    if len(known) < k_folds:
        raise CJEError(
            f"{len(known)} labels are fewer than the {k_folds} folds",
            hint="label more rows, or lower k_folds",
        )
    folds = get_content_folds([x, scores.variance[known], y], k_folds, random_state)
    held_out = np.empty(len(known))
    for fold in range(k_folds):
        inside = folds == fold
        if inside.any():
            model = isotonic_fit(x[~inside], y[~inside])
            held_out[inside] = isotonic_predict(*model, x[inside])
    gamma = calibrate_variance_gamma(y, held_out, scores.variance[known])
    return IsotonicCalibration(*isotonic_fit(x, y)), gamma


def check_labels(labels: FloatArray) -> FloatArray:
    """Labels on [0, 1], or an error that names the first that is not."""
    good = (labels >= 0.0) & (labels <= 1.0)
    if not good.all():
        row = int(np.argmin(good))
        raise CJEError(
            "a label must be in [0, 1]", where=f"label {row}", value=float(labels[row]),
            hint="map the labels' scale first: Scale(low, high).to_unit(labels)",
        )  # fmt: skip
    return labels


def calibrate_variance_gamma(
    true_labels: ArrayLike,
    calibrated_means: ArrayLike,
    variances: ArrayLike,
    weights: ArrayLike | None = None,
) -> Gamma:
    r""":math:`\gamma = \sum a_i (r_i - \hat m_i)^2 / \sum a_i v_i` (weights a, 1 by default).

    `calibrated_means` must be debiased and out of fold: otherwise bias counts as variance, or
    the fit flatters itself. With all variances zero gamma is 1 and not identified.
    """
    r, m = float_array("labels", true_labels), float_array("means", calibrated_means)
    v = float_array("variances", variances)
    if not r.shape == m.shape == v.shape or r.ndim != 1 or not len(r):
        raise CJEError("labels, means and variances must have one length", value=r.shape)
    if not (np.isfinite(r).all() and np.isfinite(m).all() and np.isfinite(v).all()):
        raise CJEError("labels, means and variances must be finite")
    if (v < 0.0).any():
        raise CJEError("a variance cannot be negative", value=float(v.min()))
    a = np.ones(len(r)) if weights is None else float_array("weights", weights)
    if a.shape != r.shape or not (a.min() >= 0.0 and np.isfinite(a.max())):
        raise CJEError("weights must be one a label, finite and not negative", value=a.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        stated, seen = float(a @ v), float(a @ (r - m) ** 2)
    if stated <= 0.0:
        return Gamma(1.0, identified=False)
    gamma = seen / stated
    if not (np.isfinite(gamma) and np.isfinite(stated)):
        raise CJEError("labels, means, variances or weights are too far apart in size", value=gamma)
    return Gamma(gamma)


def apply_variance_scaling(variances: ArrayLike, gamma: float) -> FloatArray:
    """``gamma v``, at most 1/4: no variance on [0, 1] is larger."""
    v = float_array("variances", variances)
    if not is_number(gamma) or gamma < 0.0:
        raise CJEError("gamma must be finite and not negative", value=gamma)
    if v.size and not (v.min() >= 0.0 and np.isfinite(v.max())):
        raise CJEError("a variance must be finite and not negative", value=float(v.min()))
    with np.errstate(over="ignore"):  # cut below
        return np.minimum(gamma * v, MAX_VARIANCE)


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
