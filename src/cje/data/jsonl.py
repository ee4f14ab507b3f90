"""JSON Lines: polars where the file is sound, line by line where it is not."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from cje.data.convert import CANONICAL_TYPES, POLARS_FAILURES, path_expression
from cje.data.fields import SYNONYMS, Leaf, Plan, kind_of
from cje.data.opening import open_file
from cje.data.problems import BadRows
from cje.data.rows import LeafSurvey, rows_frame
from cje.data.sniff import MAX_LINE_BYTES
from cje.data.tables import Loaded
from cje.errors import CJEError

__all__ = ["JsonlTable"]

_HEAD_LINES = 300
_PLACES = 24  # stretches of the file looked at beyond its head, for fields that appear late
_STRETCH_BYTES = 32768
_LINES_A_PLACE = 20
_USUAL_LABELS = ("oracle_label", "human_label", "human_score", "gold_label")
_UTF8_HINT = "save the file as UTF-8, or pass skip_bad_rows=True to drop and count such rows"


class JsonlTable:
    """A JSON Lines file; `leaves` samples it, `load` reads the columns of a plan."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, name: str, skip_bytes: int = 0) -> None:
        self.path, self.name, self._skip = path, name, skip_bytes

    def leaves(self) -> list[Leaf]:
        """Fields seen in the head of the file and in stretches spread over the rest."""
        survey = LeafSurvey()
        objects = 0
        for line in self._sampled_lines():
            row = _object(line)
            if row is not None:
                survey.see(row)
                objects += 1
        if not objects:
            self._explain_no_objects()
        self._see_late_labels(survey)
        return survey.leaves()

    def first(self) -> Mapping[str, Any] | None:
        """The first object of the file; None where the first line is none."""
        for line in self._lines():
            if line.strip():
                return _object(line)
        return None

    def objects(self) -> list[Mapping[str, Any]]:
        """All objects, for files of other tools, which are small; the first bad line raises."""
        return [row for _, row in self._objects(BadRows(skip=False))]

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        paths = set(plan.columns.values())
        if any(path[:i] in paths for path in paths for i in range(1, len(path))):
            return self._careful(plan, bad)  # a field that is a value here and an object there
        try:
            raw = self._fast(plan)
        except (*POLARS_FAILURES, UnicodeDecodeError):
            return self._careful(plan, bad)
        return Loaded.from_frame(raw, plan, bad, self.name, self._row_name)

    # ---- the fast path ----------------------------------------------------------------------

    def _fast(self, plan: Plan) -> pl.DataFrame:
        schema = _nested_schema(
            {path: _wanted_type(column, plan) for column, path in plan.columns.items()}
        )
        with open_file(self.path) as stream:
            source: Any = stream
            if self._skip:
                stream.seek(self._skip)
                source = stream.read()
            raw = pl.scan_ndjson(source, schema=schema).collect()
        return raw.select(
            path_expression(path).alias(column) for column, path in plan.columns.items()
        )

    # ---- the careful path -------------------------------------------------------------------

    def _careful(self, plan: Plan, bad: BadRows) -> Loaded:
        numbers: list[int] = []

        def rows() -> Iterator[Mapping[str, Any]]:
            for number, row in self._objects(bad):
                numbers.append(number)
                yield row

        frame, good = rows_frame(rows(), plan, bad, lambda i: f"{self.name}, row {numbers[i]}")
        return Loaded(frame, good, lambda i: f"row {numbers[i]}")

    def _objects(self, bad: BadRows) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Line number and object of every sound line; blank lines are no rows."""
        for number, line in enumerate(self._lines(), start=1):
            if not line.strip():
                continue
            where = f"{self.name}, row {number}"
            try:
                row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                wrong = line[error.start :][:20]
                bad.found("the line is not UTF-8", where=where, value=wrong, hint=_UTF8_HINT)
                continue
            except (ValueError, RecursionError) as error:
                bad.found(
                    f"the line is not valid JSON ({_reason(line, error)})",
                    where=where,
                    value=line[:60].decode("utf-8", "replace"),
                )
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                hint = "JSON Lines has one object a line; a JSON array belongs in a .json file"
                bad.found("the line is not a JSON object", where=where, value=row, hint=hint)

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as stream:
            stream.seek(self._skip)
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise CJEError(
                        f"a line is longer than {MAX_LINE_BYTES // 2**20} MB",
                        where=f"{self.name}, row {number}",
                        value=line[:40],
                        hint="JSON Lines has one object a line: check what wrote this file",
                    )
                yield line

    # ---- sampling ----------------------------------------------------------------------------

    def _sampled_lines(self) -> Iterator[bytes]:
        size = self.path.stat().st_size
        with self.path.open("rb") as stream:
            stream.seek(self._skip)
            for _ in range(_HEAD_LINES):
                line = stream.readline(MAX_LINE_BYTES + 1)
                if not line:
                    return
                yield line
            start = stream.tell()
            places = min(_PLACES, (size - start) // _STRETCH_BYTES)
            for place in range(1, places + 1):
                stream.seek(start + (size - start) * place // places - _STRETCH_BYTES)
                yield from stream.read(_STRETCH_BYTES).split(b"\n")[-_LINES_A_PLACE:]

    def _see_late_labels(self, survey: LeafSurvey) -> None:
        """Survey the first labelled row, where no sampled row has a label.

        Labels may start anywhere; searching for the quoted name is much cheaper than parsing.
        """
        names = ("oracle_label", *SYNONYMS["oracle_label"])
        seen = [leaf for leaf in survey.leaves() if leaf.path[-1] in names]
        if any(not leaf.only("null") for leaf in seen):
            return
        wanted = dict.fromkeys([*(leaf.path[-1] for leaf in seen), *_USUAL_LABELS])
        with (
            self.path.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            for name in wanted:
                found = re.search(rb'"%s"\s*:\s*[^n\s]' % name.encode(), content)
                if found is None:
                    continue
                start = content.rfind(b"\n", 0, found.start()) + 1
                end = content.find(b"\n", found.start())
                row = _object(content[start : end if end >= 0 else len(content)])
                if row is not None:
                    survey.see(row)

    def _explain_no_objects(self) -> None:
        for _ in self._objects(BadRows(skip=False)):  # raises at the first line that is none
            return
        raise CJEError("the file is empty", where=self.name, hint="it has only blank lines")

    # ---- names of rows -------------------------------------------------------------------------

    def _row_name(self, index: int) -> str:
        """The line on which the index-th object stands (blank lines count as lines)."""
        seen = -1
        for number, line in enumerate(self._lines(), start=1):
            seen += bool(line.strip())
            if seen == index:
                return f"row {number}"
        return f"row {index + 1}"


def _object(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None where there is none (`load` tells why, with its number)."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _reason(line: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = line.strip()
    if text.startswith((b"{", b"[")) and not text.endswith((b"}", b"]")):
        return "it breaks off before its end: the file may be truncated"
    return str(error).split(":")[0].lower()


def _wanted_type(column: str, plan: Plan) -> pl.DataType:
    return pl.Boolean() if column in plan.bools else CANONICAL_TYPES[kind_of(column)]


def _nested_schema(types: Mapping[tuple[str, ...], pl.DataType]) -> dict[str, pl.DataType]:
    """Paths and types -> a schema in which nested fields are structs."""
    tree: dict[str, Any] = {}
    for path, dtype in types.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = dtype

    def build(node: dict[str, Any]) -> dict[str, pl.DataType]:
        return {
            name: pl.Struct(build(child)) if isinstance(child, dict) else child
            for name, child in node.items()
        }

    return build(tree)
