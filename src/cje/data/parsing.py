"""JSON and CSV text, parsed strictly: what a parser would decide silently is an error.

A key that occurs twice in one object means one value to one parser and another to the next; a
CSV line with too few or too many cells puts values under the wrong names.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from cje.data.sniff import MAX_LINE_BYTES
from cje.errors import CJEError

__all__ = [
    "Ambiguous",
    "RepeatedKey",
    "check_cells",
    "csv_lines",
    "csv_records",
    "parse_json",
    "parse_marked",
]


class RepeatedKey(ValueError):
    """An object of a JSON text has one key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} occurs twice in one object")


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises
    ------
    ValueError
        Not JSON, nested too deeply, or (`RepeatedKey`) an object with a key that occurs twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Ambiguous(dict[str, Any]):
    """A JSON object in which the keys `repeated` occur more than once."""

    repeated: frozenset[str] = frozenset()


def parse_marked(text: str | bytes) -> Any:
    """As `parse_json`, but an object with repeated keys is an `Ambiguous`, for its reader to judge.

    A field that is not read may be ambiguous; one that is read may not.
    """
    try:
        return json.loads(text, object_pairs_hook=_marked)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(key for key, _ in pairs)
    marked = Ambiguous(found)
    marked.repeated = frozenset(key for key, count in counts.items() if count > 1)
    return marked


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
    return found


def csv_lines(stream: TextIO, separator: str = ",") -> Iterator[list[str]]:
    """The cells of each line; a cell may be as long as a line may.

    Raises
    ------
    csv.Error
        The text is not CSV, or a cell is longer than 32 MB.
    """
    # the limit belongs to the process: Python's default is 131,072 characters, less than a response
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    return csv.reader(stream, delimiter=separator, strict=True)


def csv_records(stream: TextIO, name: str, separator: str = ",") -> Iterator[dict[str, str]]:
    """Rows as dicts by the names in the first line; blank lines are ignored.

    Raises
    ------
    CJEError
        A line has more or fewer cells than the header, or the text is not CSV.
    """
    lines = csv_lines(stream, separator)
    try:
        header = next(lines, [])
        for number, cells in enumerate(lines, start=1):
            if cells:
                check_cells(len(cells), header, f"{name}, row {number}")
                yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise CJEError(f"the CSV file cannot be read: {error}", where=name) from error


def check_cells(count: int, header: Sequence[str], where: str) -> None:
    """Raise where a line has another number of cells than the header."""
    if count != len(header):
        raise CJEError(
            f"the line has {count} cells, the header {len(header)}",
            where=where,
            hint="check the quotes and separators of this line; write the file again if it is "
            "truncated",
        )
