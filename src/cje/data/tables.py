"""Sources as tables: a file, a data frame or a list of dicts, each able to load a plan."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from cje.data.convert import POLARS_FAILURES, canonical_frame, leaves_of_schema, path_expression
from cje.data.fields import Leaf, Plan, kind_of
from cje.data.opening import open_file
from cje.data.problems import BadRows
from cje.data.rows import LeafSurvey, rows_frame
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray

__all__ = ["CsvTable", "FrameTable", "Loaded", "ParquetTable", "RowsTable", "Table", "csv_header"]


@dataclass(frozen=True)
class Loaded:
    """Canonical columns of one source, which rows are good, and how to name a row."""

    frame: pl.DataFrame
    good: BoolArray
    row_name: Callable[[int], str]
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        raw: pl.DataFrame,
        plan: Plan,
        bad: BadRows,
        name: str,
        row_name: Callable[[int], str],
        *,
        parse_text: bool = False,
    ) -> Loaded:
        """Columns named canonically but in the source's own types, converted and checked."""
        frame, good = canonical_frame(
            raw, plan, bad, lambda i: f"{name}, {row_name(i)}", parse_text=parse_text
        )
        return cls(frame, good, row_name)


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

    def leaves(self) -> list[Leaf]:
        if set(map(type, self.rows)) != {dict}:
            for i, row in enumerate(self.rows):
                if not isinstance(row, Mapping):
                    raise CJEError(
                        "a row must be a dict", where=f"{self.name}, row {i}", value=row,
                        hint="pass a list of dicts, a data frame or a path",
                    )  # fmt: skip
        survey = LeafSurvey()
        survey.see_all(self.rows)
        return survey.leaves()

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        frame, good = rows_frame(self.rows, plan, bad, lambda i: f"{self.name}, row {i}")
        return Loaded(frame, good, lambda i: f"row {i}")


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
        try:
            with open_file(self.path) as stream:
                schema = pl.read_parquet_schema(stream)
        except (*POLARS_FAILURES, OSError) as error:
            raise self._broken(error) from error
        return leaves_of_schema(pl.Schema(schema))

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        try:
            with open_file(self.path) as stream:
                raw = (
                    pl.scan_parquet(stream)
                    .select(
                        path_expression(path).alias(column) for column, path in plan.columns.items()
                    )
                    .collect()
                )
        except (*POLARS_FAILURES, OSError) as error:
            raise self._broken(error) from error
        return Loaded.from_frame(raw, plan, bad, self.name, lambda i: f"row {i + 1}")

    def _broken(self, error: BaseException) -> CJEError:
        return CJEError(
            f"the Parquet file cannot be read ({str(error).splitlines()[0][:120]})",
            where=self.name,
            hint="write it again; it may be cut off",
        )


class CsvTable:
    """A CSV file with a header line; comma, semicolon or tab."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.header, self.separator = csv_header(path, name)
        twice = [column for column in self.header if self.header.count(column) > 1]
        if twice:
            raise CJEError("two columns have one name", where=name, value=twice[0])

    def leaves(self) -> list[Leaf]:
        return [Leaf((column,)) for column in self.header]

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        numeric = {
            path[0]: pl.Float64()
            for column, path in plan.columns.items()
            if kind_of(column) == "number"
        }
        try:
            raw = self._scan(plan, numeric)
        except POLARS_FAILURES:
            raw = self._as_text(plan)  # a cell is no number: read text, then name the cell
        self._check_last_line()
        loaded = Loaded.from_frame(
            raw, plan, bad, self.name, lambda i: f"row {i + 1}", parse_text=True
        )
        blank = raw.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
        notes = (f"{self.name}: {blank.sum()} blank lines are no rows",) if blank.any() else ()
        return replace(loaded, good=loaded.good & ~blank, notes=notes)

    def _scan(self, plan: Plan, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
        with open_file(self.path) as stream:
            return (
                pl.scan_csv(
                    stream,
                    separator=self.separator,
                    infer_schema=False,
                    schema_overrides=dict(types),
                )
                .select(pl.col(path[0]).alias(column) for column, path in plan.columns.items())
                .collect()
            )

    def _as_text(self, plan: Plan) -> pl.DataFrame:
        try:
            return self._scan(plan, {})
        except POLARS_FAILURES as error:
            reason = str(error).splitlines()[0]
            hint = "check the quotes and the number of cells in each line"
            if "utf-8" in reason.lower():
                reason, hint = "it is not UTF-8", "save it as UTF-8"
            elif "more fields" in reason:
                reason = "a line has more cells than the header"
            raise CJEError(
                f"the CSV file cannot be read: {reason}", where=self._first_ragged(), hint=hint
            ) from error

    def _check_last_line(self) -> None:
        """A line with too few cells reads as missing values; a cut-off file ends in one."""
        with self.path.open("rb") as stream:
            stream.seek(max(0, self.path.stat().st_size - 65536))
            tail = stream.read().decode("utf-8", "replace").rstrip("\r\n")
        if '"' in tail:
            return  # line ends may be inside quotes: no cheap answer
        lines = tail.splitlines()
        cells = len(lines[-1].split(self.separator)) if lines else 0
        if len(lines) > 1 and cells < len(self.header):
            raise CJEError(
                f"the last line has {cells} cells, the header {len(self.header)}",
                where=f"{self.name}, last row",
                value=lines[-1][:60],
                hint="the file may be truncated: write it again, or delete the last line",
            )

    def _first_ragged(self) -> str:
        """File and row of the first line whose number of cells is not the header's."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as stream:
                for i, cells in enumerate(csv.reader(stream, delimiter=self.separator)):
                    if i and cells and len(cells) != len(self.header):
                        return f"{self.name}, row {i}"
        except (UnicodeDecodeError, csv.Error):
            return self.name
        return self.name


def csv_header(path: Path, name: str) -> tuple[list[str], str]:
    """Column names and separator of a CSV file."""
    with path.open("rb") as stream:
        line = stream.readline(2**20)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CJEError(
            "the header is not UTF-8", where=name, value=line[:40], hint="save it as UTF-8"
        ) from error
    separator = max(",\t;", key=text.count)
    try:
        header = next(csv.reader([text], delimiter=separator), [])
    except csv.Error as error:
        raise CJEError(
            f"the first line is no header: {error}", where=name, value=text[:60],
            hint="end the lines with a line feed; the first names the columns",
        ) from error  # fmt: skip
    if not any(column.strip() for column in header):
        raise CJEError("the first line is no header", where=name, value=text[:60])
    return header, separator
