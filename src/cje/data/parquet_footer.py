"""How large a Parquet file is once it is unpacked, from its footer alone.

A file of one megabyte can announce billions of rows; the reader would ask for the memory and the
process would be killed. The footer is Thrift's compact protocol, of which this reads two numbers
per row group. Format: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from cje.errors import CJEError

__all__ = ["check_parquet_size", "unpacked_size"]

_MAGIC = b"PAR1"
_MAX_DEPTH = 32
_LEAST_ROW_BYTES = 8  # a row of one column, once it is in memory


def check_parquet_size(stream: BinaryIO, name: str) -> None:
    """Raise where the file would not fit in the memory there is.

    Raises
    ------
    CJEError
        The file announces more than the available memory, or has no readable footer.
    """
    rows, size = unpacked_size(stream, name)
    needed, available = max(size, rows * _LEAST_ROW_BYTES), _available_memory()
    if needed > available:
        raise CJEError(
            f"the file announces {rows:,} rows and {needed / 2**30:,.1f} GB once unpacked, more "
            f"than the available memory ({available / 2**30:,.1f} GB)",
            where=name,
            hint="check what wrote this file; write it again in parts, with fewer columns",
        )


def unpacked_size(stream: BinaryIO, name: str) -> tuple[int, int]:
    """Rows, and bytes before compression, that the footer announces."""
    end = stream.seek(0, os.SEEK_END)
    stream.seek(max(end - 8, 0))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    if len(tail) < 8 or tail[4:] != _MAGIC or length > end - 12:
        raise CJEError(
            "the Parquet file cannot be read (it has no footer)", where=name,
            hint="write it again; it may be truncated",
        )  # fmt: skip
    stream.seek(end - 8 - length)
    footer = stream.read(length)
    stream.seek(0)
    try:
        fields = _Compact(footer).struct({3: None, 4: {2: None, 3: None}})
    except (IndexError, ValueError, RecursionError) as error:
        raise CJEError(
            "the Parquet file cannot be read (its footer is damaged)", where=name,
            hint="write it again; it may be truncated",
        ) from error  # fmt: skip
    groups = fields.get(4) or []
    in_groups = sum(max(group.get(3) or 0, 0) for group in groups)
    return max(fields.get(3) or 0, in_groups), sum(max(group.get(2) or 0, 0) for group in groups)


class _Compact:
    """A reader of Thrift's compact protocol that keeps the fields asked for and skips the rest."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, wanted: dict[int, Any], depth: int = 0) -> dict[int, Any]:
        """Fields by number; a value of None asks for an integer, a dict for structs in a list."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._zigzag()
            if number in wanted and wanted[number] is None and kind in (4, 5, 6):
                found[number] = self._zigzag()
            elif number in wanted and wanted[number] is not None and kind == 9:
                count, inner = self._list_head()
                if inner != 12:
                    raise ValueError("not a list of structs")
                found[number] = [self.struct(wanted[number], depth + 1) for _ in range(count)]
            else:
                self._skip(kind, depth)
        return found

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if kind in (1, 2):  # true and false are in the type
            return
        if kind == 3:
            self._byte()
        elif kind in (4, 5, 6):
            self._varint()
        elif kind == 7:
            self._take(8)
        elif kind == 8:
            self._take(self._varint())
        elif kind in (9, 10):
            count, inner = self._list_head()
            for _ in range(count):
                self._skip(3 if inner in (1, 2) else inner, depth + 1)
        elif kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, depth + 1)
                self._skip(kinds & 15, depth + 1)
        elif kind == 12:
            self.struct({}, depth + 1)
        else:
            raise ValueError("unknown type")

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        count = self._varint() if count == 15 else count
        if count > len(self._data):
            raise ValueError("a list longer than the footer")
        return count, head & 15

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("beyond the end")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 70:
                raise ValueError("a number of too many bytes")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _available_memory() -> int:
    """Bytes of available memory; all memory, or 64 GB, where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 64 * 2**30
