r"""The betting sequence: an exact interval for the mean of bounded values, at every look.

A gambler who bets against the mean m wins :math:`1 + c (y - m)/m` per value, a non-negative
martingale if m is true. A mixture over the fractions c adapts to the variance; no distribution and
no minimum sample are assumed, and the order of the values does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from cje.checks import check_level, float_array
from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray

__all__ = ["betting_interval", "betting_wealth"]

# Fractions of the capital at stake; small ones grow slowly but steadily, large ones on rare values.
_FRACTIONS = np.geomspace(0.003, 0.99, 30)
_STEPS = 60  # halvings of [0, 1]: beyond float precision


def betting_wealth(values: Any, mean: float, *, bounds: tuple[float, float]) -> FloatArray:
    r"""Log-wealth of the bets above and below `mean` after each value, shape (n, 2).

    .. math:: K^+_n(m) = \frac1C \sum_c \prod_{i \le n} \left(1 + c\,\frac{y_i - m}{m}\right)

    and :math:`K^-_n` the same of :math:`1 - y` against :math:`1 - m`. By Ville's inequality each
    ever exceeds :math:`2/\alpha` with probability at most :math:`\alpha/2` if `mean` is true.

    Parameters
    ----------
    values : array (..., n)
        In order; leading axes are further streams.
    mean : float
        The mean bet against, strictly within `bounds`.
    bounds : (low, high)
        Every possible value lies within.
    """
    y, m = _unit(values, bounds), (float(mean) - bounds[0]) / (bounds[1] - bounds[0])
    if not 0.0 < m < 1.0:
        raise CJEError("the mean must lie strictly within the bounds", value=mean)
    sides = []
    for x, at in ((y, m), (1.0 - y, 1.0 - m)):
        log = np.cumsum(np.log1p(_FRACTIONS[:, None] * (x[..., None, :] - at) / at), axis=-1)
        sides.append(logsumexp(log, axis=-2) - np.log(len(_FRACTIONS)))
    return np.stack(sides, axis=-1)


def betting_interval(values: Any, *, bounds: tuple[float, float], level: float = 0.95) -> Interval:
    """The means that no bet has ruled out; exact at all looks at once.

    Assumes that the values are drawn at random from a fixed population (or are martingale
    differences about one mean), and nothing else.

    Raises
    ------
    CJEError
        No values, or a value outside `bounds`.

    References
    ----------
    Waudby-Smith & Ramdas (2024), "Estimating means of bounded random variables by betting",
    JRSS B 86, 1-27.

    Examples
    --------
    >>> low, high = betting_interval([0.0] * 196 + [1.0] * 4, bounds=(0.0, 1.0))
    >>> 0.002 < low < 0.02 < high < 0.08
    True
    """
    y = _unit(values, bounds)
    if y.ndim != 1 or len(y) == 0:
        raise CJEError("a betting interval needs a list of values", value=y.shape)
    distinct, counts = np.unique(y, return_counts=True)
    against = np.log(2.0 / (1.0 - check_level(level)))
    low = _largest_refuted(distinct, counts, against)
    high = 1.0 - _largest_refuted(1.0 - distinct, counts, against)
    span = bounds[1] - bounds[0]
    return Interval(bounds[0] + span * low, bounds[0] + span * high, level, "betting")


def _largest_refuted(y: FloatArray, counts: Any, against: float) -> float:
    """The largest m in [0, 1] whose wealth, which falls with m, reaches `against`; 0 if none."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        m = 0.5 * (low + high)
        log = np.log1p(_FRACTIONS[:, None] * (y - m) / m) @ counts
        if logsumexp(log) - np.log(len(_FRACTIONS)) >= against:
            low = m
        else:
            high = m
    return low if low > 2.0**-_STEPS else 0.0


def _unit(values: Any, bounds: tuple[float, float]) -> FloatArray:
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise CJEError("bounds must be two finite numbers, the low one first", value=bounds)
    y = (float_array("values", values) - low) / (high - low)
    inside = (y >= 0.0) & (y <= 1.0)
    if not inside.all():
        raise CJEError(
            "a value lies outside the bounds", value=float(np.asarray(values)[~inside][0]),
            hint="give the whole range the values can take",
        )  # fmt: skip
    return y
