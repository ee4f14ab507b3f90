"""Tables as CSV, Parquet or Excel files, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from cje.data.opening import open_file
from cje.data.parsing import csv_records
from cje.errors import CJEError, require_extra

__all__ = ["read_table", "write_table"]

_FORMULA = ("=", "+", "-", "@")
_LONGEST_CELL = 32_000  # of an Excel cell, which holds 32,767


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], note: str = ""
) -> int:
    """Write rows; `note` goes into the header cell of 'label' in an Excel file as a comment."""
    listed = list(rows)
    kind = path.suffix.lower()
    if kind == ".csv":
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([_csv_cell(row.get(name)) for name in columns] for row in listed)
    elif kind == ".parquet":
        import polars as pl

        pl.DataFrame(
            {name: [row.get(name) for row in listed] for name in columns}, strict=False
        ).write_parquet(path)
    elif kind == ".xlsx":
        _write_excel(path, columns, listed, note)
    else:
        raise _unknown_kind(path)
    return len(listed)


def _unknown_kind(path: Path) -> CJEError:
    return CJEError("unknown kind of file", value=path.name, hint="use .csv, .parquet or .xlsx")


def _csv_cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if isinstance(value, str) and value.lstrip().startswith(_FORMULA) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write_excel(
    path: Path, columns: Sequence[str], rows: list[Mapping[str, Any]], note: str
) -> None:
    openpyxl = require_extra("openpyxl", "label", "an Excel sheet")
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.comments import Comment
    from openpyxl.styles import Alignment, Font

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "labels"
    sheet.append(list(columns))
    sheet.freeze_panes = "A2"
    for cell in sheet[1]:
        cell.font = Font(bold=True)
        if note and cell.value == "label":
            cell.comment = Comment(note, "cje")
    for number, row in enumerate(rows, start=2):
        for place, name in enumerate(columns, start=1):
            value = row.get(name)
            cell = sheet.cell(number, place)
            if isinstance(value, str):
                if len(value) > _LONGEST_CELL:
                    value = value[:_LONGEST_CELL] + " [cut: see the labelling page]"
                cell.value = ILLEGAL_CHARACTERS_RE.sub("\ufffd", value)
                cell.data_type = "s"  # text, never a formula
                cell.alignment = Alignment(wrap_text=True, vertical="top")
            else:
                cell.value = value
    for letter, width in (("B", 60), ("C", 80), ("D", 80 if "response_b" in columns else 12)):
        sheet.column_dimensions[letter].width = width
    book.save(path)


def read_table(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV, Parquet or Excel file by their header.

    Raises
    ------
    CJEError
        Another kind of file, or one that is damaged or unpacks to more than memory should hold.
    """
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".xlsx": _read_excel}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise _unknown_kind(path)
    with open_file(path) as stream:
        return reader(stream, path.name)


def _read_csv(stream: BinaryIO, name: str) -> list[dict[str, Any]]:
    try:
        text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CJEError(
            "the file is not UTF-8 text", where=name, hint="save it as CSV UTF-8"
        ) from error
    header = text.partition("\n")[0]
    # A spreadsheet writes semicolons where the comma is the decimal mark.
    separator = max(",;\t", key=header.count)
    return list(csv_records(io.StringIO(text, newline=""), name, separator))


def _read_parquet(stream: BinaryIO, name: str) -> list[dict[str, Any]]:
    import polars as pl

    from cje.data.convert import POLARS_FAILURES
    from cje.data.parquet_footer import check_parquet_size

    check_parquet_size(stream, name)
    stream.seek(0)
    try:
        return pl.read_parquet(stream).to_dicts()
    except (*POLARS_FAILURES, OSError) as error:
        raise CJEError(
            f"the Parquet file cannot be read ({str(error).splitlines()[0]})", where=name
        ) from error


def _read_excel(stream: BinaryIO, name: str) -> list[dict[str, Any]]:
    from cje.data.formats import check_archive

    openpyxl = require_extra("openpyxl", "label", "an Excel sheet")
    check_archive(stream, name)
    try:
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
        lines = list(book.active.iter_rows(values_only=True))
        book.close()
    except Exception as error:  # of zipfile, the XML parser and openpyxl: no common base
        raise CJEError(f"the workbook cannot be read ({error})", where=name) from error
    if not lines:
        return []
    names = [str(cell) for cell in lines[0]]
    return [
        dict(zip(names, line, strict=False))
        for line in lines[1:]
        if any(cell is not None for cell in line)
    ]
