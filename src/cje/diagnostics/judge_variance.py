"""Gamma: how large a judge's errors are beside the variances it states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array, is_number
from cje.data.judge_score import MAX_VARIANCE
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["Gamma", "apply_variance_scaling", "calibrate_variance_gamma"]

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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"value": float(self), "identified": self.identified, "verdict": self.verdict}

    @property
    def believable(self) -> bool:
        """Whether the stated variances mislead by no more than a factor of two."""
        return not self.identified or _BELIEVABLE[0] <= self <= _BELIEVABLE[1]

    @property
    def verdict(self) -> str:
        """What the factor means, as a sentence."""
        if not self.identified:
            return "not identified: the judge states no variance"
        if self > _BELIEVABLE[1]:
            return f"the judge is too sure: its errors are {float(self):.2g} times its variances"
        if self > 1.0:
            return "the judge is a little too sure"
        if self < _BELIEVABLE[0]:
            return f"the judge is too unsure: its errors are {float(self):.2g} of its variances"
        return "the judge's variances are about right"


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
        raise CJEError("weights must be one per label, finite and not negative", value=a.shape)
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
