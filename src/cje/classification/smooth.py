r"""Smooth calibration error: no bins, and one bandwidth that the data choose.

With the reflected Gaussian kernel :math:`K_\sigma` on [0, 1],

.. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac1W \sum_i w_i K_\sigma(t, p_i)(y_i - p_i)
          \Big| dt ,

which falls as :math:`\sigma` grows. smECE is its value where it meets the diagonal,
:math:`\mathrm{smECE}_{\sigma^*} = \sigma^*`. The reflected Gaussian is the heat kernel of the unit
interval with insulated ends: in the cosine basis, smoothing multiplies coefficient k by
:math:`e^{-(\pi k \sigma)^2/2}`. One cosine transform of the gridded residuals then serves every
bandwidth.

References
----------
Błasiok and Nakkiran (2023), "Smooth ECE: principled reliability diagrams via kernel smoothing",
arXiv:2309.12236.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct, idct
from scipy.special import ndtr

from cje.checks import check_number
from cje.classification._arrays import check_binary, row_shares
from cje.classification.bins import mean_design_effect
from cje.classification.folded import Noise, inverted_limits
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["smooth_ece", "smooth_ece_at", "smooth_ece_limits", "smooth_of"]

_GRID = 4096  # cells of [0, 1]; smaller bandwidths than two cells are not resolved
_SMALLEST = 2.0 / _GRID
_COARSE = 512  # cells of the grid on which standard errors are computed
_BOX_ERROR_SHARE = 0.2
_WIDEST = 100.0  # from ten on, all but the mean is smoothed away to the last bit
_LIMIT_STEPS = 16  # halvings of [0, 1]: limits to 1e-5


def _gridded(p: FloatArray, mass: FloatArray, size: int) -> FloatArray:
    """Mass at `p`, shared linearly between the centres of the two nearest cells."""
    position = np.clip(p * size - 0.5, 0.0, size - 1.0)
    left = np.minimum(position.astype(np.int64), size - 2)
    share = position - left
    total = np.zeros(size)
    total += np.bincount(left, weights=mass * (1.0 - share), minlength=size)
    total[1:] += np.bincount(left, weights=mass * share, minlength=size)[: size - 1]
    return total


def _smoother(
    residual: FloatArray, p: FloatArray, w: FloatArray | None
) -> Callable[[float], float]:
    """The function sigma -> smECE_sigma of these data."""
    gap = residual if w is None else w * residual
    total = len(p) if w is None else float(w.sum())
    coefficients = dct(_gridded(p, gap / total, _GRID), type=2, norm="ortho")
    frequency = np.pi * np.arange(_GRID)

    def at(sigma: float) -> float:
        decay = np.exp(-0.5 * (frequency * sigma) ** 2)
        return float(np.abs(idct(coefficients * decay, type=2, norm="ortho")).sum())

    return at


def smooth_ece_at(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    bandwidth: float,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Smooth calibration error at a given bandwidth. Other parameters as in `smooth_ece`.

    Examples
    --------
    >>> round(smooth_ece_at([1, 1], [0.75, 0.75], 0.1), 6)
    0.25
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    sigma = check_number("bandwidth", bandwidth)
    if sigma <= 0.0:
        raise CJEError("a bandwidth must be a positive number", value=bandwidth)
    return _smoother(y - p, p, w)(min(sigma, _WIDEST))


def smooth_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Smooth calibration error at the bandwidth that equals it.

    Parameters
    ----------
    y_true : array (n,)
        Outcomes, 0 or 1.
    y_prob : array (n,)
        Predicted probability of 1.
    sample_weight : array (n,), optional
    pos_label : label, optional
        The label that counts as 1, where `y_true` holds two labels other than 0 and 1.

    Examples
    --------
    >>> round(smooth_ece([1, 1, 0, 1], [0.75] * 4), 6)
    0.0
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return smooth_of(p, w)(y - p)


def smooth_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """The smooth calibration error as a function of the residuals."""
    return lambda residual: _own_bandwidth(_smoother(residual, p, w))


def _own_bandwidth(at: Callable[[float], float]) -> float:
    if at(_SMALLEST) <= _SMALLEST:  # below the grid's resolution the bandwidth plays no part
        return at(_SMALLEST)
    return _crossing(lambda sigma: at(sigma) >= sigma, _SMALLEST)


def _crossing(above: Callable[[float], bool], low: float, steps: int = 40) -> float:
    """Largest sigma up to one with `above(sigma)`, for a condition that holds only below it."""
    high = 1.0
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if above(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _standard_error(p: FloatArray, *variances: FloatArray) -> Callable[[float], FloatArray]:
    """Standard errors of the smoothed residual, times the cell width, on the coarse grid.

    One column for each way to put the variance of a row.
    """
    mass = np.column_stack([_gridded(p, variance, _COARSE) for variance in variances])
    i = np.arange(_COARSE)
    apart, mirrored = np.abs(i[:, None] - i[None, :]), i[:, None] + i[None, :] + 1

    def at(sigma: float) -> FloatArray:
        # The kernel depends on distances alone, all multiples of the cell width.
        distance = np.arange(4 * _COARSE) / _COARSE
        profile = np.exp(-0.5 * (distance / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))
        kernel = profile[apart] + profile[mirrored] + profile[2 * _COARSE - mirrored]
        if sigma > 0.2:  # the second images; below, they are less than 1e-20
            kernel += profile[2 * _COARSE - apart] + profile[2 * _COARSE + apart]
        return np.asarray(np.sqrt(kernel**2 @ mass) / _COARSE)

    return at


def _sup_quantile(sigma: float, error: float) -> float:
    r"""Level that a standardised smooth noise on [0, 1] exceeds with probability at most `error`.

    Rice's formula: :math:`2(\Phi(-u) + e^{-u^2/2} / (2\sqrt2\,\pi\sigma))` bounds the probability.
    """
    low, high = 0.0, 10.0
    for _ in range(50):
        u = 0.5 * (low + high)
        crossings = np.exp(-0.5 * u * u) / (2.0 * np.sqrt(2.0) * np.pi * sigma)
        if 2.0 * (float(ndtr(-u)) + crossings) > error:
            low = u
        else:
            high = u
    return high


def smooth_ece_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    r"""Confidence limits for the population's smECE, by inversion at each bandwidth.

    :math:`\mathrm{smECE} \ge \sigma` exactly if :math:`\mathrm{smECE}_\sigma \ge \sigma`, and
    limits for the latter are those of a sum of absolute values (`folded`) over a grid. So the lower
    limit is the largest :math:`\sigma` below its own lower limit, the upper one likewise. Clusters
    raise every variance by one design effect, the mean one of equal-mass cells.
    """
    share = row_shares(len(p), w)
    effect = mean_design_effect(y, p, w, groups)
    rows = 1.0 / float(share @ share) / effect
    least = effect * share**2 * (y - p) ** 2
    # The variance of two added pseudo-rows: outcomes that all agree still have noise.
    variance = least + effect * share**2 * (2.0 / rows)
    total = float(variance.sum())
    error_at = _standard_error(p, variance, least)
    value_at = _smoother(y - p, p, w)
    gap = y - p if w is None else w * (y - p)
    gap = _gridded(p, gap / (len(p) if w is None else w.sum()), _COARSE)
    spectrum = dct(gap, type=2, norm="ortho")
    frequency = np.pi * np.arange(_COARSE)

    def limits(sigma: float) -> tuple[float, float]:
        se, least_se = error_at(sigma).T
        curve = idct(spectrum * np.exp(-0.5 * (frequency * sigma) ** 2), type=2, norm="ortho")
        reach = _sup_quantile(sigma, (1.0 - level) / 2.0 * _BOX_ERROR_SHARE)
        floor = np.maximum(np.abs(curve) - reach * se, 0.0)
        noise = Noise(se, least_se, floor, total, total, 0.0, 0.0)
        return inverted_limits(value_at(sigma), noise, level)

    smallest = 2.0 / _COARSE
    low = 0.0
    if limits(smallest)[0] >= smallest:
        low = _crossing(lambda sigma: limits(sigma)[0] >= sigma, smallest, _LIMIT_STEPS)
    return low, _crossing(lambda sigma: limits(sigma)[1] >= sigma, smallest, _LIMIT_STEPS)
