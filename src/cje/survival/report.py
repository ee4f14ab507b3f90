"""A report of survival calibration, from the same parts as every other report."""

from __future__ import annotations

from collections.abc import Sequence

from cje.errors import CJEError
from cje.report import (
    Answer,
    CurvePart,
    FindingsPart,
    Forest,
    ForestRow,
    Part,
    Report,
    Table,
)
from cje.report.wording import interval, number, p_value
from cje.survival.ici import CalibrationIndex
from cje.survival.result import MetricEstimate

__all__ = ["survival_report"]

# What a perfect model scores, and what a value above and below it says.
_PERFECT_IS_ONE = {
    "O/E": ("more events happen than are predicted", "fewer events happen than are predicted"),
    "O/E at horizon": (
        "more events happen by the horizon than are predicted",
        "fewer events happen by the horizon than are predicted",
    ),
    "calibration slope": (
        "predictions are too close together (the risks differ more than it says)",
        "predictions are too far apart (overfitting)",
    ),
}


def survival_report(
    metrics: Sequence[MetricEstimate], *, title: str = "Survival calibration", subtitle: str = ""
) -> Report:
    """A page of survival metrics with their intervals and calibration curves.

    Parameters
    ----------
    metrics : sequence of MetricEstimate
        Results of this package's metrics, in reading order. A `CalibrationIndex` brings its curve.
    title, subtitle : str

    Examples
    --------
    >>> from cje.inference.intervals import Interval
    >>> page = survival_report([MetricEstimate("O/E", 1.3, Interval(1.1, 1.5), 200)]).to_html()
    >>> "more events happen than are predicted" in page
    True
    """
    if not isinstance(metrics, Sequence) or not all(isinstance(m, MetricEstimate) for m in metrics):
        raise CJEError("metrics must be a list of this package's results", value=metrics)
    ratios = [m for m in metrics if m.name in _PERFECT_IS_ONE]
    curves = [m for m in metrics if isinstance(m, CalibrationIndex)]
    parts: list[Part] = []
    if ratios:
        rows = tuple(ForestRow(m.name, m.value, *m.interval) for m in ratios)
        note = "A perfect model scores one."
        parts.append(Forest("Ratios and slope", rows, "value", reference=1.0, note=note))
    for m in curves:
        note = (
            f"ICI {number(m.value)} ({interval(*m.interval)}); noise alone would give "
            f"{number(m.null_reference)} ({p_value(m.p_value)}). The band holds for the whole "
            "curve at once."
        )
        parts.append(CurvePart("Predicted and observed risk", m.curve, None, note))
    parts.append(_table(metrics))
    findings = tuple(finding for m in metrics for finding in m.findings)
    parts.append(FindingsPart("Findings", findings))
    return Report(title, tuple(parts), subtitle, _answer(metrics))


def _table(metrics: Sequence[MetricEstimate]) -> Table:
    rows = tuple(
        (m.name, number(m.value), interval(*m.interval), f"{m.interval.level:.0%}", f"{m.n:,}")
        for m in metrics
    )
    return Table(
        "All metrics", ("metric", "value", "interval", "level", "subjects"), rows,
        frozenset({1, 2, 3, 4}),
    )  # fmt: skip


def _answer(metrics: Sequence[MetricEstimate]) -> Answer:
    can, cannot = [], []
    for m in metrics:
        value = f"{m.name} {number(m.value)} ({interval(*m.interval)})"
        if m.name in _PERFECT_IS_ONE:
            above, below = _PERFECT_IS_ONE[m.name]
            low, high = m.interval
            if low > 1.0 or high < 1.0:
                can.append(f"{value}: {above if low > 1.0 else below}.")
            else:
                cannot.append(f"That {m.name} is off: {value} includes one.")
        elif isinstance(m, CalibrationIndex):
            noise = f"noise alone would give {number(m.null_reference)} ({p_value(m.p_value)})"
            if m.p_value < 1.0 - m.interval.level:
                can.append(f"The risks are miscalibrated: {value}, {noise}.")
            else:
                cannot.append(f"That the risks are miscalibrated: {value}, {noise}.")
    steps = dict.fromkeys(f.action for m in metrics for f in m.findings)
    if can and not steps:
        steps["Recalibrate on new data (cje.survival.recalibrate) and look again"] = None
    return Answer(tuple(can), tuple(cannot), tuple(f"{step.rstrip('.')}." for step in steps))
