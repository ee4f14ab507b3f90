"""What every metric returns: a number, its interval and its findings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, stdtrit

from cje.checks import check_level
from cje.findings import Finding
from cje.findings.metrics import METRIC_UNDEFINED
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = [
    "MetricEstimate",
    "Spread",
    "log_interval",
    "logit_interval",
    "normal_interval",
    "spread_of",
    "undefined",
]


class Spread(NamedTuple):
    """Standard error of an estimate, its degrees of freedom, and the influence behind both."""

    se: float
    df: float  # inf where rows are independent; clusters - 1 with groups
    influence: FloatArray  # one value per independent unit, in the sum convention

    def reach(self, level: float) -> float:
        """Half width of a symmetric interval."""
        return self.quantile(level) * self.se

    def quantile(self, level: float) -> float:
        """Student's t (normal) quantile of a two-sided interval."""
        return float(stdtrit(min(self.df, 1e10), 0.5 + check_level(level) / 2))


@dataclass(frozen=True)
class MetricEstimate:
    """A metric's value with its interval; ``float(result)`` is the value.

    Parameters
    ----------
    name : str
        What was measured.
    value : float
        The estimate; NaN where it is not defined, with a finding that says why.
    interval : Interval
        Confidence interval (low, high, level, method).
    n : int
        Rows behind it.
    standard_error : float, optional
        From the influence function; absent where the interval does not come from one.
    details : mapping
        Further numbers, named.
    findings : tuple of Finding
        Warnings the reader must see.
    influence : array, optional
        Influence of each row (each cluster, where `groups` was given) on the value; a standard
        error is ``sqrt(m / (m - 1) * sum(influence ** 2))``. Paired differences are made of it.
    clustered : bool
        The units of `influence` are clusters.

    Examples
    --------
    >>> result = MetricEstimate("C", 0.7, Interval(0.6, 0.8), 100)
    >>> float(result), 0.75 in result.interval
    (0.7, True)
    """

    name: str
    value: float
    interval: Interval
    n: int
    standard_error: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    influence: FloatArray | None = field(default=None, repr=False, compare=False)
    clustered: bool = False

    @property
    def label(self) -> str:
        """The name with the horizon, such as ``"ICI at 5"``: distinct between horizons."""
        horizon = self.details.get("horizon")
        if horizon is None:
            return self.name
        return f"{self.name.removesuffix(' at horizon').removesuffix('(t)')} at {horizon:g}"

    def at_horizon(self, horizon: float) -> MetricEstimate:
        """The same estimate, marked as belonging to a horizon."""
        return replace(self, details=dict(self.details) | {"horizon": horizon})

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        head = f"{self.label}: {self.value:.4g} ({self.interval.level:.0%} {low:.4g} to {high:.4g})"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; a number that is not defined is None."""
        return {
            "name": self.name,
            "value": _finite(self.value),
            "low": _finite(self.interval.low),
            "high": _finite(self.interval.high),
            "level": self.interval.level,
            "method": self.interval.method,
            "n": self.n,
            "standard_error": self.standard_error,
            "details": dict(self.details),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def undefined(
    name: str, n: int, level: float, why: str, details: dict[str, Any] | None = None
) -> MetricEstimate:
    """A metric that is NaN, with the reason as a finding and as a `RuntimeWarning`."""
    warnings.warn(why, RuntimeWarning, stacklevel=3)
    finding = METRIC_UNDEFINED.finding(reason=why, details={})
    interval = Interval(np.nan, np.nan, level, "none")
    return MetricEstimate(name, np.nan, interval, n, None, details or {}, (finding,))


def spread_of(influence: FloatArray, cluster: IntArray | None = None) -> Spread:
    """Standard error sqrt(m/(m-1) sum psi^2) over the m independent units (rows or clusters)."""
    df = np.inf
    if cluster is not None:
        influence = cluster_sums(influence, cluster, int(cluster.max()) + 1)
        df = float(len(influence) - 1)
    m = len(influence)
    return Spread(float(np.sqrt((influence @ influence) * m / max(m - 1, 1))), df, influence)


def normal_interval(value: float, spread: Spread, level: float) -> Interval:
    """Value plus or minus a normal (Student's t, with clusters) quantile of standard errors."""
    reach = spread.reach(level)
    return Interval(value - reach, value + reach, level, "normal" if np.isinf(spread.df) else "t")


def log_interval(value: float, spread: Spread, level: float) -> Interval:
    """Symmetric on the log scale, for positive ratios; the spread is on the natural scale."""
    factor = float(np.exp(min(spread.reach(level) / value, 700.0)))
    return Interval(value / factor, value * factor, level, "log")


def logit_interval(value: float, spread: Spread, level: float, pairs: int) -> Interval:
    """Symmetric on the logit scale, for shares of pairs in (0, 1).

    At 0 and 1 the standard error is zero. `pairs` pairs without a common subject are then that many
    independent trials with the same outcome, and the interval is Clopper and Pearson's.
    """
    if not 0 < value < 1:
        reach = float(((1 - check_level(level)) / 2) ** (1 / pairs))
        ends = (reach, 1.0) if value >= 1 else (0.0, 1.0 - reach)
        return Interval(*ends, level, "exact")
    half = spread.reach(level) / (value * (1 - value))
    centre = np.log(value / (1 - value))
    low, high = float(expit(centre - half)), float(expit(centre + half))
    return Interval(low, high, level, "logit")
