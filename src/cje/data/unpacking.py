"""Bounds on what a compressed file unpacks to, known before memory is allocated.

A few megabytes can unpack to as many gigabytes. gzip and zip are unpacked in pieces up to a
bound; of a Zstandard frame the size is bounded from its block headers alone (a block unpacks to
at most 128 KiB). Format: https://datatracker.ietf.org/doc/html/rfc8878#section-3.1
"""

from __future__ import annotations

import gzip
import zlib
from typing import BinaryIO

from cje.errors import CJEError

__all__ = ["MAX_UNPACKED_BYTES", "check_unpacked", "gunzip", "zstd_bound"]

MAX_UNPACKED_BYTES = 2 * 2**30
_ZSTD_BLOCK = 128 * 2**10
_PIECE = 2**20


def check_unpacked(size: int, name: str, limit: int = MAX_UNPACKED_BYTES) -> None:
    """Raise where unpacking would take more than `limit` bytes."""
    if size > limit:
        raise CJEError(
            f"the file unpacks to more than {limit / 2**30:.3g} GB",
            where=name,
            hint="unpack it yourself if you trust it, and read the unpacked file",
        )


def gunzip(stream: BinaryIO, name: str) -> bytes:
    """A gzip file unpacked, all members of it.

    Raises
    ------
    CJEError
        Damaged, cut off, or larger than `MAX_UNPACKED_BYTES` once unpacked.
    """
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            while piece := unpacked.read(_PIECE):
                parts.append(piece)
                size += len(piece)
                check_unpacked(size, name)
    except EOFError as error:
        raise CJEError(
            "the gzip file is truncated", where=name, hint="compress it again"
        ) from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise CJEError(f"the gzip file is damaged ({error})", where=name) from error
    return b"".join(parts)


def zstd_bound(packed: bytes) -> int:
    """The most bytes that Zstandard data can unpack to.

    Raises
    ------
    ValueError
        Not Zstandard data, or cut off.
    """
    at, bound = 0, 0
    try:
        while at < len(packed):
            magic = int.from_bytes(packed[at : at + 4], "little")
            if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame to be skipped
                at += 8 + int.from_bytes(packed[at + 4 : at + 8], "little")
                continue
            if magic != 0xFD2FB528:
                raise ValueError("not Zstandard data")
            at, frame = _frame(packed, at + 4)
            bound += frame
    except IndexError as error:
        raise ValueError("truncated Zstandard data") from error
    return bound


def _frame(packed: bytes, at: int) -> tuple[int, int]:
    """Where a frame ends, and the most it unpacks to."""
    descriptor = packed[at]
    single = bool(descriptor & 32)
    size_bytes = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    at += 1 + (not single) + (0, 1, 2, 4)[descriptor & 3] + size_bytes
    bound, last = 0, False
    while not last:
        header = packed[at] | packed[at + 1] << 8 | packed[at + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == 1 else size)
        bound += _ZSTD_BLOCK if kind == 2 else size
    return at + (4 if descriptor & 4 else 0), bound
