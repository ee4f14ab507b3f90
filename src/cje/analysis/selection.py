"""Which columns of a file the labelling is checked against: lengths and times, by their names."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from cje.data.fields import Plan
from cje.data.problems import BadRows

__all__ = ["factor_columns"]

_LENGTH = re.compile(r"^(?:response|output|completion|answer)?_?(?:len|length|chars|tokens|words)$")
_TIME = re.compile(r"^(?:time|timestamp|ts|created(?:_at)?|created_time|date|day|week|epoch)$")


def factor_columns(source: Any) -> list[str]:
    """Columns of an opened source to test the labelling against: lengths and times, by their names.

    Only columns that hold a finite number in every row: dates as text and columns with gaps are
    left alone, as nobody asked to read them.
    """
    leaves = [
        leaf
        for leaf in source.table.leaves()
        if leaf.only("number")
        and (_LENGTH.match(leaf.display.lower()) or _TIME.match(leaf.display.lower()))
    ]
    if not leaves:
        return []
    plan = Plan({f"group:{i}": leaf.path for i, leaf in enumerate(leaves)})
    frame = source.table.load(plan, BadRows(skip=True)).frame
    return [leaf.display for i, leaf in enumerate(leaves) if _all_numbers(frame[f"group:{i}"])]


def _all_numbers(column: pl.Series) -> bool:
    numbers = column.cast(pl.Float64, strict=False)
    return numbers.null_count() == 0 and bool(numbers.is_finite().all())
