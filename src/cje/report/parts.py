"""The neutral parts of a report: plain values that results make and `cje.report` draws.

A part does not depend on estimators. Numbers are on the scale they are shown in, and names are raw
text, which is escaped and shortened when drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cje.errors import CJEError
from cje.inference import CalibrationCurve, Finding
from cje.kernels.arrays import FloatArray

__all__ = [
    "Answer",
    "CurvePart",
    "Facts",
    "FindingsPart",
    "Forest",
    "ForestRow",
    "HistogramPart",
    "MatrixCell",
    "MatrixPart",
    "PairExample",
    "PairExamples",
    "Part",
    "SampleColumn",
    "SampleTable",
    "Section",
    "Series",
    "Table",
]


@dataclass(frozen=True)
class Answer:
    """What the result supports, what it does not, and what to do next about `question`."""

    can: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    question: str = ""


@dataclass(frozen=True)
class ForestRow:
    """One estimate with its interval, and `truth` if it is known.

    `mark` is a word or two beside the name, with a `tone` of ``plain``, ``good``, ``care`` or
    ``bad``; `hint` explains it in a tooltip. A row with a `reason` was refused: the reason
    replaces its numbers.
    """

    name: str
    value: float
    low: float
    high: float
    truth: float | None = None
    mark: str = ""
    tone: str = "plain"
    reason: str = ""
    hint: str = ""

    @classmethod
    def refused(cls, name: str, reason: str, truth: float | None = None) -> ForestRow:
        """A row without numbers."""
        nan = float("nan")
        return cls(name, nan, nan, nan, truth, "refused", "bad", reason)


@dataclass(frozen=True)
class Forest:
    """Estimates in rows on a common axis.

    `reference` draws a line (no difference, a target value); `zone` shades a range around it, and
    `zone_name` names it below the axis.
    """

    title: str
    rows: tuple[ForestRow, ...]
    axis: str = "value"
    reference: float | None = None
    zone: tuple[float, float] | None = None
    zone_name: str = ""
    note: str = ""

    def limits(self) -> tuple[float, float]:
        """Range of the axis: every interval, truth and reference, with a little space."""
        shown = [v for row in self.rows for v in (row.value, row.low, row.high)]
        shown += [row.truth for row in self.rows if row.truth is not None]
        if self.reference is not None:
            shown.append(self.reference)
        if self.zone is not None:
            shown += self.zone
        return padded([v for v in shown if np.isfinite(v)])

    def decimals(self) -> int:
        """Decimals of all rows: two digits of the median width, as in tables and sentences."""
        widths = [w for row in self.rows if np.isfinite(w := row.high - row.low) and w > 0]
        if not widths:
            return 4
        return int(np.clip(1 - np.floor(np.log10(np.median(widths))), 0, 9))


@dataclass(frozen=True)
class MatrixCell:
    """Row minus column: difference, interval, adjusted p-value, verdict and caveats.

    `tone` is ``good``, ``bad`` or ``plain``. A cell without a value shows its verdict only; `hint`
    explains it on hover.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None
    verdict: str
    tone: str = "plain"
    hint: str = ""


@dataclass(frozen=True)
class MatrixPart:
    """Paired differences: `cells[row, column]` for the pairs that are shown."""

    title: str
    names: tuple[str, ...]
    cells: Mapping[tuple[int, int], MatrixCell]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Counts in bins that several series share."""

    name: str
    counts: FloatArray


@dataclass(frozen=True)
class HistogramPart:
    """Histograms over the same bins, each drawn as shares of its own total.

    `log` says that `edges` are on a log10 axis (labels show powers back-transformed).
    """

    title: str
    edges: FloatArray
    series: tuple[Series, ...]
    axis: str
    log: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        for series in self.series:
            if len(series.counts) != len(self.edges) - 1:
                raise CJEError("a histogram needs one count per bin", where=self.title)


@dataclass(frozen=True)
class CurvePart:
    """A calibration curve with the histogram of its data below it."""

    title: str
    curve: CalibrationCurve
    histogram: HistogramPart | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A small table; `numeric` columns are aligned right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class FindingsPart:
    """All findings."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values: configuration, versions, fingerprints."""

    title: str
    items: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True)
class SampleColumn:
    """A column of the sample table: ``kind`` is ``"text"``, ``"name"`` or ``"number"``."""

    name: str
    kind: str
    digits: int = 3
    says: str = ""


@dataclass(frozen=True)
class SampleTable:
    """Example rows, searchable and sortable. A cell is text, a finite number or None.

    `orders` are the entries of a menu, the first being the default: (words, column, by size); by
    size means by absolute value, largest first.
    """

    title: str
    columns: tuple[SampleColumn, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    orders: tuple[tuple[str, int, bool], ...]
    note: str = ""


@dataclass(frozen=True)
class PairExample:
    """Two responses to one prompt: the baseline's before, the candidate's after.

    `difference` is candidate minus baseline; `labels` and `scores` are (before, after), None where
    there is none; `groups` are the levels of the columns of `PairExamples`.
    """

    candidate: str
    prompt_id: str
    prompt: str
    before: str
    after: str
    difference: float
    labels: tuple[float | None, float | None] = (None, None)
    scores: tuple[float | None, float | None] = (None, None)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class PairExamples:
    """Pairs to read side by side, the largest loss first within each candidate.

    Attributes
    ----------
    baseline : str
    candidates : tuple of str
    columns : tuple of str
        Subgroup columns.
    """

    title: str
    baseline: str
    candidates: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[PairExample, ...]
    note: str = ""

    def plain(self, most: int = 3) -> tuple[PairExample, ...]:
        """Text for paper and pages without scripts: the largest loss and gain of each candidate."""
        found: list[PairExample] = []
        for name in self.candidates[:most]:
            own = [row for row in self.rows if row.candidate == name]
            found += own[:2] + own[2:][-2:]
        return tuple(found)


@dataclass(frozen=True)
class Section:
    """Parts under one heading, side by side if they fit; `lead` comes before them."""

    title: str
    parts: tuple[Part, ...]
    note: str = ""
    lead: str = ""


Part = (
    Forest
    | MatrixPart
    | CurvePart
    | HistogramPart
    | Table
    | FindingsPart
    | Facts
    | SampleTable
    | PairExamples
    | Section
)


def padded(values: Sequence[float], share: float = 0.04) -> tuple[float, float]:
    """The range of `values` widened by `share` on both sides; never empty."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    gap = (high - low) * share or max(abs(high), 1.0) * 0.05
    return low - gap, high + gap
