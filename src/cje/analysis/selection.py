"""Which columns of a file the labelling is checked against: lengths and times, by their names."""

from __future__ import annotations

import re
from typing import Any

from cje.data.fields import Plan
from cje.data.problems import BadRows

__all__ = ["factor_columns"]

_LENGTH = re.compile(r"^(?:response|output|completion|answer)?_?(?:len|length|chars|tokens|words)$")
_TIME = re.compile(r"^(?:time|timestamp|ts|created(?:_at)?|created_time|date|day|week|epoch)$")


def factor_columns(source: Any) -> list[str]:
    """Columns of an opened source to test the labelling against: lengths and times, by their names.

    Only columns that hold a finite number in every row: dates as text and columns with gaps are
    not used, because the user did not ask to read them.
    """
    leaves = [
        leaf
        for leaf in source.table.leaves()
        if leaf.only("number")
        and (_LENGTH.match(leaf.display.lower()) or _TIME.match(leaf.display.lower()))
    ]
    return [leaf.display for leaf in leaves if _all_numbers(source, leaf.path)]


def _all_numbers(source: Any, path: tuple[str, ...]) -> bool:
    bad = BadRows(skip=True)
    frame = source.table.load(Plan({"covariate:it": path}), bad).frame
    numbers = frame["covariate:it"]
    return not bad.reasons and numbers.null_count() == 0 and bool(numbers.is_finite().all())
