"""`survival_report`: everything a reviewer asks of a survival model, in one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from cje.checks import check_level, check_probabilities, finite_array
from cje.errors import CJEError
from cje.findings import Finding
from cje.hints import by_interface
from cje.inference.curve import CalibrationCurve
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.report import CurvePart, HistogramPart, Part, Report, Section, Series, Table
from cje.report.wording import fixed, number
from cje.report.wording import interval as interval_text
from cje.survival.brier import brier_score, index_of_prediction_accuracy
from cje.survival.discrimination import harrell_c, time_dependent_auc
from cje.survival.ici import CalibrationIndex, integrated_calibration_index
from cje.survival.in_the_large import calibration_in_the_large, observed_expected_at_horizon
from cje.survival.net_benefit import NetBenefit, RiskGroup, net_benefit, risk_groups
from cje.survival.predictions import Predictions, read_follow_up, read_predictions
from cje.survival.report import metric_parts, metrics_report, what_to_say
from cje.survival.result import MetricEstimate
from cje.survival.sample import SurvivalSample, check_horizon, survival_sample
from cje.survival.slope import calibration_slope, from_survival

__all__ = ["HorizonView", "SurvivalReport", "survival_report"]


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


@overload
def survival_report(
    predictions: Sequence[MetricEstimate], *, title: str = ..., subtitle: str = ...
) -> Report: ...
@overload
def survival_report(
    predictions: Any,
    y: Any,
    horizons: Any,
    *,
    times: Any = ...,
    risk_scores: Any = ...,
    survival_at_own_time: Any = ...,
    survival_at_entry: Any = ...,
    cause: int | None = ...,
    entry: Any = ...,
    sample_weight: Any = ...,
    groups: Any = ...,
    level: float = ...,
    title: str = ...,
) -> SurvivalReport: ...
def survival_report(
    predictions: Any,
    y: Any = None,
    horizons: Any = None,
    *,
    times: Any = None,
    risk_scores: Any = None,
    survival_at_own_time: Any = None,
    survival_at_entry: Any = None,
    cause: int | None = None,
    entry: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    title: str = "Survival calibration",
    subtitle: str = "",
) -> SurvivalReport | Report:
    r"""Judge a model: calibration, discrimination, overall error and net benefit.

    Parameters
    ----------
    predictions : mapping, array, data frame or sequence of step functions
        Predicted survival; with competing events one minus the predicted cumulative incidence.
        See `cje.survival.predictions.read_predictions` for the forms: ``{horizon: array}``, an
        array (rows, horizons), an array (rows, grid) with `times`, the frames of lifelines and
        pycox, the step functions of scikit-survival. A list of this package's metrics (without
        `y`) becomes a page of them.
    y : pair, structured array or frame
        ``(time, event)``, ``(entry, time, event)``, a structured array of scikit-survival, or a
        frame with the columns time and event (and entry).
    horizons : float or sequence of float
    times : array (m,), optional
        Time grid of a matrix.
    risk_scores : array (n,), optional
        Risk on the log-hazard scale, for the slope and C. Default: :math:`\log(-\log\hat S)` at
        each horizon (for C at the last one).
    survival_at_own_time, survival_at_entry : array (n,), optional
        For O/E at the subjects' own times, where `predictions` are not curves; the second under
        delayed entry.
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    entry, sample_weight, groups : arrays (n,), optional
        Delayed entry, weights, clusters.

    Returns
    -------
    SurvivalReport
        ``print`` shows a table; ``report["ICI at 5"]`` is one metric; ``to_html`` writes a page.

    Raises
    ------
    CJEError
        Invalid input. A metric that does not support the data (the Brier score under delayed
        entry) is listed in ``omitted`` instead.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=400)
    >>> time = rng.exponential(np.exp(-risk))
    >>> result = survival_report(np.exp(-np.exp(risk)), (time, np.ones(400)), horizons=1.0)
    >>> 1.0 in result["O/E at 1"].interval, result["ICI at 1"].interval.low
    (True, 0.0)
    """
    if y is None:
        return metrics_report(predictions, title=title, subtitle=subtitle)
    follow_up = read_follow_up(y)
    begin = follow_up.entry if entry is None else entry
    sample = survival_sample(
        follow_up.time, follow_up.event, sample_weight, cause=cause, entry=begin, groups=groups
    )
    check_level(level)
    if horizons is None:
        raise CJEError("horizons are missing", where="horizons",
                       hint="name at least one, such as "
                       + by_interface("horizons=[1, 3, 5]", "--horizons 1,3,5"))  # fmt: skip
    grid = np.unique(finite_array("horizons", np.atleast_1d(horizons)))
    for t in grid:
        check_horizon(float(t), sample, "horizons")
    read = read_predictions(predictions, sample.time, grid, times)
    options: dict[str, Any] = {
        "sample_weight": sample_weight, "groups": groups, "level": level, "entry": sample.entry,
    }  # fmt: skip
    codes = np.where(sample.event, 1, 0)
    if sample.competing is not None:
        codes[sample.competing] = 2
    judge = _Judge(sample, codes, options, level)
    given = (survival_at_own_time, survival_at_entry)
    judge.overall(_own_survival(read, predictions, sample, grid, times, given), read, risk_scores)
    views = tuple(judge.horizon(float(t), read.at[:, j], risk_scores) for j, t in enumerate(grid))
    rivals = 0 if sample.competing is None else int(sample.competing.sum())
    return SurvivalReport(tuple(judge.metrics), views, judge.omitted, len(sample),
                          sample.n_events, rivals, title, read.findings)  # fmt: skip


def _own_survival(
    read: Predictions, predictions: Any, sample: SurvivalSample, grid: FloatArray, times: Any,
    given: tuple[Any, Any],
) -> tuple[FloatArray, FloatArray | None] | str:  # fmt: skip
    """Survival at each subject's own time and entry, or why they are not known."""
    if given[0] is not None:
        own = check_probabilities("survival_at_own_time", given[0], n=len(sample))
        if sample.entry is None:
            return own, None
        if given[1] is None:
            return "under delayed entry it needs survival at entry too: " + by_interface(
                "survival_at_entry", "--own-at-entry COLUMN"
            )
        return own, check_probabilities("survival_at_entry", given[1], n=len(sample))
    if sample.competing is not None:  # one minus an incidence is not exp(-H) of a hazard
        return (
            "with competing events it needs survival at own times from the cause-specific hazard: "
            + _own_time()
        )
    if read.own is None:
        return (
            "it needs predicted curves over all observed times, or survival at each subject's own "
            "time: " + _own_time()
        )
    if sample.entry is None:
        return read.own, None
    begin = read_predictions(predictions, sample.entry, grid, times).own
    if begin is None:
        return "the predicted curves have too few times before the entries"
    return read.own, begin


class _Judge:
    """Computes metrics one by one; what the data do not support is kept with its reason."""

    def __init__(
        self, sample: SurvivalSample, codes: Any, options: dict[str, Any], level: float
    ) -> None:
        self.sample, self.level = sample, level
        self.codes = codes
        self.options = options
        self.competing: dict[str, Any] = {"cause": 1} if sample.competing is not None else {}
        self.metrics: list[MetricEstimate] = []
        self.omitted: dict[str, str] = {}

    def overall(
        self, own: tuple[FloatArray, FloatArray | None] | str, read: Predictions, scores: Any
    ) -> None:
        """O/E at own times and, where scores are given, one slope; C."""
        s = self.sample
        weights = {k: self.options[k] for k in ("sample_weight", "groups", "level")}
        if isinstance(own, str):
            self.omitted["O/E"] = own
        else:
            self._add("O/E", lambda: calibration_in_the_large(
                own[0], s.event, survival_at_entry=own[1], **weights))  # fmt: skip
        if scores is not None:
            self._add(
                "calibration slope",
                lambda: calibration_slope(
                    scores, s.time, self.codes, strict=True, **self.competing, **self.options
                ),
            )
        if s.competing is not None:
            self.omitted["Harrell C"] = "not defined for competing events here: read AUC"
            return
        risk = -read.at[:, -1] if scores is None else scores
        self._add("Harrell C", lambda: harrell_c(risk, s.time, self.codes, **self.options))

    def horizon(self, t: float, survival: FloatArray, scores: Any) -> HorizonView:
        """Every metric at one horizon."""
        y = (self.sample.time, self.codes, t)
        options = self.competing | self.options
        self._add(f"O/E at {t:g}", lambda: observed_expected_at_horizon(survival, *y, **options))
        if scores is None:
            self._add(f"calibration slope at {t:g}", lambda: self._slope_until(t, survival))
        index = integrated_calibration_index(survival, *y, **options)
        self.metrics += [index, index.e50, index.e90, index.emax]
        self._add(f"Brier score at {t:g}", lambda: brier_score(survival, *y, **options))
        self._add(f"IPA at {t:g}", lambda: index_of_prediction_accuracy(survival, *y, **options))
        self._add(f"AUC at {t:g}", lambda: time_dependent_auc(-survival, *y, **options))
        benefit: tuple[NetBenefit, ...] = ()
        if self.sample.entry is None:
            benefit = net_benefit(survival, *y, **options)
        else:
            self.omitted[f"net benefit at {t:g}"] = "does not support delayed entry"
        edges = np.linspace(0.0, 1.0, 41)
        counts = np.histogram(1.0 - survival, edges, weights=self.sample.mass)[0]
        groups = risk_groups(1.0 - survival, self.sample, t, level=self.level)
        return HorizonView(t, index.curve, groups, edges, counts.astype(float), benefit)

    def _slope_until(self, t: float, survival: FloatArray) -> MetricEstimate:
        """Slope of cloglog risk at a horizon, with follow-up cut there."""
        s = self.sample
        codes = np.where(s.time <= t, self.codes, 0)
        options = dict(self.options)
        keep = np.ones(len(s), dtype=bool)
        if s.entry is not None:  # rows that enter after the horizon say nothing before it
            keep = s.entry < t
            options |= {"entry": s.entry[keep]}
            for name in ("sample_weight", "groups"):
                if options[name] is not None:
                    options[name] = np.asarray(options[name])[keep]
        whole = s.competing is not None and s.entry is None
        kind: Literal["cause_specific", "subdistribution"] = (
            "subdistribution" if whole else "cause_specific"
        )
        slope = calibration_slope(
            from_survival(survival)[keep], np.minimum(s.time, t)[keep], codes[keep],
            hazard=kind, strict=True, **self.competing, **options,
        )  # fmt: skip
        return slope.at_horizon(t)

    def _add(self, name: str, compute: Callable[[], MetricEstimate]) -> None:
        try:
            self.metrics.append(compute())
        except CJEError as error:
            self.omitted[name] = str(error)


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


def _own_time() -> str:
    return by_interface("survival_at_own_time", "--own COLUMN")
