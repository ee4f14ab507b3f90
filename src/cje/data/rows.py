"""Rows of dicts -> a frame of canonical columns: the careful path, one value at a time.

Lists of dicts come this way, and JSON lines that the fast reader refused. It is slow and says
exactly which value is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from cje.data.convert import CANONICAL_TYPES
from cje.data.fields import Leaf, Plan, kind_of
from cje.data.problems import BadRows
from cje.kernels.arrays import BoolArray

__all__ = ["LeafSurvey", "rows_frame"]

_MAX_DEPTH = 4
_PLAIN = {type(None): "null", bool: "bool", float: "number", int: "number", str: "text"}


class LeafSurvey:
    """Collects the fields, and the types of values, that rows of dicts have."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], set[str]] = {}

    def see(self, row: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
        for name, value in row.items():
            here = (*path, str(name))
            kinds = self._kinds.setdefault(here, set())
            kind = _PLAIN.get(type(value)) or _other_kind(value)
            kinds.add(kind)
            if kind == "struct" and len(here) < _MAX_DEPTH:
                self.see(value, here)

    def leaves(self) -> list[Leaf]:
        return [Leaf(path, frozenset(kinds)) for path, kinds in self._kinds.items()]


def _other_kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "struct"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | float | np.number | Decimal):
        return "number"
    return "text" if isinstance(value, str) else "list"


def rows_frame(
    rows: Iterable[Mapping[str, Any]], plan: Plan, bad: BadRows, where: Callable[[int], str]
) -> tuple[pl.DataFrame, BoolArray]:
    """The canonical frame of `rows`, and a mask of the rows without a problem."""
    readers = [
        (column, path, _READERS[kind_of(column)], column in plan.bools)
        for column, path in plan.columns.items()
    ]
    values: dict[str, list[Any]] = {column: [] for column in plan.columns}
    good: list[bool] = []
    for i, row in enumerate(rows):
        fine = True
        for column, path, reader, bools in readers:
            value = look_up(row, path)
            try:
                values[column].append(None if value is None else reader(value, bools))
            except _WrongValue as wrong:
                fine = False
                values[column].append(None)
                bad.found(
                    f"{column} {wrong}", where=f"{where(i)}, field '{'.'.join(path)}'", value=value
                )
        good.append(fine)
    frame = pl.DataFrame(
        {
            column: pl.Series(column, items, dtype=CANONICAL_TYPES[kind_of(column)])
            for column, items in values.items()
        }
    )
    return frame, np.array(good, dtype=bool)


def look_up(row: Any, path: Sequence[str]) -> Any:
    """The value at a nested path, or None where any step is absent."""
    for name in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(name)
    return row


class _WrongValue(Exception):
    """The value does not fit its column; the text completes the sentence "<column> ..."."""


def _number(value: Any, bools: bool) -> float:
    if isinstance(value, bool | np.bool_) and not bools:
        raise _WrongValue("is true/false, not a number")
    if isinstance(value, str):
        raise _WrongValue("is text, not a number")
    if not isinstance(value, bool | np.bool_ | int | float | np.number | Decimal):
        raise _WrongValue(f"is a {type(value).__name__}, not a number")
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        raise _WrongValue("is too large for a number") from None


def _whole(value: Any, bools: bool) -> int:
    number = _number(value, bools)
    if not abs(number) < 2.0**53 or number != int(number):
        raise _WrongValue("is not a whole number")
    return int(number)


def _name(value: Any, bools: bool) -> str:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _WrongValue("holds half of a surrogate pair, which is not text") from None
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise _WrongValue(f"is a {type(value).__name__}, not text or a whole number")
    if isinstance(value, int | np.integer):
        return str(int(value))
    return str(_whole(value, bools))


def _numbers(value: Any, bools: bool) -> list[float | None]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise _WrongValue("is not a list of numbers")
    return [None if item is None else _number(item, bools) for item in value]


_READERS: Mapping[str, Callable[[Any, bool], Any]] = {
    "number": _number,
    "whole": _whole,
    "name": _name,
    "text": _name,
    "numbers": _numbers,
}
