"""Columns and data frames of any library -> one polars frame, without a change of values.

A column of one type becomes a polars column of that type. A column of several types stays a
column of Python objects, for the careful path to judge value by value: polars would turn numbers
into text, or what does not fit into missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from cje.data.rows import is_missing
from cje.data.surrogates import check_column_name
from cje.errors import CJEError

__all__ = ["column_series", "foreign_frame", "frame_of_tuples"]


def column_series(name: str, values: Any) -> pl.Series:
    """A polars column of arrays, series or lists; NaN and masked values are missing.

    Raises
    ------
    CJEError
        The name is not text to polars.
    """
    check_column_name(name)
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()
    if not isinstance(values, Sequence) and getattr(values, "dtype", None) != np.dtype(object):
        try:  # an array or a series with a type of its own
            typed = pl.Series(name, values, nan_to_null=True)
        except (TypeError, ValueError, pl.exceptions.PolarsError):
            typed = None
        if typed is not None and typed.dtype != pl.Object:
            return typed
    cells = [None if is_missing(v) or (isinstance(v, float) and v != v) else v for v in values]
    types = set(map(type, cells)) - {type(None)}
    try:
        if types == {int, float}:
            return pl.Series(name, cells, dtype=pl.Float64)
        if len(types) < 2 and not types & {list, dict, tuple, np.ndarray}:
            return pl.Series(name, cells)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass  # a surrogate half, or a number beyond 64 bits
    return pl.Series(name, cells, dtype=pl.Object)


def frame_of_tuples(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """A frame from the rows of a database cursor."""
    columns: list[Sequence[Any]] = [list(c) for c in zip(*rows, strict=True)] or [[] for _ in names]
    return pl.DataFrame(
        [column_series(name, values) for name, values in zip(names, columns, strict=True)]
    )


def foreign_frame(given: Any) -> pl.DataFrame:
    """A pandas, pyarrow or other frame as polars; pandas' NaN means missing.

    Raises
    ------
    CJEError
        Not a data frame of a library that narwhals knows.
    """
    import narwhals.stable.v1 as nw

    if type(given).__name__ == "DuckDBPyRelation":
        return frame_of_tuples(given.columns, given.fetchall())
    try:
        frame = nw.from_native(given)
    except TypeError as error:
        raise CJEError(
            "cannot read this kind of object",
            value=type(given).__name__,
            hint="pass a path, a folder, a data frame, a list of dicts, or policy -> rows",
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not frame.implementation.is_pandas_like():
        return pl.DataFrame(frame.to_polars())
    native = frame.to_native()
    names = [str(name) for name in native.columns]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise CJEError("two columns have the same name", value=twice)
    return pl.DataFrame([column_series(name, native.iloc[:, i]) for i, name in enumerate(names)])
