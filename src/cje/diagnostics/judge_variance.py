"""Gamma: how large a judge's errors are compared with the variances it states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array, is_number
from cje.data import RaterLabels
from cje.data.judge_score import MAX_VARIANCE
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = [
    "Gamma",
    "apply_variance_scaling",
    "calibrate_variance_gamma",
    "check_label_noise",
    "label_noise_of",
]

# Beyond it the judge's stated variances mislead by more than a factor of two.
_TOO_SURE, _EXCEEDING = 2.0, 0.5


class Gamma(float):
    r"""The factor that scales a judge's variances to the errors of its calibrated scores.

    :math:`\gamma = (E[(Y - f(S))^2] - \tau^2) / E[v]`, with :math:`\tau^2` the label's own noise,
    the variance of a label around the mean label of its response. It is the mean squared error of
    the calibrated score as a prediction of that mean, divided by the stated variance. It is

    - known where :math:`\tau^2` is (several raters, or stated);
    - an upper limit where it is not: noisy labels make any judge look too sure;
    - not known at all for single labels of 0 and 1, whose spread around f is f (1 - f) whatever the
      judge states: it is then 1 and not identified.

    A value below 1 is not a fault: a judge that correctly states the variance of its repeated
    answers has a gamma equal to its reliability, since calibration removes its noise.

    Attributes
    ----------
    identified : bool
        False where all stated variances are zero, or the labels are single zeros and ones.
    label_noise : float, optional
        :math:`\tau^2`; None where it is not known, and counted as zero.
    """

    identified: bool
    label_noise: float | None

    def __new__(
        cls, value: float, *, identified: bool = True, label_noise: float | None = None
    ) -> Gamma:
        self = super().__new__(cls, value)
        self.identified = identified
        self.label_noise = label_noise
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "value": float(self),
            "identified": self.identified,
            "label_noise": self.label_noise,
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Gamma:
        """The inverse of `to_dict`."""
        noise = data.get("label_noise")
        return cls(data["value"], identified=data["identified"], label_noise=noise)

    @property
    def believable(self) -> bool:
        """Whether the stated variances are not too small by more than a factor of two."""
        return not self.identified or self <= _TOO_SURE

    @property
    def exceeding(self) -> bool:
        """Whether the stated variances are more than twice the calibrated scores' errors."""
        return self.identified and self < _EXCEEDING

    @property
    def verdict(self) -> str:
        """What the factor means, as a sentence."""
        if not self.identified:
            return (
                "not identified: the judge states no variance, or the labels are single zeros and "
                "ones, whose own noise cannot be distinguished from the judge's"
            )
        known = self.label_noise is not None
        if self > _TOO_SURE:
            who = "the judge is too sure" if known else "the judge is too sure, or labels are noisy"
            return f"{who}: errors are {float(self):.2g} times its stated variances"
        if self > 1.0:
            who = "a little too sure" if known else "a little too sure, or labels are noisy"
            return f"the judge is {who}"
        if self < _EXCEEDING:
            return (
                f"the calibrated scores' errors are {float(self):.2g} of the stated variances, "
                "which is not a fault where those describe the judge's repeated answers"
            )
        return "the judge's variances are about right"


def calibrate_variance_gamma(
    true_labels: ArrayLike,
    calibrated_means: ArrayLike,
    variances: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    label_noise: float | None = None,
) -> Gamma:
    r""":math:`\gamma = \sum a_i ((r_i - \hat m_i)^2 - \tau^2) / \sum a_i v_i`, not below zero.

    Weights a are 1 by default, and :math:`\tau^2` is `label_noise`.
    `calibrated_means` must be debiased and out of fold: otherwise bias counts as variance, or the
    errors are too small because the fit has seen the labels. See `Gamma` for what is identified.

    Raises
    ------
    CJEError
        Where lengths differ, a number is not finite, or a variance or weight is negative.
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
        raise CJEError("weights must be one per label, finite and not negative", value=a.shape)
    check_label_noise(label_noise)
    with np.errstate(over="ignore", invalid="ignore"):
        stated, seen = float(a @ v), float(a @ (r - m) ** 2)
        own = 0.0 if label_noise is None else label_noise * float(a.sum())
    if stated <= 0.0 or (label_noise is None and bool(((r == 0.0) | (r == 1.0)).all())):
        return Gamma(1.0, identified=False, label_noise=label_noise)
    gamma = max(seen - own, 0.0) / stated
    if not (np.isfinite(gamma) and np.isfinite(stated)):
        raise CJEError("labels, means, variances or weights differ too much in size", value=gamma)
    return Gamma(gamma, label_noise=label_noise)


def check_label_noise(value: float | None) -> None:
    """Raise CJEError unless `label_noise` is None or a possible variance of labels on [0, 1]."""
    if value is not None and not (is_number(value) and 0.0 <= value <= MAX_VARIANCE):
        raise CJEError(f"label_noise must lie between 0 and {MAX_VARIANCE:g}", value=value)


def label_noise_of(raters: RaterLabels | None) -> float | None:
    """Mean variance of a label that averages its raters; None without responses of several."""
    if raters is None:
        return None
    counts = np.bincount(raters.row).astype(np.float64)
    several = counts >= 2.0
    if not several.any():
        return None
    total = np.bincount(raters.row, raters.value)[several]
    squares = np.bincount(raters.row, raters.value**2)[several]
    n = counts[several]
    within = np.maximum(squares - total**2 / n, 0.0).sum() / (n - 1.0).sum()
    return float(within * (1.0 / counts[counts > 0.0]).mean())


def apply_variance_scaling(variances: ArrayLike, gamma: float) -> FloatArray:
    """``gamma v``, at most 1/4: no variance on [0, 1] is larger."""
    v = float_array("variances", variances)
    if not is_number(gamma) or gamma < 0.0:
        raise CJEError("gamma must be finite and not negative", value=gamma)
    if v.size and not (v.min() >= 0.0 and np.isfinite(v.max())):
        raise CJEError("a variance must be finite and not negative", value=float(v.min()))
    with np.errstate(over="ignore"):  # cut below
        return np.minimum(gamma * v, MAX_VARIANCE)
