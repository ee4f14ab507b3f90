"""A value over time: anytime intervals per period, and alarms with a bounded false-alarm rate."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje.analysis.inputs import read_source
from cje.calibration.rewards.reward_model import fit_reward_model
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.hints import option_hint
from cje.inference import interval_limits
from cje.inference.sequential import ChangeEvidence, change_evidence
from cje.kernels.arrays import FloatArray, IntArray
from cje.results.result import EstimationResult

__all__ = ["Monitor", "Period", "Stream", "monitor"]

LEAST_LABELS = 10
"""Labels of a period; shorter ones are merged with the next."""
_REFERENCE_LABELS = 30  # needed before the judge's calibration can be watched
_LEAST_PERIODS = 3


@dataclass(frozen=True)
class Period:
    """One period of a stream: its estimate, and the interval valid over all periods at once."""

    name: str
    value: float
    standard_error: float
    low: float
    high: float
    n_labels: int


@dataclass(frozen=True)
class Stream:
    """A quantity over time.

    Attributes
    ----------
    name : str
        ``"value"``, ``"judge's calibration"`` (mean label minus calibrated score) or ``"anchor
        scores"`` (mean judge score of the anchor rows).
    periods : tuple of Period
    alarm, start : str or None
        The period at which a change was established, and the one where it most likely began.
    evidence : tuple of float
        Natural logarithm of the evidence of a change after each period.
    """

    name: str
    periods: tuple[Period, ...]
    alarm: str | None
    start: str | None
    evidence: tuple[float, ...]


@dataclass(frozen=True)
class Monitor:
    """The streams, the level of each, and notes on how the data were read."""

    streams: tuple[Stream, ...]
    level: float
    notes: tuple[str, ...]

    @property
    def alarms(self) -> tuple[Stream, ...]:
        """Streams in which a change was established."""
        return tuple(stream for stream in self.streams if stream.alarm is not None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def summary(self) -> str:
        """Tables and alarms, ready to print."""
        lines = []
        for stream in self.streams:
            lines.append(f"{stream.name} by period ({self.level:.0%} over all periods at once)")
            width = max(len(p.name) for p in stream.periods)
            for p in stream.periods:
                lines.append(
                    f"  {p.name:<{width}}  {p.value:8.4f}  {p.low:8.4f} to {p.high:.4f}"
                    f"  {p.n_labels:6,} labels"
                )
            lines.append(self._verdict(stream))
        return "\n".join([*lines, *self.notes])

    def _verdict(self, stream: Stream) -> str:
        if stream.alarm is None:
            return f"no established change of the {stream.name}"
        return (
            f"ALARM: the {stream.name} changed, most likely from {stream.start} on "
            f"(established at {stream.alarm})"
        )

    def plot(self, path: str | Path) -> None:
        """Draw the streams, their intervals and alarms to an image file."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 2.8 * len(self.streams)), layout="constrained")
        axes = figure.subplots(len(self.streams), 1, squeeze=False)[:, 0]
        for ax, stream in zip(axes, self.streams, strict=True):
            at = np.arange(len(stream.periods))
            value = np.array([p.value for p in stream.periods])
            low, high = np.array([(p.low, p.high) for p in stream.periods]).T
            ax.fill_between(at, low, high, color="#0072b2", alpha=0.18, linewidth=0)
            ax.plot(at, value, color="#0072b2", marker="o", markersize=3)
            names = [p.name for p in stream.periods]
            if stream.start is not None and stream.alarm is not None:
                ax.axvline(names.index(stream.start), color="#b34700", linestyle=":")
                ax.axvline(names.index(stream.alarm), color="#b34700")
            shown = np.unique(np.linspace(0, len(at) - 1, min(len(at), 8)).round().astype(int))
            ax.set_xticks(shown, [names[i].replace("$", r"\$") for i in shown])
            ax.set_title(stream.name, loc="left")
        figure.savefig(path)


def monitor(
    sources: Sequence[Any],
    *,
    time: str | None = None,
    anchor: str | None = None,
    labels: Any = None,
    level: float = 0.95,
    **reading: Any,
) -> Monitor:
    """Watch the value, the judge's calibration and its scores of an anchor set over time.

    Parameters
    ----------
    sources : list of paths, frames or Datasets
        Judged rows with labels on a random part of each period.
    time : str, optional
        Column with dates or numbers, one value per period (times of day are cut to the day).
        Without it each source is a period, in the given order.
    anchor : str, optional
        Column that is 1 on rows that the judge scores again in each period.
    labels : optional
        A file of labels, joined to each source.
    level : float
        One minus the probability that a stream *ever* gives a false alarm.

    Raises
    ------
    CJEError
        Fewer than three periods with ten labels each, or a time that cannot be read.
    """
    groups = tuple(name for name in (time, anchor) if name is not None)
    parts = [
        read_source(s, groups=groups, labels=labels, on=None, min_rows=1, repeats="draws",
                    covariates=(), oracle_scale=None, **reading)
        for s in sources
    ]  # fmt: skip
    data = [part for part in parts if part is not None]
    if not data:
        raise CJEError("nothing to monitor", hint="name files with scores and labels")
    if time is None:
        period = np.concatenate([np.full(len(d), k) for k, d in enumerate(data)])
        names = [str(k + 1) for k in range(len(data))]
    else:
        period, names = _periods([v for d in data for v in d.groups[time].decode()], time)
    responses = [key for d in data for key in zip(d.prompt_id.decode(), d.policy.decode(),
                                                  strict=True)]  # fmt: skip
    whole = _together(data)
    period, names, notes = _merged(period, names, whole.is_labelled)
    streams = [_value_stream(whole, period, names, level)]
    streams += _calibration_stream(whole, period, names, level)
    if anchor is not None:
        streams.append(_anchor_stream(whole, responses, anchor, period, names, level))
    return Monitor(tuple(streams), level, tuple(notes))


def _together(data: list[Dataset]) -> Dataset:
    """All sources together; a prompt of several sources is a separate cluster in each."""
    if len(data) == 1:
        return data[0]
    apart = [
        d.with_columns(prompt_id=[f"{k}: {name}" for name in d.prompt_id.decode()])
        for k, d in enumerate(data)
    ]
    return apart[0].concat(*apart[1:])


# ---- periods ----------------------------------------------------------------------------------


def _periods(values: Sequence[Any], column: str) -> tuple[IntArray, list[str]]:
    """Number of each row's period in time order, and the periods' names."""
    keys = [_time_key(value, column) for value in values]
    kinds = {type(key) for key in keys}
    if len(kinds) > 1:
        raise CJEError("the times mix numbers and dates", where=column)
    order = sorted(set(keys))
    place = {key: k for k, key in enumerate(order)}
    names = [k.isoformat() if isinstance(k, datetime.date) else f"{k:g}" for k in order]
    return np.array([place[key] for key in keys]), names


def _time_key(value: Any, column: str) -> float | datetime.date:
    text = "" if value is None else str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return _date(text, value, column)
    return number if math.isfinite(number) else _date(text, value, column)


def _date(text: str, value: Any, column: str) -> datetime.date:
    try:
        return datetime.datetime.fromisoformat(text).date()
    except ValueError as error:
        raise CJEError(
            "a time must be a number or a date such as 2026-03-31", where=column, value=value
        ) from error


def _merged(
    period: IntArray, names: list[str], labelled: Any
) -> tuple[IntArray, list[str], list[str]]:
    """Periods with too few labels joined to the next one (the last to the one before)."""
    counts = np.bincount(period[labelled], minlength=len(names))
    group = np.zeros(len(names), dtype=np.int64)
    current, seen = 0, 0
    for k, count in enumerate(counts):
        group[k] = current
        seen += int(count)
        if seen >= LEAST_LABELS:
            current, seen = current + 1, 0
    if seen and current:
        group[group == current] = current - 1
    elif seen:
        current = 1
    if current < _LEAST_PERIODS:
        raise CJEError(
            f"monitoring needs at least {_LEAST_PERIODS} periods with {LEAST_LABELS} labels each",
            value=f"{int(counts.sum())} labels in {len(names)} periods",
            hint="label more rows, add files, or name the column of dates: "
            + option_hint("time", "COLUMN"),
        )
    last = np.minimum(group, current - 1)
    merged = []
    for k in range(current):
        members = [names[i] for i in np.flatnonzero(last == k)]
        merged.append(members[0] if len(members) == 1 else f"{members[0]} to {members[-1]}")
    notes = []
    if current < len(names):
        notes.append(
            f"{len(names)} periods were merged to {current}, for {LEAST_LABELS} labels each"
        )
    return last[period], merged, notes


# ---- streams ----------------------------------------------------------------------------------


def _value_stream(data: Dataset, period: IntArray, names: list[str], level: float) -> Stream:
    """Value of each period: the direct estimator with the periods in place of policies."""
    codes = Codes(period.astype(np.int32), tuple(f"{k:06d}" for k in range(len(names))))
    by_period = data.with_columns(policy=codes, draw_idx=None)
    direct = find_estimator("direct").build(by_period, level=level, min_labels=LEAST_LABELS - 2)
    result: EstimationResult = direct.fit_and_estimate()
    order = [result.policies.index(f"{k:06d}") for k in range(len(names))]
    estimate = result.influence
    counts = np.bincount(period[data.is_labelled], minlength=len(names))
    return _stream(
        "value", names, estimate.centre[order], estimate.standard_errors()[order],
        estimate.degrees_of_freedom()[order], estimate.skewness()[order], counts, level,
        (data.oracle_scale.low, data.oracle_scale.high),
    )  # fmt: skip


def _calibration_stream(
    data: Dataset, period: IntArray, names: list[str], level: float
) -> list[Stream]:
    """Mean label minus the score as calibrated on the first periods, in each later one."""
    rows = np.flatnonzero(data.is_labelled & np.isfinite(data.judge_score))
    counts = np.bincount(period[rows], minlength=len(names))
    reference = int(np.searchsorted(np.cumsum(counts), _REFERENCE_LABELS)) + 1
    if len(names) - reference < 2:
        return []
    first = rows[period[rows] < reference]
    model = fit_reward_model(data.judge_score[first], data.oracle_label[first])
    later = rows[period[rows] >= reference]
    residual = data.oracle_label[later] - model.predict(data.judge_score[later])
    width = data.oracle_scale.width
    return [_means(
        "judge's calibration", names[reference:], width * residual, period[later] - reference,
        level, (-width, width),
    )]  # fmt: skip


def _anchor_stream(
    data: Dataset, responses: Sequence[tuple[str, str]], anchor: str, period: IntArray,
    names: list[str], level: float,
) -> Stream:  # fmt: skip
    """Mean change of the judge's scores of the anchor rows since their first period.

    A row's first score is part of all its changes, which shifts every period equally. The detector
    takes the level before a change as unknown, so this does not affect it.
    """
    marked = np.array([str(v).lower() in ("1", "1.0", "true", "yes")
                       for v in data.groups[anchor].decode()])  # fmt: skip
    rows = np.flatnonzero(marked)
    rows = rows[np.argsort(period[rows], kind="stable")]
    first: dict[tuple[str, str], float] = {}
    change, at = [], []
    for row in rows.tolist():
        score = float(data.judge_score[row])
        if responses[row] in first:
            change.append(score - first[responses[row]])
            at.append(int(period[row]))
        else:
            first[responses[row]] = score
    seen = np.unique(at)
    if len(seen) < _LEAST_PERIODS - 1 or np.bincount(at)[seen].min() < 2:
        raise CJEError(
            "an anchor set needs the same rows scored in each period, at least two of them",
            where=anchor, value=f"{len(change)} rows scored again in {len(seen)} periods",
        )  # fmt: skip
    width = data.judge_scale.width
    shown = [names[k] for k in seen]
    return _means(
        "anchor scores", shown, width * np.array(change), np.searchsorted(seen, at), level,
        (-width, width),
    )  # fmt: skip


def _means(
    name: str, names: list[str], y: FloatArray, period: IntArray, level: float,
    bounds: tuple[float, float],
) -> Stream:  # fmt: skip
    n = np.bincount(period, minlength=len(names)).astype(float)
    mean = np.bincount(period, y, len(names)) / n
    centred = y - mean[period]
    second = np.bincount(period, centred**2, len(names)) / n
    third = np.bincount(period, centred**3, len(names)) / n
    se = np.sqrt(second / np.maximum(n - 1.0, 1.0))
    safe = np.where(second > 0, second, 1.0)
    return _stream(
        name, names, mean, se, np.maximum(n - 1.0, 1.0), third / safe**1.5 / np.sqrt(n),
        n.astype(int), level, bounds,
    )  # fmt: skip


def _stream(
    name: str, names: list[str], value: FloatArray, se: FloatArray, df: FloatArray,
    skewness: FloatArray, counts: IntArray, level: float, bounds: tuple[float, float],
) -> Stream:  # fmt: skip
    """Intervals that hold over all periods at once, and the evidence of a change.

    Period k's interval has the level :math:`1 - 6\\alpha / (\\pi k)^2`: the errors of any number of
    periods add up to at most :math:`\\alpha`, and no earlier interval ever changes.
    """
    k = np.arange(1, len(names) + 1)
    alpha = np.asarray(6.0 * (1.0 - level) / (np.pi * k) ** 2, dtype=np.float64)
    low, high = _limits(value, se, df, skewness, alpha, bounds)
    labels = np.maximum(counts, 1)
    found: ChangeEvidence = change_evidence(value, se, df, counts=labels, level=level)
    periods = tuple(
        Period(names[i], float(value[i]), float(se[i]), float(low[i]), float(high[i]),
               int(counts[i]))
        for i in range(len(names))
    )  # fmt: skip
    return Stream(
        name, periods, None if found.alarm is None else names[found.alarm],
        None if found.start is None else names[found.start], tuple(found.log_evidence.tolist()),
    )  # fmt: skip


def _limits(
    value: FloatArray, se: FloatArray, df: FloatArray, skewness: FloatArray, alpha: FloatArray,
    bounds: tuple[float, float],
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    parts = [
        interval_limits(value[i], se[i], df=df[i], skewness=skewness[i], level=1.0 - alpha[i],
                        bounds=bounds)
        for i in range(len(value))
    ]  # fmt: skip
    return np.array([float(p[0]) for p in parts]), np.array([float(p[1]) for p in parts])
