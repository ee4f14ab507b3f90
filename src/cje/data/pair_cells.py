"""Columns of a table of comparisons as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cje.data.convert import POLARS_FAILURES, path_expression
from cje.data.field_plan import Plan
from cje.data.jsonl import JsonlTable
from cje.data.opening import open_file
from cje.data.problems import BadRows
from cje.data.tables import FrameTable, ParquetTable, RowsTable, Table
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["Cells", "numbers_in"]


class Cells:
    """The table's columns, each read once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rows: Sequence[Mapping[str, Any]] | None = None
        if isinstance(table, RowsTable):
            self._rows = table.rows
        elif isinstance(table, JsonlTable):
            self._rows = table.objects()
        self._kept: dict[tuple[str, ...], list[Any]] = {}
        self._height: int | None = None if self._rows is None else len(self._rows)

    @property
    def height(self) -> int:
        if self._height is None:
            self._height = len(self.get(self.table.leaves()[0].path, 0))
        return self._height

    def get(self, path: tuple[str, ...] | None, n: int) -> list[Any]:
        """A column; None throughout where there is none."""
        if path is None:
            return [None] * n
        if path not in self._kept:
            self._kept[path] = self._read(path)
        return self._kept[path]

    def _read(self, path: tuple[str, ...]) -> list[Any]:
        if self._rows is not None:
            return [_at(row, path) for row in self._rows]
        if isinstance(self.table, FrameTable):
            return self.table.frame.select(path_expression(path)).to_series().to_list()
        if isinstance(self.table, ParquetTable):
            try:
                with open_file(self.table.path) as stream:
                    frame = pl.read_parquet(stream, columns=[path[0]])
            except (*POLARS_FAILURES, OSError) as error:
                raise CJEError(
                    "the Parquet file cannot be read", where=self.table.name, value=str(error)[:120]
                ) from error
            return frame.select(path_expression(path)).to_series().to_list()
        plan = Plan({"group:cell": path})  # a CSV: every cell is text
        return self.table.load(plan, BadRows(skip=False)).frame["group:cell"].to_list()


def numbers_in(cells: Cells, path: tuple[str, ...] | None, n: int) -> FloatArray:
    """A column of numbers; NaN where a cell is empty."""
    found = np.full(n or cells.height, np.nan)
    if path is None:
        return found
    for row, cell in enumerate(cells.get(path, n)):
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            continue
        try:
            found[row] = float(cell)
        except (TypeError, ValueError) as error:
            raise CJEError(
                f"'{'.'.join(path)}' is not a number", where=f"{cells.table.name}, row {row + 1}",
                value=cell,
            ) from error  # fmt: skip
    return found


def _at(row: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
