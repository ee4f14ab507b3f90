"""Tables as CSV, Parquet or Excel files, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
        raise CJEError(
            "the kind of file is not known", value=path.name, hint="use .csv, .parquet or .xlsx"
        )
    return len(listed)


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
    """Rows of a CSV, Parquet or Excel file by their header."""
    kind = path.suffix.lower()
    try:
        if kind == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:
                return [
                    {str(k): v for k, v in row.items() if k is not None}
                    for row in csv.DictReader(file)
                ]
        if kind == ".parquet":
            import polars as pl

            with path.open("rb") as opened:
                return pl.read_parquet(opened).to_dicts()
        if kind == ".xlsx":
            openpyxl = require_extra("openpyxl", "label", "an Excel sheet")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            lines = list(book.active.iter_rows(values_only=True))
            book.close()
            if not lines:
                return []
            names = [str(cell) for cell in lines[0]]
            return [dict(zip(names, line, strict=False)) for line in lines[1:] if any(line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CJEError(f"cannot read the file: {error}", where=str(path)) from error
    raise CJEError(
        "the kind of file is not known", value=path.name, hint="use .csv, .parquet or .xlsx"
    )
