"""JSON Lines: polars where the file is sound, line by line where it is not.

All rows are surveyed for fields and types: the first label may be on any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from cje.data.blocks import lines_of, map_blocks, version_of
from cje.data.convert import CANONICAL_TYPES, POLARS_FAILURES, leaves_of_schema, path_expression
from cje.data.field_names import may_play_a_role
from cje.data.field_plan import Plan
from cje.data.fields import Leaf, kind_of
from cje.data.json_checks import claimed_kinds
from cje.data.parsing import parse_json, parse_marked
from cje.data.plain_blocks import plain_kinds
from cje.data.problems import BadRows
from cje.data.rows import LeafSurvey, rows_frame
from cje.data.tables import Loaded
from cje.errors import CJEError
from cje.hints import option_hint

__all__ = ["JsonlTable"]

_FIRST_ROWS = 200

Kinds = Mapping[tuple[str, ...], frozenset[str]]


def _utf8_hint() -> str:
    skip = option_hint("skip_bad_rows", True)
    return f"save the file as UTF-8, or skip and count such rows: {skip}"


class _NeedsCare(Exception):
    """The fast reader would decide something silently: read line by line."""


class JsonlTable:
    """A JSON Lines file; `leaves` surveys all rows, `load` reads the columns of a plan."""

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, name: str, skip_bytes: int = 0) -> None:
        self.path, self.name, self._skip = path, name, skip_bytes
        self._survey: LeafSurvey | None = None
        self._all_rows_count = False  # a bad line is an error: none has to be found
        self._plain: list[Kinds | None] = []  # of each block: what `plain_kinds` found
        self._surveyed: tuple[int, int, int] | None = None  # the version of the file

    def leaves(self) -> list[Leaf]:
        """Every field that any row has, with the types of its values."""
        if self._survey is None:
            survey = LeafSurvey()
            self._surveyed = version_of(self.path)
            for found, plain in map_blocks(self.path, self.name, self._skip, self._survey_block):
                survey.add(found)
                self._plain.append(plain)
            if not survey.leaves():
                self._explain_no_objects()
            self._survey = survey
        return self._survey.leaves()

    def _survey_block(self, _: int, block: bytes) -> tuple[LeafSurvey, Kinds | None]:
        """The fields of one block, and what is known of it for `load`.

        `plain_kinds` may see a key in a line that is not JSON: reading the values refuses the line,
        but where bad lines are skipped, the keys of the others are wanted.
        """
        plain = plain_kinds(block) if self._all_rows_count else None
        if plain is None:
            return _survey_block(block), None
        survey = LeafSurvey()
        for place, kinds in plain.items():
            survey.add_leaf(Leaf(place, kinds))
        return survey, plain

    def expect_sound_rows(self) -> None:
        """Bad lines will not be skipped: raise at the first one near the start of the file.

        `load` would raise the same error, but only after a survey of the whole file.
        """
        self._all_rows_count = True
        for _ in islice(self._objects(BadRows(skip=False), parse_marked), _FIRST_ROWS):
            pass

    def first(self) -> Mapping[str, Any] | None:
        """The first object of the file; None where the first line is not an object."""
        for line in lines_of(self.path, self.name, self._skip):
            if line.strip():
                return _object(line)
        return None

    def objects(self) -> list[Mapping[str, Any]]:
        """All objects, for files of other tools, which are small; the first bad line raises."""
        return [row for _, row in self._objects(BadRows(skip=False), parse_json)]

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        paths = set(plan.columns.values())
        if any(path[:i] in paths for path in paths for i in range(1, len(path))):
            return self._careful(plan, bad)  # a field that is a value here and an object there
        try:
            raw = self._fast(plan)
        except (*POLARS_FAILURES, UnicodeError, _NeedsCare):
            return self._careful(plan, bad)
        return Loaded.from_frame(raw, plan, bad, self.name, self._row_name)

    # ---- the fast path ----------------------------------------------------------------------

    def _fast(self, plan: Plan) -> pl.DataFrame:
        kinds = {leaf.path: leaf.kinds for leaf in self.leaves()}
        types = {
            path: _wanted_type(column, plan, kinds.get(path, frozenset()))
            for column, path in plan.columns.items()
        }
        if not types:
            raise _NeedsCare
        plain = self._plain if version_of(self.path) == self._surveyed else []
        reader = _BlockReader(plan, types, plain)
        return pl.concat(map_blocks(self.path, self.name, self._skip, reader.read), rechunk=True)

    # ---- the careful path -------------------------------------------------------------------

    def _careful(self, plan: Plan, bad: BadRows) -> Loaded:
        numbers: list[int] = []

        def rows() -> Iterator[Mapping[str, Any]]:
            for number, row in self._objects(bad, parse_marked):
                numbers.append(number)
                yield row

        frame, good, texts = rows_frame(
            rows(), plan, bad, lambda i: f"{self.name}, row {numbers[i]}"
        )
        return Loaded(frame, good, lambda i: f"row {numbers[i]}", texts=texts)

    def _objects(self, bad: BadRows, parse: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Line number and object of every sound line; blank lines are ignored."""
        for number, line in enumerate(lines_of(self.path, self.name, self._skip), start=1):
            if not line.strip():
                continue
            where = f"{self.name}, row {number}"
            try:
                row = parse(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                wrong = line[error.start :][:20]
                bad.found("the line is not UTF-8", where=where, value=wrong, hint=_utf8_hint())
                continue
            except ValueError as error:
                bad.found(
                    f"the line is not valid JSON ({_reason(line, error)})",
                    where=where,
                    value=line[:60].decode("utf-8", "replace"),
                )
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                hint = "JSON Lines has one object per line; a JSON array belongs in a .json file"
                bad.found("the line is not a JSON object", where=where, value=row, hint=hint)

    def _explain_no_objects(self) -> None:
        for _ in self._objects(BadRows(skip=False), parse_marked):  # raises at the first bad line
            return
        raise CJEError("the file is empty", where=self.name, hint="it has only blank lines")

    # ---- names of rows -------------------------------------------------------------------------

    def _row_name(self, index: int) -> str:
        """The line on which the index-th object stands (blank lines count as lines)."""
        seen = -1
        for number, line in enumerate(lines_of(self.path, self.name, self._skip), start=1):
            seen += bool(line.strip())
            if seen == index:
                return f"row {number}"
        return f"row {index + 1}"


class _BlockReader:
    """Reads the columns of a plan from one block, or raises where it takes the careful path."""

    def __init__(
        self,
        plan: Plan,
        types: Mapping[tuple[str, ...], pl.DataType],
        plain: Sequence[Kinds | None],
    ) -> None:
        self._plain = plain
        self._select = [path_expression(p).alias(column) for column, p in plan.columns.items()]
        self._types = types
        self._schema = _nested_schema(types)
        self._names = {name for path in types for name in path}

    def read(self, number: int, block: bytes) -> pl.DataFrame:
        plain = self._plain[number] if number < len(self._plain) else None
        claimed = claimed_kinds(block, self._names) if plain is None else None
        for path, dtype in self._types.items():
            if plain is not None:
                found = [plain.get(path[: i + 1], frozenset()) for i in range(len(path))]
            elif claimed is not None:
                found = [claimed[name] for name in path]
            else:
                raise _NeedsCare
            *parents, last = found
            if not _agrees(last, dtype) or not all(k <= {"struct", "null"} for k in parents):
                raise _NeedsCare
        if block.isspace():
            return pl.DataFrame(schema=self._schema).select(self._select)
        return pl.scan_ndjson(block, schema=self._schema).select(self._select).collect()


def _agrees(found: frozenset[str], dtype: pl.DataType) -> bool:
    """Whether polars reads values of these kinds as the careful path does."""
    found = found - {"null", "fraction"}
    if isinstance(dtype, pl.List):
        return found <= {"list"}
    if dtype == pl.Boolean:
        return found <= {"bool"}
    if dtype == pl.String:
        return found <= {"text"}
    return found <= {"number"}


def _wanted_type(column: str, plan: Plan, kinds: frozenset[str]) -> pl.DataType:
    """The type to read a column as; raises where the rows disagree about it."""
    kind = kind_of(column)
    if column in plan.bools:
        return pl.Boolean()
    if kind in ("name", "text") and "number" in kinds:
        # whole numbers become text as they stand; 1.0 and 1.5 need a look, and so do mixtures
        if "fraction" in kinds or "text" in kinds:
            raise _NeedsCare
        return pl.Int64()
    if kind == "number" and kinds <= {"text", "null"} and "text" in kinds:
        return pl.String()
    return CANONICAL_TYPES[kind]


def _survey_block(block: bytes) -> LeafSurvey:
    """The fields of one block: from polars' schema of all its rows, else row by row."""
    survey = LeafSurvey()
    if block.isspace():
        return survey
    try:
        schema = pl.scan_ndjson(block, infer_schema_length=None).collect_schema()
    except POLARS_FAILURES:
        _see_lines(survey, block)
        return survey
    leaves = leaves_of_schema(schema)
    half_pairs = any("\0" in name for leaf in leaves for name in leaf.path)  # to polars
    if half_pairs or _hides_other_kinds(block, leaves):
        _see_lines(survey, block)
        return survey
    for leaf in leaves:
        survey.add_leaf(leaf)
    return survey


def _hides_other_kinds(block: bytes, leaves: list[Leaf]) -> bool:
    """Whether a field that may play a role is an object or a list to polars, but not in all rows.

    polars calls a column of numbers and objects a column of objects.
    """
    nested = {
        leaf.path[-1]: leaf.kinds
        for leaf in leaves
        if leaf.kinds & {"struct", "list"} and may_play_a_role(leaf.path[-1])
    }
    if not nested:
        return False
    found = claimed_kinds(block, nested)
    return found is None or any(found[name] - {"null"} > kinds for name, kinds in nested.items())


def _see_lines(survey: LeafSurvey, block: bytes) -> None:
    for line in block.split(b"\n"):
        row = _object(line)
        if row is not None:
            survey.see(row)


def _object(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None where there is none (`load` says why, with its number)."""
    try:
        row = parse_marked(line.decode("utf-8"))  # of bytes, Python would guess the encoding
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _reason(line: bytes, error: Exception) -> str:
    text = line.strip()
    if text.startswith((b"{", b"[")) and not text.endswith((b"}", b"]")):
        return "the line ends too early: the file may be truncated"
    return str(error).split(":")[0].lower()


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
