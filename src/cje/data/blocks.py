"""A file of lines in blocks of whole lines, worked on by a few threads at a time.

Memory stays at a few blocks whatever the size of the file, and a block is processed while its bytes
are in the processor's cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from cje.data.opening import open_file
from cje.data.sniff import MAX_LINE_BYTES
from cje.errors import CJEError

__all__ = ["lines_of", "map_blocks", "version_of"]

T = TypeVar("T")

_BLOCK_BYTES = 4 * 2**20
_MAX_THREADS = 8


def version_of(path: Path) -> tuple[int, int, int]:
    """What changes when the file does."""
    with open_file(path) as stream:
        found = os.fstat(stream.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def map_blocks(path: Path, name: str, skip: int, work: Callable[[int, bytes], T]) -> list[T]:
    """`work` on every block of whole lines after the first `skip` bytes, results in file order.

    It is given the number of the block and its bytes.

    Raises
    ------
    CJEError
        The file cannot be opened, or a line is longer than 32 MB.
    """
    with open_file(path) as stream:
        descriptor = stream.fileno()
        spans = list(_spans(descriptor, name, skip))

        def run(number: int) -> T:
            start, end = spans[number]
            return work(number, os.pread(descriptor, end - start, start))

        if len(spans) < 2:
            return [run(number) for number in range(len(spans))]
        threads = min(_MAX_THREADS, os.cpu_count() or 1, len(spans))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, range(len(spans))))


def _spans(descriptor: int, name: str, skip: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each block; a block ends after a line feed, or with the file."""
    size = os.fstat(descriptor).st_size
    start = skip
    while start < size:
        end = min(start + _BLOCK_BYTES, size)
        if end < size:
            end = _after_line_feed(descriptor, name, start, end, size)
        yield start, end
        start = end


def _after_line_feed(descriptor: int, name: str, start: int, end: int, size: int) -> int:
    """The first position from `end` on that follows a line feed."""
    while end < size:
        tail = os.pread(descriptor, 2**16, end - 1)
        found = tail.find(b"\n")
        if found >= 0:
            return end + found
        end += len(tail) - 1
        if end - start > MAX_LINE_BYTES + _BLOCK_BYTES:
            raise too_long(name, lines_before(descriptor, start), os.pread(descriptor, 40, start))
    return size


def lines_before(descriptor: int, end: int) -> int:
    """Line feeds before a position."""
    return sum(
        os.pread(descriptor, min(_BLOCK_BYTES, end - at), at).count(b"\n")
        for at in range(0, end, _BLOCK_BYTES)
    )


def too_long(name: str, before: int, line: bytes) -> CJEError:
    return CJEError(
        f"a line is longer than {MAX_LINE_BYTES // 2**20} MB",
        where=f"{name}, row {before + 1}",
        value=line[:40],
        hint="JSON Lines has one object per line: check what wrote this file",
    )


def lines_of(path: Path, name: str, skip: int) -> Iterator[bytes]:
    """The lines one by one, with their line feeds."""
    with open_file(path) as stream:
        stream.seek(skip)
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise too_long(name, number, line)
            number += 1
            yield line
