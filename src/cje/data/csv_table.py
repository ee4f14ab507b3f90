"""CSV files: polars where the file is sound, line by line where it is not."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from cje.data.convert import POLARS_FAILURES
from cje.data.field_plan import Plan
from cje.data.fields import Leaf, kind_of
from cje.data.opening import open_file
from cje.data.parsing import check_cells, csv_lines
from cje.data.problems import BadRows
from cje.data.sniff import MAX_LINE_BYTES
from cje.data.tables import Loaded
from cje.errors import CJEError

__all__ = ["CsvTable", "csv_header"]

_FIRST_ROWS = 2000
_BLOCK = 4 * 2**20
_LAST = "\x00last"  # the header's last column, which a line with too few cells lacks


class CsvTable:
    """A CSV file with a header line; comma, semicolon or tab."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.unpacked: object = None  # keeps a temporary file alive
        self.header, self.separator = csv_header(path, name)
        twice = [column for column, count in Counter(self.header).items() if count > 1]
        if twice:
            raise CJEError("two columns have the same name", where=name, value=twice[0])

    def leaves(self) -> list[Leaf]:
        return [Leaf((column,)) for column in self.header]

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        try:
            raw = self._fast(plan)
        except POLARS_FAILURES:
            return self._careful(plan, bad)
        last = raw.get_column(_LAST)
        raw = raw.drop(_LAST)
        if last.null_count() and not self._cells_agree():
            return self._careful(plan, bad)
        blank = raw.select(pl.all_horizontal(pl.all().is_null())).to_series()
        if blank.any() and self._has_blank_lines():
            return self._careful(plan, bad)
        return Loaded.from_frame(raw, plan, bad, self.name, lambda i: f"row {i + 1}")

    # ---- the fast path ----------------------------------------------------------------------

    def _fast(self, plan: Plan) -> pl.DataFrame:
        numbers = {
            path[0]: pl.Float64()
            for column, path in plan.columns.items()
            if kind_of(column) == "number"
        }
        try:
            return self._scan(plan, numbers)
        except POLARS_FAILURES:
            return self._scan(plan, {})  # a cell is not a number: read text, then name the cell

    def _scan(self, plan: Plan, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
        columns = [pl.col(path[0]).alias(column) for column, path in plan.columns.items()]
        with open_file(self.path) as stream:
            return (
                pl.scan_csv(
                    stream,
                    separator=self.separator,
                    infer_schema=False,
                    schema_overrides=dict(types),
                )
                .select(*columns, pl.col(self.header[-1]).alias(_LAST))
                .collect()
            )

    def first_texts(self, path: tuple[str, ...]) -> dict[str, int]:
        """Counts of the texts of a column in the first rows; empty where it has none there."""
        try:
            with open_file(self.path) as stream:
                frame = pl.read_csv(
                    stream, separator=self.separator, infer_schema=False, columns=[path[0]],
                    n_rows=_FIRST_ROWS,
                )  # fmt: skip
        except POLARS_FAILURES:
            return {}  # the whole column is read with care, and the error names the row
        counts = frame.to_series().drop_nulls().value_counts(name="n")
        return {str(text): int(n) for text, n in counts.iter_rows()}

    def _cells_agree(self) -> bool:
        """Whether every line has as many cells as the header; blank lines are ignored."""
        expected = len(self.header) - 1
        for text in self._whole_records():
            lines = (
                pl.Series([text], dtype=pl.Binary)
                .cast(pl.String)
                .str.replace_all(r'"[^"]*"', "")  # what is quoted, doubled quotes included
                .str.split("\n")
                .explode()
                .str.strip_chars_end("\r")
            )
            counts = lines.filter(lines.str.len_bytes() > 0).str.count_matches(
                self.separator, literal=True
            )
            if not (counts == expected).all():
                return False
        return True

    def _has_blank_lines(self) -> bool:
        return any(
            b"\n\n" in text or b"\n\r\n" in text or text.startswith((b"\n", b"\r\n"))
            for text in self._whole_records()
        )

    def _whole_records(self) -> Iterator[bytes]:
        """The file in pieces that end at a line feed outside quotes."""
        with open_file(self.path) as stream:
            held = b""
            while block := stream.read(_BLOCK) + stream.readline():
                held += block
                if held.count(b'"') % 2 == 0:
                    yield held
                    held = b""
            if held:
                yield held

    # ---- the careful path -------------------------------------------------------------------

    def _careful(self, plan: Plan, bad: BadRows) -> Loaded:
        """Python's CSV reader: exact about cells, quotes and blank lines."""
        places = {column: self.header.index(path[0]) for column, path in plan.columns.items()}
        cells: dict[str, list[str]] = {column: [] for column in places}
        numbers: list[int] = []
        blank = 0
        try:
            for number, line in enumerate(self._lines()):
                if number == 0:
                    continue
                if not line:
                    blank += 1
                    continue
                try:
                    check_cells(len(line), self.header, f"{self.name}, row {number}")
                except CJEError as error:
                    if not bad.skip:
                        raise
                    bad.found(error.what, where=str(error.where))
                    continue
                numbers.append(number)
                for column, place in places.items():
                    cells[column].append(line[place])
        except UnicodeDecodeError as error:
            hint = "save it as UTF-8: iconv -f WINDOWS-1252 -t UTF-8"
            raise CJEError("the CSV file is not UTF-8", where=self.name, hint=hint) from error
        except csv.Error as error:
            raise CJEError(
                f"the CSV file cannot be read: {error}",
                where=f"{self.name}, after row {numbers[-1] if numbers else 0}",
                hint="check the quotes in this line: an unclosed quote, or text after a closing "
                "one",
            ) from error
        raw = pl.DataFrame({c: pl.Series(v, dtype=pl.String) for c, v in cells.items()})
        raw = raw.with_columns(pl.when(pl.all() != "").then(pl.all()))
        loaded = Loaded.from_frame(raw, plan, bad, self.name, lambda i: f"row {numbers[i]}")
        notes = (f"{self.name}: {blank} blank lines are ignored",) if blank else ()
        return replace(loaded, notes=notes)

    def _lines(self) -> Iterator[list[str]]:
        with open_file(self.path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            yield from csv_lines(text, self.separator)


def csv_header(path: Path, name: str) -> tuple[list[str], str]:
    """Column names and separator of a CSV file."""
    with open_file(path) as stream:
        line = stream.readline(MAX_LINE_BYTES)
        while line.count(b'"') % 2 and (more := stream.readline(MAX_LINE_BYTES)):
            line += more  # a line feed inside a quoted name
            if len(line) > MAX_LINE_BYTES:
                break
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CJEError(
            "the header is not UTF-8", where=name, value=line[:40], hint="save it as UTF-8"
        ) from error
    separator = max(",\t;", key=text.count)
    try:
        header = next(csv_lines(io.StringIO(text, newline=""), separator), [])
    except csv.Error as error:
        raise CJEError(
            f"the first line is not a header: {error}", where=name, value=text[:60],
            hint="end the lines with a line feed; the first names the columns",
        ) from error  # fmt: skip
    if not any(column.strip() for column in header):
        raise CJEError("the first line is not a header", where=name, value=text[:60])
    return header, separator
