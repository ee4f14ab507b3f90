"""Survival metrics as parts of a page, from the same parts as every other report."""

from __future__ import annotations

from collections.abc import Sequence

from cje.errors import CJEError
from cje.findings import Finding
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
from cje.report.wording import fixed, interval, number, p_value
from cje.survival.ici import CalibrationIndex
from cje.survival.result import MetricEstimate

__all__ = ["metric_parts", "metrics_report", "what_to_say"]

# What a perfect model scores, and what a value above or below it means.
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


def metrics_report(
    metrics: Sequence[MetricEstimate], *, title: str = "Survival calibration", subtitle: str = ""
) -> Report:
    """A page of survival metrics with their intervals and calibration curves.

    Parameters
    ----------
    metrics : sequence of MetricEstimate
        Results of this package's metrics, in reading order. A `CalibrationIndex` brings its curve.
    title, subtitle : str

    Raises
    ------
    CJEError
        Anything but a list of this package's results.

    Examples
    --------
    >>> from cje.inference.intervals import Interval
    >>> page = metrics_report([MetricEstimate("O/E", 1.3, Interval(1.1, 1.5), 200)]).to_html()
    >>> "more events happen than are predicted" in page
    True
    """
    if (
        not isinstance(metrics, Sequence)
        or not metrics
        or not all(isinstance(m, MetricEstimate) for m in metrics)
    ):
        raise CJEError("metrics must be a list of this package's results", value=metrics,
                       hint="or pass predictions together with y and horizons")  # fmt: skip
    findings = tuple(finding for m in metrics for finding in m.findings)
    return Report(title, metric_parts(metrics), subtitle, what_to_say(metrics, findings))


def metric_parts(
    metrics: Sequence[MetricEstimate],
    more_findings: Sequence[Finding] = (),
    model: str = "",
    *,
    curves: bool = True,
) -> tuple[Part, ...]:
    """Ratios beside one, curves, a table of all metrics, findings."""
    of = f" of {model}" if model else ""
    ratios = [m for m in metrics if m.name in _PERFECT_IS_ONE]
    parts: list[Part] = []
    if ratios:
        rows = tuple(ForestRow(m.label, m.value, *m.interval) for m in ratios)
        note = "A perfect model scores one."
        parts.append(Forest(f"Ratios and slope{of}", rows, "value", reference=1.0, note=note))
    for m in metrics:
        if curves and isinstance(m, CalibrationIndex):
            note = (
                f"ICI {number(m.value)} ({interval(*m.interval)}); noise alone would give "
                f"{number(m.null_reference)} ({p_value(m.p_value)}). The band holds for the whole "
                "curve at once."
            )
            parts.append(CurvePart("Predicted and observed risk", m.curve, None, note))
    parts.append(_table(metrics, f"All metrics{of}"))
    every = [*more_findings, *(finding for m in metrics for finding in m.findings)]
    distinct = tuple({(f.code, f.message): f for f in every}.values())
    parts.append(FindingsPart(f"Findings{of}", distinct))
    return tuple(parts)


def _table(metrics: Sequence[MetricEstimate], title: str) -> Table:
    rows = tuple(
        (
            m.label,
            fixed(m.value, 4),
            f"{fixed(m.interval.low, 4)} to {fixed(m.interval.high, 4)}",
            f"{m.interval.level:.0%}",
            f"{m.n:,}",
        )
        for m in metrics
    )
    return Table(
        title, ("metric", "value", "interval", "level", "subjects"), rows, frozenset({1, 2, 3, 4})
    )


def what_to_say(metrics: Sequence[MetricEstimate], findings: Sequence[Finding]) -> Answer:
    """What the numbers support, what they do not, and what to do next."""
    can, cannot = [], []
    for m in metrics:
        value = f"{m.label} {number(m.value)} ({interval(*m.interval)})"
        if m.name in _PERFECT_IS_ONE:
            above, below = _PERFECT_IS_ONE[m.name]
            low, high = m.interval
            if low > 1.0 or high < 1.0:
                can.append(f"{value}: {above if low > 1.0 else below}.")
            else:
                cannot.append(
                    f"That {m.label} differs from one: the interval includes one ({value})."
                )
        elif isinstance(m, CalibrationIndex):
            noise = f"noise alone would give {number(m.null_reference)} ({p_value(m.p_value)})"
            if m.p_value < 1.0 - m.interval.level:
                can.append(f"The risks are miscalibrated: {value}, {noise}.")
            else:
                cannot.append(f"That the risks are miscalibrated: {value}, {noise}.")
    steps = dict.fromkeys(f.action for f in findings)
    if can and not steps:
        steps["Recalibrate on new data (cje.survival.recalibrate) and assess again"] = None
    return Answer(tuple(can), tuple(cannot), tuple(f"{step.rstrip('.')}." for step in steps))
