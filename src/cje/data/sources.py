"""Any accepted source -> tables, with the policy each one belongs to."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from cje.data import adapters
from cje.data.adapters import inspect_ai
from cje.data.csv_table import CsvTable, csv_header
from cje.data.formats import Unpacked, arrow_frame, database_frame, workbook_frame
from cje.data.frames import foreign_frame
from cje.data.headers import joined_header
from cje.data.jsonl import JsonlTable
from cje.data.opening import cannot_open, open_file
from cje.data.parsing import RepeatedKey, check_cells, csv_lines, parse_json
from cje.data.sniff import FORMATS, PACKED, check_content, file_format
from cje.data.surrogates import storable_text
from cje.data.tables import FrameTable, ParquetTable, RowsTable, Table
from cje.errors import CJEError

__all__ = ["Opened", "Source", "open_sources"]

_MAX_JSON_BYTES = 2**30


class Source:
    """A table, the policy of rows that do not name one, and where that policy comes from."""

    def __init__(self, table: Table, policy: str, *, explicit: bool) -> None:
        self.table, self.explicit = table, explicit
        self.policy = storable_text(policy)  # a file's name may be any bytes
        self.unpacked: Unpacked | None = None  # keeps a temporary file alive


class Opened(NamedTuple):
    """Sources that were opened before: `read` takes them as they are, without a second survey."""

    sources: list[Source]
    notes: list[str]


def open_sources(
    given: Any, policy: str | None, sheet: str | None = None, *, skip_bad_rows: bool = False
) -> Opened:
    """Tables for a path, folder, frame, list of dicts, list of paths or mapping policy -> those.

    Returns the sources and notes about files ignored. Unless bad rows are skipped, a JSON Lines
    file whose first lines are not all objects is refused here, before it is read whole.
    """
    if isinstance(given, Opened):
        return given
    notes: list[str] = []
    if isinstance(given, Mapping):
        sources = _from_mapping(given, policy, notes, sheet)
    elif isinstance(given, str) and given == "-":
        sources = [_standard_input(policy)]
    elif isinstance(given, str | os.PathLike):
        sources = _from_path(Path(given), policy, notes, sheet)
    elif _is_sequence_of_paths(given):
        if not len(given):
            raise CJEError("nothing to read: the list is empty")
        sources = [s for path in given for s in _from_path(Path(path), policy, notes, sheet)]
    else:
        table = _memory_table(given, policy or "the data")
        sources = [Source(table, policy or "policy", explicit=policy is not None)]
    for source in sources:
        if isinstance(source.table, JsonlTable) and not skip_bad_rows:
            source.table.expect_sound_rows()
    return Opened(sources, notes)


def _is_sequence_of_paths(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(p, str | os.PathLike) for p in given)


def _from_mapping(
    given: Mapping[Any, Any], policy: str | None, notes: list[str], sheet: str | None
) -> list[Source]:
    if not given:
        raise CJEError(
            "nothing to read: the mapping is empty", hint="policy -> rows, e.g. {'a': [...]}"
        )
    if policy is not None:
        raise CJEError("policy= has no meaning for a mapping: its keys are the policies")
    sources = []
    for name, value in given.items():
        if not isinstance(name, str):
            raise CJEError("a mapping's keys must be names of policies", value=name)
        if isinstance(value, str | os.PathLike):
            sources += _from_path(Path(value), name, notes, sheet)
        elif isinstance(value, int | float | bool) or value is None:
            raise CJEError(
                "this looks like one row; rows come as a list of dicts", value=name,
                hint="read([row, ...])",
            )  # fmt: skip
        else:
            sources.append(Source(_memory_table(value, name), name, explicit=True))
    return sources


def _standard_input(policy: str | None) -> Source:
    """Standard input by its first character: JSON Lines, a JSON array, or CSV."""
    content = sys.stdin.buffer.read()
    head = content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    suffix = {b"{": "jsonl", b"[": "json"}.get(head, "csv")
    return _unpacked(Unpacked(content, f"stdin.{suffix}"), policy, policy is not None)


def _unpacked(unpacked: Unpacked, policy: str | None, explicit: bool) -> Source:
    """A source of a temporary file, which lives as long as the source."""
    source = _open_file(unpacked.path, policy)
    source.unpacked, source.explicit = unpacked, explicit
    return source


def _dataset_folder(folder: Path) -> list[Path] | None:
    """The Arrow files of a Hugging Face data set on disk; None for another folder."""
    state = folder / "state.json"
    if not state.is_file():
        return None
    with open_file(state) as stream:
        files = parse_json(stream.read()).get("_data_files")
    names = [Path(str(entry["filename"])).name for entry in files or ()]
    return [folder / name for name in names] or None


def _from_path(path: Path, policy: str | None, notes: list[str], sheet: str | None) -> list[Source]:
    given, separator, query = str(path).partition("::")
    if separator and not _exists(path):
        frame, note = database_frame(Path(given), query)
        return [_frame_source(frame, note, Path(given), policy)]
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise cannot_open(path, error) from error
    if is_folder and (files := _dataset_folder(path)):
        note = f"{path.name}: a Hugging Face data set"
        return [_frame_source(arrow_frame(files), note, path, policy)]
    if is_folder:
        return [_open_file(file, policy, sheet) for file in _files_of(path, notes)]
    return [_open_file(path, policy, sheet)]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _frame_source(frame: pl.DataFrame, note: str, path: Path, policy: str | None) -> Source:
    if not frame.height:
        raise CJEError("there are no rows", where=path.name)
    table = FrameTable(frame, path.name)
    table.notes = (note,)
    return Source(table, policy or policy_of(path), explicit=policy is not None)


def _files_of(folder: Path, notes: list[str]) -> list[Path]:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    # a database beside the files belongs to a tool, such as `cje label`
    known = {suffix for suffix, format_ in FORMATS.items() if format_ != "database"} | {*PACKED}
    files = [e for e in entries if e.is_file() and e.suffix.lower() in known]
    if any(file.name.startswith("samples_") and file.suffix == ".jsonl" for file in files):
        # lm-evaluation-harness writes its summary beside the samples
        files = [file for file in files if not file.match("results_*.json")]
    left = [e.name for e in entries if e not in files]
    if not files:
        raise CJEError(
            "the folder has no file to read",
            where=str(folder),
            value=left[:5] or "an empty folder",
            hint=f"one file per policy, with an extension of {', '.join(FORMATS)}",
        )
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        notes.append(f"{folder.name}: ignored {shown}")
    by_policy: dict[str, Path] = {}
    for file in files:
        other = by_policy.setdefault(policy_of(file), file)
        if other is not file:
            raise CJEError(
                f"two files for policy {policy_of(file)!r}",
                where=str(folder),
                value=(other.name, file.name),
                hint="rename or remove one, or read them as a list of paths with a policy column",
            )
    return files


def policy_of(file: Path) -> str:
    """``clone.jsonl`` and ``clone_responses.jsonl`` belong to the policy ``clone``."""
    stem = file.name[: -len(file.suffix)] if file.suffix else file.name
    return stem.removesuffix("_responses") or stem


def _open_file(path: Path, policy: str | None, sheet: str | None = None) -> Source:
    format_ = file_format(path)
    if format_ == "packed":
        source = _unpacked(Unpacked.of(path), policy, policy is not None)
        source.table.name = path.name
        return source
    if format_ == "workbook":
        return _frame_source(*workbook_frame(path, sheet), path, policy)
    if format_ == "arrow":
        return _frame_source(arrow_frame([path]), "an Arrow file", path, policy)
    if format_ == "database":
        return _frame_source(*database_frame(path, None), path, policy)
    mark = check_content(path, format_)
    name = path.name
    table: Table
    if format_ == "jsonl":
        table = _lines_table(path, name, mark)
    elif format_ == "json":
        table = _json_table(path, name)
    elif format_ == "csv":
        table = _csv_table(path, name)
    elif format_ == "eval":
        with _as_expected(name):
            table = _adapted_table(inspect_ai.from_archive(path), name)
    else:
        table = ParquetTable(path, name)
    return Source(table, policy or policy_of(path), explicit=policy is not None)


@contextmanager
def _as_expected(name: str) -> Iterator[None]:
    """A file that looks like a tool's but is built otherwise inside is explained."""
    try:
        yield
    except CJEError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CJEError(
            f"the file looks like another tool's output but is not as expected ({error!r})",
            where=name,
            hint="export it again, or turn it into a plain table (JSONL or CSV)",
        ) from error


def _adapted_table(adapted: adapters.Adapted, name: str) -> Table:
    if not adapted.rows:
        raise CJEError(f"the file ({adapted.tool}) has no rows", where=name)
    return RowsTable(adapted.rows, name, adapted.notes)


def _lines_table(path: Path, name: str, mark: int) -> Table:
    table = JsonlTable(path, name, mark)
    first = table.first()
    if first is not None and adapters.known_lines(first):
        with _as_expected(name):
            return _adapted_table(adapters.from_lines(table.objects(), path), name)
    return table


def _with_one_header(
    path: Path, name: str, header: list[str], separator: str
) -> tuple[Unpacked | None, list[str]]:
    """A header of two lines as one, in a temporary copy of the file; None where it is one."""
    content = path.read_bytes().decode("utf-8-sig", "replace")
    lines = csv_lines(io.StringIO(content, newline=""), separator)
    try:
        next(lines)
        names = joined_header(header, next(lines, []))
    except csv.Error:
        return None, header
    if names is None:
        return None, header
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([names, *lines])
    return Unpacked(text.getvalue().encode(), name), names


def _csv_table(path: Path, name: str) -> Table:
    header, separator = csv_header(path, name)
    copy = None
    if not all(header) or len(set(header)) < len(header):
        copy, header = _with_one_header(path, name, header, separator)
    if copy is not None:
        table = CsvTable(copy.path, name)
        table.unpacked = copy
        table.notes = ("the first two lines are the header",)
        return table
    if not adapters.known_table(header):
        return CsvTable(path, name)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [cells for cells in csv_lines(stream, separator) if cells][1:]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CJEError(f"the CSV file cannot be read: {error}", where=name) from error
    for number, cells in enumerate(rows, start=1):
        check_cells(len(cells), header, f"{name}, row {number}")
    with _as_expected(name):
        return _adapted_table(adapters.from_table(header, rows, path), name)


def _json_table(path: Path, name: str) -> Table:
    """A .json file: an array of objects; or JSON Lines under the wrong extension."""
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise CJEError(
            "a JSON array of this size cannot be read at once", where=name, hint="use JSON Lines"
        )
    try:
        with open_file(path) as stream:
            content = parse_json(stream.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CJEError("the file is not UTF-8", where=name, hint="save it as UTF-8") from error
    except RepeatedKey as error:
        raise CJEError(
            f"ambiguous JSON: {error}", where=name, hint="remove one of the two from the file"
        ) from error
    except ValueError as error:
        if "Extra data" in str(error):  # one object after another: lines after all
            return _lines_table(path, name, check_content(path, "jsonl"))
        raise CJEError(
            f"not valid JSON ({error})", where=name, hint="the file may be truncated"
        ) from error
    with _as_expected(name):
        adapted = adapters.from_json(content, path)
    if adapted is not None:
        return _adapted_table(adapted, name)
    if isinstance(content, dict):
        lists = [
            v for v in content.values() if isinstance(v, list) and v and isinstance(v[0], dict)
        ]
        content = lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise CJEError("the file holds no array of objects", where=name, value=content)
    if not content:
        raise CJEError("the file is empty", where=name, hint="it holds an empty array")
    return RowsTable(content, name)


def _memory_table(given: Any, name: str) -> Table:
    if isinstance(given, Iterator):  # a generator of rows
        given = list(given)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if not given:
            raise CJEError("there are no rows", where=name, hint="the list is empty")
        return RowsTable(given, name)
    if isinstance(given, pl.LazyFrame):
        given = given.collect()
    if not isinstance(given, pl.DataFrame):
        given = foreign_frame(given)
    if not given.height:
        raise CJEError("there are no rows", where=name, hint="the data frame is empty")
    objects = [column for column, dtype in given.schema.items() if dtype == pl.Object]
    if objects:  # Python objects: only the careful path can look inside
        return RowsTable(given.to_dicts(), name)
    return FrameTable(given, name)
