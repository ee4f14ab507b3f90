"""Formats that become a frame at once: workbooks, Arrow files, databases, compressed text."""

from __future__ import annotations

import sqlite3
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from cje.data.convert import POLARS_FAILURES
from cje.data.frames import frame_of_tuples
from cje.data.headers import joined_header
from cje.data.opening import open_file
from cje.data.unpacking import check_unpacked, gunzip, zstd_bound
from cje.errors import CJEError, require_extra

__all__ = ["Unpacked", "arrow_frame", "check_archive", "database_frame", "workbook_frame"]

_MAX_SHEET_BYTES = 2**30


class Unpacked:
    """Compressed or streamed text as a file of its own, for as long as this object lives."""

    def __init__(self, content: bytes, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cje-")
        self.path = Path(self._folder.name) / name
        self.path.write_bytes(content)

    @classmethod
    def of(cls, path: Path) -> Unpacked:
        """The content of a ``.gz`` or ``.zst`` file.

        Raises
        ------
        CJEError
            Damaged, or larger than 2 GB once unpacked.
        """
        with open_file(path) as stream:
            content = (
                gunzip(stream, path.name)
                if path.suffix.lower() == ".gz"
                else unzstd(stream.read(), path.name)
            )
        return cls(content, path.stem)


def unzstd(packed: bytes, name: str) -> bytes:
    """Zstandard text unpacked, through polars, which reads compressed text; lines stay lines."""
    try:
        check_unpacked(zstd_bound(packed), name)
        lines = pl.read_csv(
            packed,
            separator="\x01",
            quote_char=None,
            has_header=False,
            infer_schema=False,
            truncate_ragged_lines=True,
        )
    except (ValueError, *POLARS_FAILURES) as error:
        if isinstance(error, CJEError):
            raise
        raise CJEError(f"the Zstandard file is damaged ({error})", where=name) from error
    return "\n".join(lines.to_series().fill_null("").to_list()).encode()


def workbook_frame(path: Path, sheet: str | None) -> tuple[pl.DataFrame, str]:
    """A sheet of a workbook (.xlsx, .xlsm, .ods, ...), and a note on the others.

    Raises
    ------
    CJEError
        No such sheet, not a workbook, or one that unpacks to more than 1 GB.
    MissingExtraError
        The package fastexcel is not installed.
    """
    fastexcel = require_extra("fastexcel", "excel", "reading a workbook")
    with open_file(path) as stream:
        check_archive(stream, path.name)
        content = stream.read()
    try:
        book = fastexcel.read_excel(content)
        names = list(book.sheet_names)
        if sheet is not None and sheet not in names:
            raise CJEError("no such sheet", where=path.name, value=sheet, hint=_sheets(names))
        chosen = sheet or names[0]
        frame = _sheet_frame(content, chosen)
    except CJEError:
        raise
    except Exception as error:  # calamine's errors have no common base
        raise CJEError(f"the workbook cannot be read ({error})", where=path.name) from error
    others = [name for name in names if name != chosen]
    note = f"sheet '{chosen}'" + (f"; ignored: {', '.join(others)}" if others else "")
    return frame, note


def _sheet_frame(content: bytes, sheet: str) -> pl.DataFrame:
    """A sheet whose first line names the columns, or whose first two lines do together."""
    options: dict[str, Any] = {"sheet_name": sheet, "engine": "calamine"}
    frame: pl.DataFrame = pl.read_excel(content, infer_schema_length=None, **options)
    if frame.height < 2 or not any(name.startswith("__UNNAMED__") for name in frame.columns):
        return frame
    above = ["" if name.startswith("__UNNAMED__") else name for name in frame.columns]
    names = joined_header(above, ["" if v is None else str(v) for v in frame.row(0)])
    if names is None:
        return frame
    below: pl.DataFrame = pl.read_excel(
        content, infer_schema_length=None, read_options={"header_row": 1}, **options
    )
    return below.rename(dict(zip(below.columns, names, strict=True)))


def _sheets(names: Sequence[str]) -> str:
    return f"the sheets are {', '.join(names)}"


def check_archive(stream: BinaryIO, name: str) -> None:
    """Raise where a workbook unpacks to more than 1 GB, before it is unpacked."""
    if not zipfile.is_zipfile(stream):
        stream.seek(0)
        return  # an .xls file is not an archive
    with zipfile.ZipFile(stream) as archive:
        check_unpacked(sum(max(i.file_size, 0) for i in archive.infolist()), name, _MAX_SHEET_BYTES)
    stream.seek(0)


def arrow_frame(paths: Sequence[Path]) -> pl.DataFrame:
    """Arrow files (Feather 2) or streams, one after another."""
    frames = []
    for path in paths:
        with open_file(path) as stream:
            head = stream.read(6)
            stream.seek(0)
            try:
                if head == b"ARROW1":
                    frames.append(pl.read_ipc(stream))
                else:
                    frames.append(pl.read_ipc_stream(stream.read()))
            except (*POLARS_FAILURES, OSError) as error:
                raise CJEError(
                    f"the Arrow file cannot be read ({str(error).splitlines()[0]})",
                    where=path.name,
                    hint="write it as Arrow IPC (Feather version 2)",
                ) from error
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def database_frame(path: Path, asked: str | None) -> tuple[pl.DataFrame, str]:
    """A table of an SQLite or DuckDB file, or the rows of a query; opened read-only.

    Raises
    ------
    CJEError
        No such table, several tables and none named, or a query that fails.
    """
    with open_file(path) as stream:
        is_sqlite = stream.read(16).startswith(b"SQLite format 3")
    connect = _sqlite if is_sqlite else _duckdb
    connection, tables_of = connect(path)
    try:
        tables = [row[0] for row in connection.execute(tables_of).fetchall()]
        query = _query(asked, tables, path.name)
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    except CJEError:
        raise
    except Exception as error:  # sqlite3 and duckdb have no common base
        raise CJEError(
            f"the database cannot be read ({error})", where=path.name,
            hint=f"name a table or a query: {path.name}::TABLE",
        ) from error  # fmt: skip
    finally:
        connection.close()
    return frame_of_tuples(names, rows), f"read by {query}"


def _sqlite(path: Path) -> tuple[Any, str]:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    return connection, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1"


def _duckdb(path: Path) -> tuple[Any, str]:
    duckdb = require_extra("duckdb", "duckdb", "reading a DuckDB file")
    try:
        connection = duckdb.connect(
            str(path.resolve()),
            read_only=True,
            config={"enable_external_access": "false", "autoload_known_extensions": "false"},
        )
    except duckdb.Error as error:
        raise CJEError(f"not a DuckDB or SQLite file ({error})", where=path.name) from error
    return connection, "SELECT table_name FROM information_schema.tables ORDER BY 1"


def _query(asked: str | None, tables: Sequence[str], name: str) -> str:
    if asked and asked.strip().lower().startswith(("select ", "with ")):
        return asked
    if asked is None and len(tables) == 1:
        asked = tables[0]
    if asked not in tables:
        found = ", ".join(f"{name}::{table}" for table in tables) or "none"
        raise CJEError(
            "which table?" if asked is None else "no such table", where=name,
            value=len(tables) if asked is None else asked,
            hint=f"name one, or a query: {found}",
            answers=[(name, f"{name}::{table}") for table in tables],
        )  # fmt: skip
    quoted = str(asked).replace('"', '""')
    return f'SELECT * FROM "{quoted}"'
