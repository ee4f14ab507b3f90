"""Intervals from an estimate, its standard error, degrees of freedom and skewness.

Every function broadcasts over arrays, so that a simulation study costs one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit, stdtr, stdtrit

from cje.checks import LARGEST, check_level, finite_array, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["Interval", "IntervalMethod", "hall_transform", "interval_limits", "t_p_value"]

IntervalMethod = Literal["auto", "t", "logit", "skew"]

_NORMAL_DF = 1e8
_LARGEST_T = 1e60  # beyond it all statistics have the same p-value


@dataclass(frozen=True)
class Interval:
    """A confidence interval; iterates as ``(low, high)``.

    Examples
    --------
    >>> low, high = Interval(0.2, 0.4, 0.95, "t")
    >>> 0.3 in Interval(0.2, 0.4, 0.95, "t")
    True
    """

    low: float
    high: float
    level: float = 0.95
    method: str = "t"

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


def as_intervals(
    low: FloatArray, high: FloatArray, level: float, method: str
) -> tuple[Interval, ...]:
    """One `Interval` per pair of limits."""
    return tuple(
        Interval(float(a), float(b), level, method) for a, b in zip(low, high, strict=True)
    )


def _finite(name: str, values: Any) -> FloatArray:
    """Finite numbers of any shape whose products with each other stay finite."""
    return finite_array(name, values, ndim=None, largest=LARGEST)


def _ends(bounds: tuple[Any, Any] | None) -> tuple[FloatArray, ...]:
    """The lower and the upper ends, or nothing."""
    if bounds is None:
        return ()
    try:
        lower, upper = bounds
    except (TypeError, ValueError) as error:
        raise CJEError("bounds must be a lower and an upper end", value=bounds) from error
    ends = float_array("bounds", lower), float_array("bounds", upper)
    _check_shapes(*ends)
    if not (ends[0] <= ends[1]).all():
        raise CJEError("the lower bound must not be above the upper one", value=bounds)
    return ends


def _check_shapes(*arrays: FloatArray) -> None:
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError as error:
        raise CJEError(
            "values, standard errors and the rest must have one length",
            value=[array.shape for array in arrays],
        ) from error


def interval_limits(
    values: Any,
    standard_errors: Any,
    *,
    df: Any = np.inf,
    skewness: Any = 0.0,
    level: float = 0.95,
    bounds: tuple[Any, Any] | None = None,
    method: IntervalMethod = "auto",
) -> tuple[FloatArray, FloatArray]:
    r"""Lower and upper confidence limits.

    Parameters
    ----------
    values, standard_errors : array_like
        Estimates and their standard errors.
    df : array_like
        Degrees of freedom of the variance estimates (``inf`` gives the normal quantile).
    skewness : array_like
        Skewness of the *estimator* (third moment of its influence sum over the cubed standard
        error; of order one over the square root of n). Used by ``"skew"`` alone.
    level : float
        Nominal coverage.
    bounds : (low, high), optional
        Logical range of the quantity. Limits are cut to it: the parameter space is known.
    method : {"auto", "t", "skew", "logit"}
        ``"t"``: :math:`\hat\theta \pm t_{df} se`. ``"logit"``: the t interval on the logit scale of
        the range `bounds`, mapped back. ``"skew"``: Hall's monotone cubic transformation of the
        studentised estimate, which removes the first-order effect of skewness on coverage.
        ``"auto"`` is ``"skew"`` (equal to ``"t"`` where the skewness is zero).

    Notes
    -----
    With :math:`\kappa` the skewness of the estimator and :math:`T` the studentised error,
    :math:`g(T) = T + \kappa T^2/3 + \kappa^2 T^3/27 + \kappa/6` is close to normal, and

    .. math:: g^{-1}(x) = \frac{3}{\kappa}\left[\left(1 + \kappa (x - \kappa/6)\right)^{1/3}
              - 1\right].

    The limits are :math:`\hat\theta - se\,g^{-1}(\pm t_{df})`.

    References
    ----------
    Hall (1992), "On the removal of skewness by transformation", JRSS B 54, 221-228.
    """
    level = check_level(level)
    theta, se = _finite("values", values), _finite("standard errors", standard_errors)
    kappa, ends = _finite("skewness", skewness), _ends(bounds)
    nu = float_array("degrees of freedom", df)
    _check_shapes(theta, se, kappa, nu, *ends)
    if (se < 0.0).any():
        raise CJEError("a standard error cannot be negative", value=float(se.min()))
    # stdtrit has no limit at infinity; a hundred million is the normal quantile to 1e-8.
    quantile = stdtrit(np.minimum(nu, _NORMAL_DF), 0.5 + level / 2.0)
    quantile = np.where(se > 0.0, quantile, 0.0)  # zero standard error needs none
    # Strictly: scipy 1.13 returns 1e100 for every larger quantile.
    if not (quantile < LARGEST).all():
        raise CJEError(
            "no interval reaches this level with so few degrees of freedom", value=(level, df),
            hint="lower the level",
        )  # fmt: skip
    if method == "logit":
        if bounds is None or not (ends[0] < ends[1]).all():
            raise CJEError("a logit interval needs the bounds of the quantity", value=bounds)
        low, high = _logit_limits(theta, se, quantile, *(_finite("bounds", e) for e in ends))
    elif method == "t":
        low, high = theta - quantile * se, theta + quantile * se
    elif method in ("skew", "auto"):
        return skew_limits(theta, se, quantile, kappa, bounds)
    else:
        raise CJEError("unknown interval method", value=method, hint="use t, skew, logit or auto")
    return _cut(low, high, bounds)


def skew_limits(
    values: Any, standard_errors: Any, quantile: Any, skewness: Any, bounds: tuple[Any, Any] | None
) -> tuple[FloatArray, FloatArray]:
    """Hall's limits at a given critical value (a t quantile, or the max-t one)."""
    theta, se = np.asarray(values, float), np.asarray(standard_errors, float)
    kappa, q = np.asarray(skewness, float), np.asarray(quantile, float)
    return _cut(theta - se * _inverse_hall(q, kappa), theta - se * _inverse_hall(-q, kappa), bounds)


def _cut(
    low: FloatArray, high: FloatArray, bounds: tuple[Any, Any] | None
) -> tuple[FloatArray, FloatArray]:
    if bounds is not None:
        low, high = np.clip(low, bounds[0], bounds[1]), np.clip(high, bounds[0], bounds[1])
    return np.asarray(low, float), np.asarray(high, float)


def hall_transform(statistic: Any, skewness: Any) -> FloatArray:
    """`g(T)` of `interval_limits`: a studentised error made close to symmetric; increasing in T."""
    t = np.clip(np.asarray(statistic, float), -_LARGEST_T, _LARGEST_T)
    kappa = np.asarray(skewness, float)
    return np.asarray(t + kappa * t**2 / 3.0 + kappa**2 * t**3 / 27.0 + kappa / 6.0)


def _inverse_hall(x: FloatArray, kappa: FloatArray) -> FloatArray:
    """`g^{-1}(x)` of `interval_limits`, equal to x at zero skewness."""
    small = np.abs(kappa) < 1e-8
    safe = np.where(small, 1.0, kappa)
    cubic = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.asarray(np.where(small, x, cubic))


def _logit_limits(
    theta: FloatArray, se: FloatArray, quantile: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The t interval of ``log((theta - lower) / (upper - theta))``, mapped back.

    At a bound itself the delta method has no slope; there the plain t limits are returned.
    """
    span = upper - lower
    with np.errstate(over="ignore"):  # far outside narrow bounds, or wider than any of them
        share = (theta - lower) / span
        inside = (share > np.finfo(float).tiny) & (share < 1.0)
        p = np.where(inside, share, 0.5)
        centre = np.log(p / (1.0 - p))
        half = quantile * se / span / (p * (1.0 - p))
    low = np.where(inside, lower + span * expit(centre - half), theta - quantile * se)
    high = np.where(inside, lower + span * expit(centre + half), theta + quantile * se)
    return low, high


def t_p_value(
    statistic: Any, df: Any, alternative: Literal["two-sided", "greater", "less"] = "two-sided"
) -> FloatArray:
    """P-value of a t statistic; `alternative` is the direction of the claim.

    Examples
    --------
    >>> round(float(t_p_value(1.959964, float("inf"))), 6)
    0.05
    """
    t = float_array("statistic", statistic)
    nu = np.minimum(float_array("degrees of freedom", df), _NORMAL_DF)
    _check_shapes(t, nu)
    if np.isnan(t).any():
        raise CJEError("a t statistic must be a number", value=statistic)
    if not (nu > 0.0).all():
        raise CJEError("degrees of freedom must be positive", value=df)
    if alternative == "two-sided":
        return np.asarray(2.0 * stdtr(nu, -np.abs(t)))
    if alternative == "greater":
        return np.asarray(stdtr(nu, -t))
    if alternative == "less":
        return np.asarray(stdtr(nu, t))
    raise CJEError("unknown alternative", value=alternative, hint="two-sided, greater or less")
