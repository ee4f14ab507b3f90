"""What every metric returns: a number, its interval, and what the reader should know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from cje.checks import check_level
from cje.findings import Finding
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray

__all__ = ["MetricEstimate", "log_interval", "logit_interval", "normal_interval", "standard_error"]


@dataclass(frozen=True)
class MetricEstimate:
    """A metric's value with its interval; ``float(result)`` is the value.

    Parameters
    ----------
    name : str
        What was measured.
    value : float
        The estimate.
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

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        head = f"{self.name}: {self.value:.4g} ({self.interval.level:.0%} {low:.4g} to {high:.4g})"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "value": self.value,
            "low": self.interval.low,
            "high": self.interval.high,
            "level": self.interval.level,
            "method": self.interval.method,
            "n": self.n,
            "standard_error": self.standard_error,
            "details": dict(self.details),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def standard_error(influence: FloatArray) -> float:
    """Standard error from an influence vector in the sum convention: sqrt(n/(n-1) sum psi^2)."""
    n = len(influence)
    return float(np.sqrt((influence @ influence) * n / max(n - 1, 1)))


def _z(level: float) -> float:
    return float(ndtri(0.5 + check_level(level) / 2))


def normal_interval(value: float, se: float, level: float) -> Interval:
    """Value plus or minus a normal quantile of standard errors."""
    return Interval(value - _z(level) * se, value + _z(level) * se, level, "normal")


def log_interval(value: float, se: float, level: float) -> Interval:
    """Normal on the log scale, for positive ratios; `se` is on the natural scale."""
    factor = float(np.exp(_z(level) * se / value))
    return Interval(value / factor, value * factor, level, "log")


def logit_interval(value: float, se: float, level: float, pairs: int) -> Interval:
    """Normal on the logit scale, for shares of pairs in (0, 1).

    At 0 and 1 the standard error is nothing. `pairs` pairs without a common subject are then that
    many independent trials that all came out alike, and the interval is Clopper and Pearson's.
    """
    if not 0 < value < 1:
        reach = float(((1 - check_level(level)) / 2) ** (1 / pairs))
        ends = (reach, 1.0) if value >= 1 else (0.0, 1.0 - reach)
        return Interval(*ends, level, "exact")
    half = _z(level) * se / (value * (1 - value))
    centre = np.log(value / (1 - value))
    low, high = float(expit(centre - half)), float(expit(centre + half))
    return Interval(low, high, level, "logit")
