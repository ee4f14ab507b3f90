"""Draws neutral parts (forests, curves, tables, findings) as pictures and HTML.

`Report` makes one self-contained page of parts; `cje.report.pictures` draws them with matplotlib.
Nothing here knows an estimator: results hand over their parts.
"""

from __future__ import annotations

from cje.report.html import Report, check_report_file
from cje.report.parts import (
    Answer,
    CurvePart,
    Facts,
    FindingsPart,
    Forest,
    ForestRow,
    HistogramPart,
    MatrixCell,
    MatrixPart,
    PairExample,
    PairExamples,
    Part,
    SampleColumn,
    SampleTable,
    Section,
    Series,
    Table,
)

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
    "Report",
    "SampleColumn",
    "SampleTable",
    "Section",
    "Series",
    "Table",
    "check_report_file",
]
