"""Writers of every file format the exports come in; the same bytes on every run where possible."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.ipc

Row = dict[str, Any]


def as_csv(
    path: Path, rows: Sequence[Row], separator: str = ",", header: Sequence[str] = ()
) -> None:
    """CSV; `header` is a further line above the names."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
        if header:
            writer.writerow(header)
        writer.writerow(names)
        writer.writerows([_cell(row.get(name)) for name in names] for row in rows)


def _cell(value: Any) -> Any:
    return "" if value is None else value


def as_jsonl(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def as_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def as_workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> None:
    """A workbook from rows of cells."""
    import datetime

    import xlsxwriter

    with xlsxwriter.Workbook(str(path)) as book:
        book.set_properties({"created": datetime.datetime(2026, 1, 1)})
        for name, lines in sheets.items():
            sheet = book.add_worksheet(name)
            for number, line in enumerate(lines):
                for column, value in enumerate(line):
                    if value is not None:
                        sheet.write(number, column, value)


def cells(rows: Sequence[Row]) -> list[list[Any]]:
    """Names, then values."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [names, *([row.get(name) for name in names] for row in rows)]


def as_ods(path: Path, lines: list[list[Any]]) -> None:
    """An OpenDocument sheet, as little of it as a reader needs."""

    def cell(value: Any) -> str:
        if value is None:
            return "<table:table-cell/>"
        if isinstance(value, str):
            kind = 'office:value-type="string"'
        else:
            kind = f'office:value-type="float" office:value="{value}"'
        return f"<table:table-cell {kind}><text:p>{value}</text:p></table:table-cell>"

    body = "".join(
        f"<table:table-row>{''.join(map(cell, line))}</table:table-row>" for line in lines
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {spaces} '
        'office:version="1.2"><office:body><office:spreadsheet><table:table table:name="Sheet1">'
        f"{body}</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        '<?xml version="1.0"?><manifest:manifest '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
        '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
        "</manifest:manifest>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (
            ("mimetype", kind), ("content.xml", content), ("META-INF/manifest.xml", manifest)
        ):  # fmt: skip
            archive.writestr(zipfile.ZipInfo(name), text)


def packed(path: Path, content: bytes) -> None:
    """The content as .gz or .zst, by the path's extension."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content, mtime=0))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)


def as_sqlite(path: Path, tables: dict[str, Sequence[Row]]) -> None:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for table, rows in tables.items():
        names = list(rows[0])
        connection.execute(f"CREATE TABLE {table} ({', '.join(names)})")
        marks = ", ".join("?" for _ in names)
        connection.executemany(
            f"INSERT INTO {table} VALUES ({marks})", [tuple(row.values()) for row in rows]
        )
    connection.commit()
    connection.close()


def as_duckdb(path: Path, table: str, rows: Sequence[Row]) -> None:
    """A DuckDB file with the smallest blocks there are."""
    import duckdb

    path.unlink(missing_ok=True)
    frame = pl.DataFrame(rows).to_arrow()
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute(f"ATTACH '{path}' AS file (BLOCK_SIZE 16384)")
    connection.execute(f"CREATE TABLE file.{table} AS SELECT * FROM frame")
    connection.close()


def as_arrow(path: Path, rows: Sequence[Row], *, stream: bool = False) -> None:
    table = pa.Table.from_pylist(list(rows))
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table)
