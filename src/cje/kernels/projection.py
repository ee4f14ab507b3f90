"""Stabilising importance weights: the mean-one monotone projection and variance-safe blending."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray
from cje.kernels.isotonic import isotonic_fitted

__all__ = ["mean_one_projection", "variance_safe_blend"]


def mean_one_projection(w: ArrayLike, index: ArrayLike, *, increasing: bool = True) -> FloatArray:
    """Closest weights that are monotone in `index` and have mean one.

    Solves ``min_m sum_i (w_i / mean(w) - m_i)^2`` over ``m`` monotone in `index` with ``m >= 0``
    and ``mean(m) = 1``. One pool-adjacent-violators pass is enough: it replaces weights by block
    means, which keeps their mean and their sign, so that the optimum without the two side
    conditions satisfies them.

    Parameters
    ----------
    w : array_like
        Non-negative weights.
    index : array_like
        The ordering variable; rows that share a value get one weight.
    increasing : bool
        Direction.

    Returns
    -------
    ndarray
        One weight for each row, mean 1 to rounding. All ones where every weight is zero.

    Examples
    --------
    >>> mean_one_projection([0.0, 4.0, 2.0], [0.1, 0.2, 0.3]).tolist()
    [0.0, 1.5, 1.5]
    """
    weights = np.asarray(w, dtype=np.float64)
    largest = weights.max()
    if largest == 0.0:
        return np.ones(len(weights))
    # Scaled first: the sum of weights near the largest float would overflow.
    fitted = isotonic_fitted(index, weights / largest, increasing=increasing)
    fitted /= fitted.mean()
    return fitted


def variance_safe_blend(
    raw: ArrayLike, calibrated: ArrayLike, rho: float
) -> tuple[FloatArray, float]:
    """Mix raw and calibrated weights so that the variance is at most `rho` times the raw one.

    The blend is ``(1 - a) raw + a calibrated``; its variance is the quadratic
    ``Var(raw) + 2 a Cov(raw, d) + a^2 Var(d)`` with ``d = calibrated - raw``, so the largest ``a``
    in [0, 1] under the cap is 1 or a root. Where no ``a`` meets the cap, the one of least variance
    is taken; the caller can tell by comparing variances.

    Parameters
    ----------
    raw, calibrated : array_like
        Weights, one length.
    rho : float
        Cap on ``Var(blend) / Var(raw)``.

    Returns
    -------
    blend : ndarray
    a : float
        Share of the calibrated weights.

    Examples
    --------
    >>> blend, share = variance_safe_blend([0.0, 2.0], [2.0, 0.0], 0.25)
    >>> share, blend.tolist()
    (0.75, [1.5, 0.5])
    """
    start = np.asarray(raw, dtype=np.float64)
    end = np.asarray(calibrated, dtype=np.float64)
    step = end - start
    centred, move = start - start.mean(), step - step.mean()
    before = float(np.mean(centred * centred))
    slope = float(np.mean(centred * move))
    curve = float(np.mean(move * move))
    share = _largest_share(before, slope, curve, rho)
    return start + share * step if share < 1.0 else end.copy(), share


def _largest_share(before: float, slope: float, curve: float, rho: float) -> float:
    """Largest ``a`` with ``before + 2 a slope + a^2 curve <= rho before``, or the minimiser."""
    excess = (1.0 - rho) * before
    if curve == 0.0 or excess + 2.0 * slope + curve <= 0.0:
        return 1.0
    lowest = min(max(-slope / curve, 0.0), 1.0)
    discriminant = slope * slope - curve * excess
    if discriminant < 0.0:
        return lowest
    root = (-slope + float(np.sqrt(discriminant))) / curve
    return root if 0.0 <= root <= 1.0 else lowest
