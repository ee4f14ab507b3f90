"""What the columns look like that no role was found for."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from cje.data.field_plan import Plan
from cje.data.problems import BadRows
from cje.data.tables import Table

__all__ = ["unused_columns"]

_MOST = 40
_SHOWN = 4  # values
_LONGEST = 24  # characters of a value


def unused_columns(table: Table, unused: Sequence[tuple[str, ...]]) -> list[str]:
    """A sentence on each column of a table that plays no role: its type, values and gaps."""
    there = {leaf.path for leaf in table.leaves()}
    known = [path for path in unused if path in there]
    paths = known[:_MOST]
    found = [f"{'.'.join(path)}: {_look(table, path)}" for path in paths]
    left = len(known) - len(paths)
    return found + ([f"and {left} more"] if left else [])


def _look(table: Table, path: tuple[str, ...]) -> str:
    column = "key:it"
    frame = table.load(Plan({column: path}), BadRows(skip=True)).frame
    series = frame[column].cast(pl.String)
    there = series.drop_nulls()
    if not there.len():
        return "empty, or lists and objects"
    filled = there.len() / series.len()
    gaps = "" if filled == 1.0 else f", {filled:.0%} of the rows"
    numbers = there.cast(pl.Float64, strict=False).drop_nulls()
    if numbers.len() == there.len():
        low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
        whole = "whole numbers" if bool((numbers == numbers.round()).all()) else "numbers"
        return f"{whole} from {low:g} to {high:g}{gaps}"
    counts = there.value_counts(sort=True, name="n")
    if counts.height == there.len() and there.len() > _SHOWN:
        return f"text, all different{gaps}"
    values = [_short(str(v)) for v in counts.to_series(0).head(_SHOWN).to_list()]
    more = f" and {counts.height - _SHOWN} more" if counts.height > _SHOWN else ""
    return f"text, {counts.height} values: {', '.join(values)}{more}{gaps}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
