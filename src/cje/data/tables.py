"""Sources as tables: a file, a data frame or a list of dicts, each able to load a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from cje.data.convert import POLARS_FAILURES, canonical_frame, leaves_of_schema, path_expression
from cje.data.field_plan import Plan
from cje.data.fields import Leaf
from cje.data.opening import open_file
from cje.data.parquet_footer import check_parquet_size
from cje.data.problems import BadRows
from cje.data.rows import LeafSurvey, rows_frame
from cje.data.values import Numbers
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray

__all__ = ["FrameTable", "Loaded", "ParquetTable", "RowsTable", "Table"]


@dataclass(frozen=True)
class Loaded:
    """Canonical columns of one source, which rows are good, and how to name a row."""

    frame: pl.DataFrame
    good: BoolArray
    row_name: Callable[[int], str]
    notes: tuple[str, ...] = ()
    texts: Mapping[str, Numbers] = field(default_factory=dict)  # columns read from text

    @classmethod
    def from_frame(
        cls,
        raw: pl.DataFrame,
        plan: Plan,
        bad: BadRows,
        name: str,
        row_name: Callable[[int], str],
    ) -> Loaded:
        """Columns named canonically but in the source's own types, converted and checked."""
        frame, good, texts = canonical_frame(raw, plan, bad, lambda i: f"{name}, {row_name(i)}")
        return cls(frame, good, row_name, texts=texts)


class Table(Protocol):
    """A source of rows; `notes` are sentences about how it was recognised."""

    name: str
    notes: tuple[str, ...]

    def leaves(self) -> list[Leaf]:
        """The columns and nested fields it has."""

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        """Read the columns of the plan, and only those."""


class RowsTable:
    """A list of dicts in memory."""

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], name: str, notes: Sequence[str] = ()
    ) -> None:
        self.rows, self.name, self.notes = rows, name, tuple(notes)
        self._survey: LeafSurvey | None = None

    def leaves(self) -> list[Leaf]:
        if self._survey is not None:
            return self._survey.leaves()
        if set(map(type, self.rows)) != {dict}:
            for i, row in enumerate(self.rows):
                if not isinstance(row, Mapping):
                    raise CJEError(
                        "a row must be a dict", where=f"{self.name}, row {i}", value=row,
                        hint="pass a list of dicts, a data frame or a path",
                    )  # fmt: skip
        survey = LeafSurvey()
        survey.see_all(self.rows)
        self._survey = survey
        return survey.leaves()

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        frame, good, texts = rows_frame(
            self.rows, plan, bad, lambda i: f"{self.name}, row {i}", self._survey
        )
        return Loaded(frame, good, lambda i: f"row {i}", texts=texts)


class FrameTable:
    """A polars frame in memory; other libraries' frames become one first."""

    notes: tuple[str, ...] = ()

    def __init__(self, frame: pl.DataFrame, name: str) -> None:
        self.frame, self.name = frame, name

    def leaves(self) -> list[Leaf]:
        return leaves_of_schema(self.frame.schema)

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        raw = self.frame.select(
            path_expression(path).alias(column) for column, path in plan.columns.items()
        )
        return Loaded.from_frame(raw, plan, bad, self.name, lambda i: f"row {i}")


class ParquetTable:
    """A Parquet file, of which only the plan's columns are read."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def leaves(self) -> list[Leaf]:
        with self.explained(), open_file(self.path) as stream:
            check_parquet_size(stream, self.name)
        return self.unchecked_leaves()

    def unchecked_leaves(self) -> list[Leaf]:
        """The columns, however many rows the file announces."""
        with self.explained(), open_file(self.path) as stream:
            schema = pl.read_parquet_schema(stream)
        return leaves_of_schema(pl.Schema(schema))

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        with self.explained(), open_file(self.path) as stream:
            raw = (
                pl.scan_parquet(stream)
                .select(
                    path_expression(path).alias(column) for column, path in plan.columns.items()
                )
                .collect()
            )
        return Loaded.from_frame(raw, plan, bad, self.name, lambda i: f"row {i + 1}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What polars says of a broken file as a CJEError."""
        try:
            yield
        except (*POLARS_FAILURES, OSError) as error:
            raise CJEError(
                f"the Parquet file cannot be read ({str(error).splitlines()[0][:120]})",
                where=self.name,
                hint="write it again; it may be truncated",
            ) from error
