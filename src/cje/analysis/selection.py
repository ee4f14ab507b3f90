"""Which columns of a file the labelling is checked against: lengths and times, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["columns_of", "factor_columns"]

_LENGTH = re.compile(r"^(?:response|output|completion|answer)?_?(?:len|length|chars|tokens|words)$")
_TIME = re.compile(r"^(?:time|timestamp|ts|created(?:_at)?|created_time|date|day|week|epoch)$")


def factor_columns(names: Mapping[str, bool]) -> list[str]:
    """Columns to test the labelling against: lengths and times, by their names.

    `names` says of each column whether it holds numbers only.
    """
    return [
        name
        for name, numeric in names.items()
        if numeric and (_LENGTH.match(name.lower()) or _TIME.match(name.lower()))
    ]


def columns_of(source: Any) -> dict[str, bool]:
    """Whether each column of an opened source holds numbers only."""
    return {leaf.display: leaf.only("number") for leaf in source.table.leaves()}
