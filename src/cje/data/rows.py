"""Rows of dicts -> a frame of canonical columns: the careful path, one value at a time.

Lists of dicts come this way, and JSON lines that the fast reader refused. It is slow and says
exactly which value is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from cje.data.convert import CANONICAL_TYPES, column_numbers, numbered, value_hint
from cje.data.field_plan import Plan
from cje.data.fields import Leaf, kind_of
from cje.data.parsing import Ambiguous
from cje.data.plain_blocks import MAX_DEPTH
from cje.data.problems import BadRows, is_label
from cje.data.surrogates import HALF_PAIR, is_unicode
from cje.data.values import Numbers
from cje.kernels.arrays import BoolArray

__all__ = ["LeafSurvey", "rows_frame"]

_PLAIN: Mapping[type, frozenset[str]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"bool"}),
    float: frozenset({"number", "fraction"}),
    int: frozenset({"number"}),
    str: frozenset({"text"}),
    dict: frozenset({"struct"}),
    list: frozenset({"list"}),
}


class LeafSurvey:
    """Collects the fields, and the types of values, that rows of dicts have."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], set[str]] = {}
        self.columns: dict[str, list[Any]] = {}  # the values of `see_all`, by name
        self.types: dict[str, set[type]] = {}  # the types among these values

    def see(self, row: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
        """One row."""
        for name, value in row.items():
            here = (*path, str(name))
            kinds = kinds_of(value)
            self._kinds.setdefault(here, set()).update(kinds)
            if "struct" in kinds and len(here) < MAX_DEPTH:
                self.see(value, here)

    def see_all(self, rows: Sequence[Mapping[str, Any]], path: tuple[str, ...] = ()) -> None:
        """All rows, column by column: a type is looked at once per column, not per row."""
        for name, values in columns_of(rows):
            here = (*path, name)
            types = set(map(type, values))
            if not path:
                self.columns[name], self.types[name] = values, types
            kinds = self._kinds.setdefault(here, set())
            for type_ in types:
                usual = _PLAIN.get(type_)
                kinds |= usual or kinds_of(next(v for v in values if type(v) is type_))
            if "struct" in kinds and len(here) < MAX_DEPTH:
                self.see_all([v for v in values if isinstance(v, Mapping)], here)

    def add(self, other: LeafSurvey) -> None:
        """What another survey saw."""
        for path, kinds in other._kinds.items():
            self._kinds.setdefault(path, set()).update(kinds)

    def add_leaf(self, leaf: Leaf) -> None:
        """One field with its kinds."""
        self._kinds.setdefault(leaf.path, set()).update(leaf.kinds)

    def leaves(self) -> list[Leaf]:
        return [Leaf(path, frozenset(kinds)) for path, kinds in self._kinds.items()]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """The values of each key, None where a row lacks it."""
    found = _same_keys(rows)
    if found is not None:
        yield from found
        return
    shapes = dict.fromkeys(map(tuple, rows))
    for name in dict.fromkeys(name for shape in shapes for name in shape):
        if all(name in shape for shape in shapes):
            yield str(name), list(map(itemgetter(name), rows))  # several times as fast as get
        else:
            yield str(name), [row.get(name) for row in rows]


def _same_keys(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Any]]] | None:
    """The columns where all rows are dicts with the first one's keys; else None.

    Values are taken out row by row, and columns are slices: rows are visited once, not per key.
    """
    names = list(rows[0]) if len(rows) else []
    if set(map(type, rows)) != {dict} or set(map(len, rows)) != {len(names)} or not names:
        return None
    try:
        if len(names) == 1:
            return [(str(names[0]), list(map(itemgetter(names[0]), rows)))]
        flat: list[Any] = list(chain.from_iterable(map(itemgetter(*names), rows)))
    except KeyError:
        return None  # as many keys as the first row has, but others
    return [(str(name), flat[i :: len(names)]) for i, name in enumerate(names)]


def kinds_of(value: Any) -> frozenset[str]:
    """What a value is, for the columns it may fill."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain
    if is_missing(value):
        return _PLAIN[type(None)]
    if isinstance(value, Mapping):
        return _PLAIN[dict]
    if isinstance(value, bool | np.bool_):
        return _PLAIN[bool]
    if isinstance(value, int | np.integer):
        return _PLAIN[int]
    if isinstance(value, float | np.number | Decimal):
        return _PLAIN[float]
    return _PLAIN[str] if isinstance(value, str) else _PLAIN[list]


def is_missing(value: Any) -> bool:
    """None, and the missing values of pandas and NumPy that are not floats."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value is np.ma.masked


def rows_frame(
    rows: Iterable[Mapping[str, Any]],
    plan: Plan,
    bad: BadRows,
    where: Callable[[int], str],
    known: LeafSurvey | None = None,
) -> tuple[pl.DataFrame, BoolArray, dict[str, Numbers]]:
    """The canonical frame, a mask of the rows without a problem, and columns read from text.

    `known` holds columns of the rows that a survey gathered before.
    """
    known = known or LeafSurvey()
    columns = _gathered(rows, list(plan.columns.values()), known.columns)
    n = len(next(iter(columns.values()), ()))
    good = np.ones(n, dtype=bool)
    series = []
    texts: dict[str, Numbers] = {}
    for column, path in plan.columns.items():
        kind, bools = kind_of(column), column in plan.bools
        values = columns[path]
        types = known.types.get(path[0]) if len(path) == 1 else None
        types = types or set(map(type, values))
        if column == "draw_idx" and str in types:
            values = _numbered(values)
            types = set(map(type, values))
        found = _at_once(values, kind, types)
        if found is None:
            found, wrong = _one_by_one(values, kind, bools)
            parsed = None
            if kind == "number" and any(isinstance(value, str) for value in values):
                texts[column] = parsed = column_numbers(_as_text(values, wrong), column, plan)
                found = parsed.series
                if parsed.wrong is not None:
                    wrong |= dict.fromkeys(np.flatnonzero(parsed.wrong).tolist(), parsed.what)
            readable = n - found.null_count()
            if wrong and bad.skip:
                mask = np.isin(np.arange(n), list(wrong))
                if bad.unlabels(column, wrong[min(wrong)], mask, where, readable=readable):
                    wrong = {}
            for row, what in wrong.items():
                good[row] = False
                value = values[row]
                (bad if readable or not is_label(column) else BadRows(skip=False)).found(
                    f"{column} {what}",
                    where=f"{where(row)}, field '{'.'.join(path)}'",
                    hint=None if bad.skip else value_hint(column, parsed.words if parsed else ()),
                    answers=parsed.answers if parsed else (),
                    value=... if isinstance(value, _Unreadable) else value,
                )
        series.append(found.alias(column))
    return pl.DataFrame(series), good, texts


def _numbered(values: list[Any]) -> list[Any]:
    """Names of draws that end in a number as these numbers."""
    if not all(value is None or isinstance(value, str) for value in values):
        return values
    try:
        return numbered(pl.Series(values, dtype=pl.String)).to_list()
    except (ValueError, pl.exceptions.PolarsError):
        return values  # half a surrogate pair


def _as_text(values: list[Any], wrong: Mapping[int, str]) -> pl.Series:
    """Text and numbers of one column as text, so that one reader judges them."""
    return pl.Series(
        [
            None
            if is_missing(value) or i in wrong
            else value
            if isinstance(value, str)
            else repr(float(value))
            for i, value in enumerate(values)
        ],
        dtype=pl.String,
    )


def _gathered(
    rows: Iterable[Mapping[str, Any]],
    paths: Sequence[tuple[str, ...]],
    known: Mapping[str, list[Any]],
) -> dict[tuple[str, ...], list[Any]]:
    """The values at each path, one list per path; a stream of rows is gone through once."""
    if known:
        return {
            path: known[path[0]]
            if len(path) == 1
            else [look_up(value, path[1:]) for value in known[path[0]]]
            for path in paths
        }
    columns: dict[tuple[str, ...], list[Any]] = {path: [] for path in paths}
    for row in rows:
        for path, values in columns.items():
            values.append(look_up(row, path))
    return columns


@dataclass(frozen=True)
class _Unreadable:
    """Stands for a value that cannot be looked up; `why` completes "<column> ..."."""

    why: str


def look_up(row: Any, path: Sequence[str]) -> Any:
    """The value at a nested path, or None where any step is absent."""
    for i, name in enumerate(path):
        if not isinstance(row, Mapping):
            if is_missing(row):
                return None
            above = ".".join(path[:i])
            return _Unreadable(f"cannot be read: '{above}' is not an object in this row")
        if isinstance(row, Ambiguous) and name in row.repeated:
            return _Unreadable("occurs twice in one object")
        row = row.get(name)
    return row


def _at_once(values: list[Any], kind: str, types: set[type]) -> pl.Series | None:
    """The column where all values are of the usual types; None where one needs a look."""
    types = types - {type(None)}
    try:
        if kind == "number" and types <= {float, int}:
            return pl.Series(values, dtype=pl.Float64)
        if kind == "whole" and types <= {int}:
            return pl.Series(values, dtype=pl.Int64)
        if kind in ("name", "text"):
            if types <= {str}:
                return pl.Series(values, dtype=pl.String)
            if types <= {int}:
                return pl.Series(values, dtype=pl.Int64).cast(pl.String)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return None  # half a surrogate pair, or a number beyond 64 bits
    return None


def _one_by_one(values: list[Any], kind: str, bools: bool) -> tuple[pl.Series, dict[int, str]]:
    """The column value by value, and what is wrong with which."""
    reader = _READERS[kind]
    out: list[Any] = [None] * len(values)
    wrong: dict[int, str] = {}
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        try:
            out[i] = reader(value, bools)
        except _WrongValue as error:
            wrong[i] = str(error)
    return pl.Series(out, dtype=CANONICAL_TYPES[kind]), wrong


class _WrongValue(Exception):
    """The value does not fit its column; the text completes the sentence "<column> ..."."""


def _refuse_unreadable(value: Any) -> None:
    if isinstance(value, _Unreadable):
        raise _WrongValue(value.why)


def _unicode(text: str) -> str:
    if not is_unicode(text):
        raise _WrongValue(HALF_PAIR)
    return text


def _called(value: Any) -> str:
    """The kind of a value, as messages call it on every path."""
    kinds = kinds_of(value)
    if isinstance(value, bool | np.bool_):
        return "true/false"
    if "struct" in kinds:
        return "an object"
    if isinstance(value, list | tuple | np.ndarray):
        return "a list"
    return f"a {type(value).__name__}"


def _number(value: Any, bools: bool) -> float:
    _refuse_unreadable(value)
    if isinstance(value, bool | np.bool_) and not bools:
        raise _WrongValue("is true/false, not a number")
    if isinstance(value, str):
        _unicode(value)
        return np.nan  # judged with the rest of the column's text
    if not isinstance(value, bool | np.bool_ | int | float | np.number | Decimal):
        raise _WrongValue(f"is {_called(value)}, not a number")
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        raise _WrongValue("is not a finite number") from None


def _whole(value: Any, bools: bool) -> int:
    number = _number(value, bools)
    if not abs(number) < 2.0**53 or number != int(number):
        raise _WrongValue("is not a whole number")
    return int(number)


def _name(value: Any, bools: bool) -> str:
    _refuse_unreadable(value)
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise _WrongValue(f"is {_called(value)}, not text or a whole number")
    if isinstance(value, int | np.integer):
        return str(int(value))
    return str(_whole(value, bools))


def _numbers(value: Any, bools: bool) -> list[float | None]:
    _refuse_unreadable(value)
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
