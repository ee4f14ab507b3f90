"""What `survival_report` returns: metrics, what is drawn at each horizon, and their page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.findings import Finding
from cje.inference.curve import CalibrationCurve
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.report import CurvePart, HistogramPart, Part, Report, Section, Series, Table
from cje.report.wording import fixed, number
from cje.report.wording import interval as interval_text
from cje.survival.ici import CalibrationIndex
from cje.survival.net_benefit import NetBenefit, RiskGroup
from cje.survival.report import metric_parts, what_to_say
from cje.survival.result import MetricEstimate

__all__ = ["HorizonView", "SurvivalReport"]


@dataclass(frozen=True)
class HorizonView:
    """What is drawn at one horizon: curve, tenths, histogram of predicted risk, net benefit."""

    horizon: float
    curve: CalibrationCurve
    groups: tuple[RiskGroup, ...]
    risk_edges: FloatArray
    risk_counts: FloatArray
    net_benefit: tuple[NetBenefit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "horizon": self.horizon,
            "groups": [
                {"predicted": g.predicted, "observed": g.observed, "low": g.interval.low,
                 "high": g.interval.high, "n": g.n} for g in self.groups
            ],
            "risk_histogram": {"edges": self.risk_edges.tolist(),
                               "counts": self.risk_counts.tolist()},
            "net_benefit": [
                {"threshold": b.threshold, "value": b.value, "low": b.interval.low,
                 "high": b.interval.high, "treat_all": b.treat_all} for b in self.net_benefit
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class SurvivalReport:
    """Metrics with intervals, what is drawn at each horizon, and what could not be computed.

    Parameters
    ----------
    metrics : tuple of MetricEstimate
    views : tuple of HorizonView
        One per horizon.
    omitted : dict
        Metrics that could not be computed, with the reason.
    n, n_events, n_competing : int
    """

    metrics: tuple[MetricEstimate, ...]
    views: tuple[HorizonView, ...]
    omitted: dict[str, str]
    n: int
    n_events: int
    n_competing: int
    title: str = "Survival calibration"
    reading: tuple[Finding, ...] = ()

    def __getitem__(self, label: str) -> MetricEstimate:
        """The metric of that label, such as ``"ICI at 5"``."""
        for metric in self.metrics:
            if metric.label == label:
                return metric
        raise CJEError(
            "the report has no such metric",
            value=label,
            hint=f"available metrics: {', '.join(m.label for m in self.metrics)}",
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every distinct finding."""
        every = [*self.reading, *(f for m in self.metrics for f in m.findings)]
        return tuple({(f.code, f.message): f for f in every}.values())

    def __str__(self) -> str:
        width = max(len(m.label) for m in self.metrics)
        lines = [self._subtitle()]
        for m in self.metrics:
            low, high = m.interval
            lines.append(f"  {m.label:{width}s}  {m.value:8.4f}  ({low:.4f} to {high:.4f})")
        lines += [f"  not computed: {name}: {why}" for name, why in self.omitted.items()]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "n": self.n,
            "n_events": self.n_events,
            "n_competing": self.n_competing,
            "metrics": [m.to_dict() | {"label": m.label} for m in self.metrics],
            "horizons": [view.to_dict() for view in self.views],
            "omitted": dict(self.omitted),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """`to_dict` as JSON text, written to `path` where given."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def parts(self, name: str = "") -> tuple[Part, ...]:
        """The parts of a page: ratios, curves, tenths, net benefit, all metrics, findings."""
        drawn = [_view_section(view, self.metrics, name) for view in self.views]
        omitted: tuple[Part, ...] = ()
        if self.omitted:
            rows = tuple(self.omitted.items())
            omitted = (Table("Not computed", ("metric", "reason"), rows),)
        return (*metric_parts(self.metrics, self.reading, name, curves=False), *drawn, *omitted)

    def report(self) -> Report:
        """The whole page."""
        answer = what_to_say(self.metrics, self.findings)
        return Report(self.title, self.parts(), self._subtitle(), answer)

    def to_html(self, path: str | Path | None = None) -> str:
        """The page as HTML, written to `path` where given."""
        return self.report().to_html(path)

    def _subtitle(self) -> str:
        rivals = f", {self.n_competing:,} competing events" if self.n_competing else ""
        return f"{self.n:,} rows, {self.n_events:,} events{rivals}"


def _between(interval: Interval) -> str:
    return f"{fixed(interval.low, 3)} to {fixed(interval.high, 3)}"


def _view_section(view: HorizonView, metrics: Iterable[MetricEstimate], name: str) -> Section:
    """Curve over the histogram of predicted risk, tenths, and net benefit."""
    at = f"t = {view.horizon:g}"
    index = next(m for m in metrics
                 if isinstance(m, CalibrationIndex) and m.horizon == view.horizon)  # fmt: skip
    used = np.flatnonzero(view.risk_counts)
    stop = int(used[-1]) + 1 if len(used) else len(view.risk_counts)
    histogram = HistogramPart(
        "Predicted risk", view.risk_edges[: stop + 1],
        (Series("rows", view.risk_counts[:stop]),), "predicted risk",
    )  # fmt: skip
    note = (
        f"ICI {number(index.value)} ({interval_text(*index.interval)}); noise alone would give "
        f"{number(index.null_reference)}. The band holds for the whole curve at once."
    )
    tenths = Table(
        f"Observed risk by tenth of predicted risk, {at}",
        ("predicted", "observed", "interval", "rows"),
        tuple((fixed(g.predicted, 3), fixed(g.observed, 3), _between(g.interval),
               f"{g.n:,}") for g in view.groups),
        frozenset({0, 1, 2, 3}),
    )  # fmt: skip
    parts: list[Part] = [
        CurvePart(f"Predicted and observed risk, {at}", view.curve, histogram, note), tenths,
    ]  # fmt: skip
    if view.net_benefit:
        parts.append(Table(
            f"Net benefit, {at}",
            ("threshold", "model", "interval", "treat everybody"),
            tuple((f"{b.threshold:.0%}", fixed(b.value, 3), _between(b.interval),
                   fixed(b.treat_all, 3)) for b in view.net_benefit),
            frozenset({0, 1, 2, 3}),
            "Treating nobody has net benefit 0.",
        ))  # fmt: skip
    head = f"{name}: horizon {at}" if name else f"Horizon {at}"
    return Section(head, tuple(parts))
