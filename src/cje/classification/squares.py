r"""Confidence limits for a sum of squares, whose noise can be subtracted.

The estimate is :math:`\hat Q = \sum_b v_b (d_b^2 - s_b^2)` with :math:`d_b \approx N(D_b, s_b^2)`
and the target :math:`Q = \sum_b v_b D_b^2`. It has no bias, and with :math:`a_b = v_b s_b^2`

.. math:: \operatorname{Var}(\hat Q) = 2 \sum_b a_b^2 + 4 \sum_b a_b v_b D_b^2 .

Away from zero the second part dominates and :math:`\hat Q` is close to normal; at zero it is a
weighted chi-square, whose quantiles are a gamma's of its first three moments. The limits invert the
tests of each :math:`Q`, the slope of the variance taken from the data and never below that at zero.

References
----------
Kumar, Liang and Ma (2019), "Verified uncertainty calibration". Lee, Huang, Hassani and Dobriban
(2023), "T-Cal: an optimal test for the calibration of predictive models", JMLR 24.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtri

from cje.kernels.arrays import FloatArray

__all__ = ["skewed_quantile", "squares_limits"]


def skewed_quantile(error: float, skewness: float) -> float:
    """Upper quantile of a standardised gamma variable of the given skewness."""
    if skewness < 1e-6:
        return -float(ndtri(error))
    shape = 4.0 / skewness**2
    return float((gammaincinv(shape, 1.0 - error) - shape) / np.sqrt(shape))


def squares_limits(
    d: FloatArray,
    s: FloatArray,
    v: FloatArray,
    error: float,
    *,
    least: FloatArray | None = None,
    dependence: float = 1.0,
    extra_variance: float = 0.0,
) -> tuple[float, float]:
    """Lower and upper limit for ``sum v * D**2``, `error` outside on each side.

    `s` is biased upwards, to bound what noise can add; `least`, biased downwards, is what the upper
    limit subtracts. `dependence` multiplies the variance at zero: the squared Frobenius norm of the
    covariance of the terms over that of its diagonal. `extra_variance` is that of the weights `v`
    themselves.
    """
    noise = v * s**2
    estimate = float((v * d**2 - noise).sum())
    most = estimate if least is None else float((v * (d**2 - least**2)).sum())
    at_zero = 2.0 * dependence * float((noise**2).sum())
    if at_zero == 0.0:
        return max(estimate, 0.0), max(most, 0.0)
    skewness = 8.0 * float((noise**3).sum()) / (2.0 * float((noise**2).sum())) ** 1.5
    z, slope = -float(ndtri(error)), 4.0 * _noise_of_signal(d, s, v, noise) * dependence
    null_reach = float(np.sqrt(at_zero)) * skewed_quantile(error, skewness)

    def spread(target: float) -> float:
        return float(np.sqrt(at_zero + slope * target + extra_variance))

    def surplus(target: float) -> float:
        return estimate - target - max(null_reach, z * spread(target))

    def shortfall(target: float) -> float:
        return target - most - z * spread(target)

    low = brentq(surplus, 0.0, estimate) if surplus(0.0) > 0.0 else 0.0
    return float(low), _first_root(shortfall, max(most, 0.0) + z * spread(0.0))


def _noise_of_signal(d: FloatArray, s: FloatArray, v: FloatArray, noise: FloatArray) -> float:
    """Mean of the noise over the terms, weighted by their part of the target.

    A prior with the weight of one unit of noise per term keeps it between their mean and maximum.
    """
    part = v * np.maximum(d**2 - s**2, 0.0) + noise
    return float(part @ noise / part.sum())


def _first_root(f: Callable[[float], float], scale: float) -> float:
    """The root of an increasing function that starts at zero or below, or zero."""
    if f(0.0) >= 0.0:
        return 0.0
    high = scale
    while f(high) < 0.0:
        high *= 2.0
    return float(brentq(f, 0.0, high))
