r"""Anytime intervals of estimates with an influence function.

The critical value of a sequential boundary takes the place of the fixed quantile: converted to the
t distribution with the estimate's own degrees of freedom, and passed through Hall's
transformation, which removes the first-order effect of skewness. Both matter more here than at
a fixed sample, because the boundary lies further out in the tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, stdtrit

from cje.checks import check_level, float_array
from cje.errors import CJEError
from cje.inference.estimate import InfluenceEstimate
from cje.inference.intervals import Interval, skew_limits
from cje.inference.sequential.boundaries import Spending, mixture_boundary, spending_boundary
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = ["AnytimeRule", "Look", "anytime_intervals", "anytime_limits"]

FIRST_LOOK = 30
LEAST_TUNED = 200
_SPENT = 0.85  # share of the error that a finite horizon spends; the rest is a reserve
MOST_SKEWNESS = 0.35
_MOST_DF = 1e8  # stdtrit has no limit at infinity


@dataclass(frozen=True)
class AnytimeRule:
    r"""A sequence of intervals, fixed before the first look.

    The first look is the `first_look`-th label, or the first later one at which the estimator's
    skewness is at most 0.35: for a binary outcome at about eight labels of the rarer kind, for
    heavy tails once no few labels dominate. Before that the interval is the whole range.

    Parameters
    ----------
    tuned_at : int
        ``"mixture"``: the number of labels at which the sequence is narrowest; labelling may go on
        without end. ``"spending"``: the horizon, the most labels that will ever be looked at.
    method : {"mixture", "spending"}
    level : float
        Probability that the intervals of *all* looks contain the value.
    first_look : int
        Labels before the first look, at least 30.
    spending : {"quadratic", "obrien-fleming", "pocock"}
        How a finite horizon spends its error.

    Raises
    ------
    CJEError
        `tuned_at` below 200, for which coverage was not shown; a horizon before the first look.

    Examples
    --------
    >>> AnytimeRule(tuned_at=500).critical_value(500).round(3).item()
    3.035
    """

    tuned_at: int = 500
    method: Literal["mixture", "spending"] = "mixture"
    level: float = 0.95
    first_look: int = FIRST_LOOK
    spending: Spending = "quadratic"

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.method not in ("mixture", "spending"):
            raise CJEError(
                "unknown sequential method", value=self.method, hint="use mixture or spending"
            )
        for name, least in (("first_look", FIRST_LOOK), ("tuned_at", LEAST_TUNED)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise CJEError(f"{name} must be a whole number of at least {least}", value=value)
        if self.tuned_at < self.first_look:
            raise CJEError("the first look must not lie after tuned_at", value=self.first_look)

    def critical_value(self, count: Any) -> FloatArray:
        """Critical value after `count` labels; infinite before the first look.

        Raises
        ------
        CJEError
            A count beyond the horizon of a spending boundary.
        """
        n = float_array("count", count)
        looking = n >= self.first_look
        if self.method == "mixture":
            safe = np.where(looking, n, self.first_look)
            values = mixture_boundary(safe, tuned_at=self.tuned_at, level=self.level)
        else:
            if (n > self.tuned_at).any():
                raise CJEError(
                    f"the horizon of {self.tuned_at:,} labels is passed: its error is spent",
                    value=int(n.max()), hint="a mixture sequence has no horizon",
                )  # fmt: skip
            table = spending_boundary(
                int(self.first_look),
                int(self.tuned_at),
                level=1.0 - _SPENT * (1.0 - self.level),
                spending=self.spending,
            )
            values = table[np.where(looking, n, self.first_look).astype(int) - self.first_look]
        return np.where(looking, values, np.inf)


@dataclass(frozen=True)
class Look:
    """What one look at a growing sample shows.

    Attributes
    ----------
    name : str
    value, standard_error : float
    interval : Interval
        Valid at all looks at once; the whole range while `open` is false.
    open : bool
        Whether the first look has been reached for this quantity.
    fixed : Interval
        The interval for a sample whose size was fixed in advance. It is not valid here; it shows
        the price of repeated looks.
    """

    name: str
    value: float
    standard_error: float
    interval: Interval
    open: bool
    fixed: Interval


def anytime_limits(
    values: Any,
    standard_errors: Any,
    count: Any,
    rule: AnytimeRule,
    *,
    df: Any = np.inf,
    skewness: Any = 0.0,
    bounds: tuple[Any, Any] = (-np.inf, np.inf),
) -> tuple[FloatArray, FloatArray, BoolArray]:
    r"""Limits that hold at all looks at once, and whether each look is open.

    Estimates with variance :math:`v_t` and :math:`Cov(\hat\theta_s, \hat\theta_t) = v_t` for s < t
    form a Brownian motion in information; where part of the variance stays fixed (the judged rows
    do not grow) the count runs ahead of the information and, by Slepian's inequality, the limits
    are conservative.

    Parameters
    ----------
    values, standard_errors, df, skewness : array_like
        As in `cje.inference.interval_limits`.
    count : array_like
        Labels at each look.
    bounds : (low, high)
        Logical range: the limits of a look that is not open.

    Returns
    -------
    low, high : array
    open : bool array
        Where false, the labels are too few, too similar or too skewed for a look.

    References
    ----------
    Scharfstein, Tsiatis & Robins (1997), JASA 92, 1342-1350 (independent increments); Hall (1992),
    JRSS B 54, 221-228.
    """
    theta, se = float_array("values", values), float_array("standard errors", standard_errors)
    kappa = float_array("skewness", skewness)
    critical = rule.critical_value(count)
    is_open = np.isfinite(critical) & (se > 0.0) & (np.abs(kappa) <= MOST_SKEWNESS)
    nu = np.clip(float_array("degrees of freedom", df), 1.0, _MOST_DF)
    tail = ndtr(-np.where(is_open, critical, 1.0))
    quantile = -stdtrit(nu, np.maximum(tail, np.finfo(float).tiny))
    low, high = skew_limits(
        theta, np.where(is_open, se, 0.0), quantile, np.where(is_open, kappa, 0.0), bounds
    )
    lower, upper = (np.broadcast_to(np.asarray(b, float), low.shape) for b in bounds)
    return np.where(is_open, low, lower), np.where(is_open, high, upper), is_open


def anytime_intervals(
    estimate: InfluenceEstimate, count: int, rule: AnytimeRule
) -> tuple[Look, ...]:
    """One look at every quantity of an estimate made from `count` labels.

    Differences and gates are looks at ``estimate.difference(a, b)``. The guarantee is for each
    quantity by itself.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> estimate = InfluenceEstimate.from_rows(("new",), rng.normal(size=200), bounds=(-9, 9))
    >>> look = anytime_intervals(estimate, 200, AnytimeRule(tuned_at=200))[0]
    >>> 1.5 < look.interval.width / look.fixed.width < 1.6
    True
    """
    if not isinstance(rule, AnytimeRule):
        raise CJEError("an anytime interval needs an AnytimeRule", value=rule)
    bounds = (-np.inf, np.inf) if estimate.bounds is None else tuple(np.asarray(estimate.bounds).T)
    se = estimate.standard_errors()
    moved = np.zeros(len(estimate), dtype=bool)  # identical labels show no variance
    for part in estimate.components:
        if part.influence is not None:
            moved |= np.abs(part.influence).sum(axis=0) > 0.0
    low, high, is_open = anytime_limits(
        estimate.centre, np.where(moved, se, 0.0), count, rule,
        df=estimate.degrees_of_freedom(), skewness=estimate.skewness(), bounds=bounds,
    )  # fmt: skip
    return tuple(
        Look(
            name, float(estimate.values[k]), float(se[k]),
            Interval(float(low[k]), float(high[k]), rule.level, f"anytime-{rule.method}"),
            bool(is_open[k]), fixed,
        )
        for k, (name, fixed) in enumerate(
            zip(estimate.names, estimate.intervals(rule.level), strict=True)
        )
    )  # fmt: skip
