"""Paired differences between two models assessed on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr

from cje.checks import check_level
from cje.errors import CJEError
from cje.inference.estimate import InfluenceEstimate
from cje.inference.intervals import Interval
from cje.report import Forest, ForestRow, Report, Table
from cje.report.wording import interval as interval_text
from cje.report.wording import number, p_value
from cje.survival.assess import survival_report
from cje.survival.assessed import SurvivalReport
from cje.survival.result import MetricEstimate, Spread, spread_of

__all__ = ["MetricDifference", "SurvivalComparison", "compare_survival", "paired_difference"]


@dataclass(frozen=True)
class MetricDifference:
    """First model minus second model, on the same rows."""

    name: str
    value: float
    interval: Interval
    standard_error: float
    p_value: float

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        low, high = self.interval
        return {"name": self.name, "value": self.value, "low": low, "high": high,
                "level": self.interval.level, "p_value": self.p_value}  # fmt: skip


@dataclass(frozen=True)
class SurvivalComparison:
    """Two models' reports and the paired differences of their metrics."""

    first: SurvivalReport
    second: SurvivalReport
    names: tuple[str, str]
    differences: tuple[MetricDifference, ...]

    def __str__(self) -> str:
        head = f"{self.names[0]} minus {self.names[1]}, {self.first.n} rows, paired"
        rows = [
            f"  {d.name:28s} {d.value:+.4f} ({d.interval.level:.0%} {d.interval.low:+.4f} to "
            f"{d.interval.high:+.4f}; {p_value(d.p_value)})"
            for d in self.differences
        ]
        return "\n".join([head, *rows])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "names": list(self.names),
            "differences": [d.to_dict() for d in self.differences],
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
        }

    def report(self) -> Report:
        """A page with the differences and both models' metrics."""
        first, second = self.names
        rows = tuple(ForestRow(d.name, d.value, *d.interval) for d in self.differences)
        table = Table(
            "Differences",
            ("metric", "difference", "interval", "p"),
            tuple((d.name, number(d.value), interval_text(*d.interval, sign=True),
                   p_value(d.p_value)) for d in self.differences),
            frozenset({1, 2, 3}),
            "For O/E and slope one is best, for C, AUC and IPA larger is better, for the Brier "
            "score and ICI smaller.",
        )  # fmt: skip
        forest = Forest(f"{first} minus {second}", rows, "difference", reference=0.0)
        parts = (forest, table, *self.first.parts(first), *self.second.parts(second))
        return Report(f"{first} against {second}", parts, f"{self.first.n:,} rows, paired")


def paired_difference(
    first: MetricEstimate, second: MetricEstimate, *, level: float = 0.95
) -> MetricDifference:
    r"""Difference of one metric between two models, with the covariance the shared rows give it.

    The influences of the two estimates are subtracted row by row (cluster by cluster). ICI is an
    average of absolute values, which noise inflates, by an amount that does not cancel where one
    model is better calibrated than the other: its interval is widened by an upper bound of that
    bias on either side.

    Raises
    ------
    CJEError
        Different metrics, or estimates that are not of the same rows.
    """
    check_level(level)
    if first.label != second.label:
        raise CJEError("two different metrics cannot be compared",
                       value=(first.label, second.label))  # fmt: skip
    a, b = first.influence, second.influence
    if a is None or b is None or len(a) != len(b) or first.clustered != second.clustered:
        raise CJEError(
            "a paired difference needs two estimates from the same rows",
            where=first.label,
            value=(first.n, second.n),
            hint="compute both with the same y, weights and groups",
        )
    both = InfluenceEstimate.from_influence(
        ("first", "second"), np.array([first.value, second.value]), np.column_stack([a, b])
    ).difference("first", "second")
    value = float(both.values[0])
    spread = spread_of(both.components[0].matrix[:, 0])
    if first.clustered:
        spread = Spread(spread.se, float(len(a) - 1), spread.influence)
    reach = spread.reach(level)
    up, down = (float(m.details.get("folding_bias", 0.0)) for m in (second, first))
    interval = Interval(value - reach - down, value + reach + up, level, "paired")
    beyond = max(value - down, 0.0) if value > 0 else max(-value - up, 0.0)
    p = 1.0
    if spread.se > 0:
        p = 2.0 * float(stdtr(min(spread.df, 1e10), -beyond / spread.se))
    elif beyond > 0:
        p = 0.0
    return MetricDifference(first.label, value, interval, spread.se, p)


def compare_survival(
    first: Any,
    second: Any,
    y: Any,
    horizons: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    times: Any = None,
    cause: int | None = None,
    entry: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
) -> SurvivalComparison:
    """Assess two models on the same rows and compare every metric, paired.

    Parameters
    ----------
    first, second : predictions
        In any form that `survival_report` takes.
    y, horizons, times, cause, entry, sample_weight, groups, level
        As in `survival_report`.
    names : pair of str

    Raises
    ------
    CJEError
        Invalid input.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=400)
    >>> time = rng.exponential(np.exp(-risk))
    >>> good = np.exp(-np.exp(risk))
    >>> result = compare_survival(good, good**3, (time, np.ones(400)), horizons=[1.0])
    >>> [d.name for d in result.differences if d.p_value < 0.01]
    ['O/E at 1', 'ICI at 1', 'Brier score at 1', 'IPA at 1']
    """
    options: dict[str, Any] = {
        "times": times, "cause": cause, "entry": entry, "sample_weight": sample_weight,
        "groups": groups, "level": level,
    }  # fmt: skip
    a, b = (survival_report(p, y, horizons, **options) for p in (first, second))
    other = {m.label: m for m in b.metrics}
    pairs = [(m, other[m.label]) for m in a.metrics if m.label in other]
    differences = tuple(
        paired_difference(m, o, level=level)
        for m, o in pairs
        if m.influence is not None and o.influence is not None
    )
    return SurvivalComparison(a, b, (str(names[0]), str(names[1])), differences)
