r"""Confidence limits for a sum of absolute values, which noise can only raise.

The estimate is :math:`T = \sum_b |d_b|` with :math:`d_b \approx N(D_b, s_b^2)` and the target
:math:`\theta = \sum_b |D_b|`. Near zero, :math:`T` sits above :math:`\theta` by about
:math:`\sqrt{2/\pi}\sum s_b` in every sample, so no resampling of :math:`T` can cover
:math:`\theta`. The limits here invert tests of :math:`\theta` at the :math:`D` that is hardest to
reject, in closed form. With :math:`h(\delta) = E|N(\delta, 1)|` and :math:`e(\delta) = h(\delta) -
|\delta|` (its excess):

*Upper.* :math:`T` is the largest of the linear functions :math:`\sum \pm d_b`, of standard
deviation at most :math:`\sigma`, so that it falls below its centre by :math:`z\sigma` with
probability at most :math:`\Phi(-z)`. Among all :math:`D` with :math:`E_D T \le c = T + z\sigma`,
the largest :math:`\theta` has :math:`D_b = \delta s_b` for one :math:`\delta` (the mean is convex
in :math:`D`), which gives :math:`S\,h^{-1}(c / S)` with :math:`S = \sum s_b`. Here the
:math:`s_b` must not be too large, or noise would be blamed for what is miscalibration.

*Lower.* :math:`E_D T \le \theta + \sum_b s_b\, e(D_b/s_b)`. A simultaneous box, at a fifth of the
error rate, bounds each :math:`|D_b|` from below and so its excess from above; bins whose gap is
beyond doubt cost nothing. :math:`\theta_0` is rejected if :math:`T` exceeds this mean by the
quantile of its noise, whose variance is at most :math:`(1 - 2/\pi)\sum s_b^2` plus a term that
grows with :math:`\theta_0`; at zero the quantile is that of a sum of half-normals.

Where a row enters several cells, :math:`\sum s_b^2` is multiplied by the number of cells it enters
(the Cauchy-Schwarz bound).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from cje.classification.bins import BinSums
from cje.kernels.arrays import FloatArray

__all__ = ["Noise", "cell_noise", "excess", "folded_limits", "skewed_quantile", "standard_errors"]

_HALF_NORMAL_MEAN = float(np.sqrt(2.0 / np.pi))
_HALF_NORMAL_VARIANCE = 1.0 - 2.0 / np.pi
_HALF_NORMAL_SKEWNESS = 0.9952717464311565
# Steepest chord of the variance of |N(delta, 1)| from its value at zero (at delta = 1.49).
_VARIANCE_CHORD = 0.3052
_BOX_SHARE = 0.2  # of the lower limit's error rate


def excess(delta: FloatArray) -> FloatArray:
    """`E|N(delta, 1)| - |delta|`: from 0.798 at zero to nothing."""
    size = np.abs(delta)
    density = np.exp(-0.5 * size * size) / np.sqrt(2.0 * np.pi)
    return np.asarray(2.0 * (density - size * ndtr(-size)))


def _inverse_mean(value: float) -> float:
    """The `delta >= 0` with `E|N(delta, 1)| = value`; zero where the value is below its minimum."""
    if value <= _HALF_NORMAL_MEAN:
        return 0.0
    low, high = 0.0, value
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle + float(excess(np.asarray(middle))) < value:
            low = middle
        else:
            high = middle
    return high


class Noise(NamedTuple):
    """What is known of the noise in a sum of absolute values.

    Attributes
    ----------
    se : array (C,)
        Standard error of each term, rather too large than too small: for what noise may do.
    least_se : array (C,)
        The same, rather too small: for what noise must have done.
    floor : array (C,)
        Lower bound on each term's target, jointly valid at the box's share of the error rate.
    variance : float
        Bound on the variance of any signed sum of the terms.
    null_variance, null_skewness : float
        Bounds on variance and skewness of the total when every target is zero.
    variance_slope : float
        How fast the bound on the variance grows with the target total.
    """

    se: FloatArray
    least_se: FloatArray
    floor: FloatArray
    variance: float
    null_variance: float
    null_skewness: float
    variance_slope: float


def standard_errors(cells: BinSums, share: FloatArray) -> FloatArray:
    r"""Standard error of ``share * gap`` of each cell.

    The outcome's variance is taken at the Agresti-Coull proportion (two successes and two failures
    added), so that a cell whose outcomes all agree is not taken for noiseless. The squared gap is
    added because the number of rows in a cell is random too: the target is the population's value.
    """
    n = cells.effective
    middle = (n * cells.mean_y + 2.0) / (n + 4.0)
    outcome = (1.0 + 4.0 / n) * middle * (1.0 - middle)
    per_row = outcome + cells.gap**2 * np.maximum(1.0 - share, 0.0)
    return np.asarray(share * np.sqrt(per_row / n))


def cell_noise(cells: BinSums, share: FloatArray, level: float, copies: int = 1) -> Noise:
    """Noise of ``share * gap`` of the cells, each row of which is in `copies` cells."""
    se = standard_errors(cells, share)
    plain = share * np.sqrt(cells.mean_y * (1.0 - cells.mean_y) / cells.effective)
    error = (1.0 - level) / 2.0 * _BOX_SHARE
    reach = -float(ndtri(error / (2.0 * len(se))))
    squares = float(copies * (se**2).sum())
    skewness = _HALF_NORMAL_SKEWNESS
    if copies == 1:
        skewness *= float((se**3).sum() / (se**2).sum() ** 1.5)
    return Noise(
        se=se,
        least_se=np.minimum(plain, se),
        floor=np.maximum(share * np.abs(cells.gap) - reach * se, 0.0),
        variance=squares,
        null_variance=_HALF_NORMAL_VARIANCE * squares,
        null_skewness=skewness,
        variance_slope=_VARIANCE_CHORD * copies * float(se.max()),
    )


def folded_limits(total: float, noise: Noise, level: float) -> tuple[float, float]:
    """Lower and upper limit for the target of `total`, each at half the error rate."""
    return _lower(total, noise, level), _upper(total, noise, level)


def _upper(total: float, noise: Noise, level: float) -> float:
    z = -float(ndtri((1.0 - level) / 2.0))
    most = total + z * float(np.sqrt(noise.variance))
    scale = float(noise.least_se.sum())
    return most if scale == 0.0 else scale * _inverse_mean(most / scale)


def _lower(total: float, noise: Noise, level: float) -> float:
    error = (1.0 - level) / 2.0 * (1.0 - _BOX_SHARE)
    z = -float(ndtri(error))
    positive = noise.se > 0.0
    se, floor = noise.se[positive], noise.floor[positive]
    mean_excess = float((se * excess(floor / se)).sum())
    null_reach = np.sqrt(noise.null_variance) * skewed_quantile(error, noise.null_skewness)

    def accepted(theta: float) -> bool:
        variance = min(noise.variance, noise.null_variance + noise.variance_slope * theta)
        reach = max(null_reach, z * np.sqrt(variance))
        return bool(theta + mean_excess + reach >= total)

    sure = float(noise.floor.sum())
    if accepted(sure):
        return sure
    low, high = sure, max(total, sure)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if accepted(middle):
            high = middle
        else:
            low = middle
    return low


def skewed_quantile(error: float, skewness: float) -> float:
    """Upper quantile of a standardised gamma variable of the given skewness."""
    if skewness < 1e-6:
        return -float(ndtri(error))
    shape = 4.0 / skewness**2
    return float((gammaincinv(shape, 1.0 - error) - shape) / np.sqrt(shape))
