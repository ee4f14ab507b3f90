"""Disk trouble told in one sentence, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cje.errors import CJEError

__all__ = ["DiskError", "disk_error", "write_atomically"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class DiskError(CJEError):
    """The work folder cannot take more data. Everything committed before is intact."""


@contextmanager
def disk_error(folder: Path) -> Iterator[None]:
    """Turn the operating system's and SQLite's complaints about `folder` into a `DiskError`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        text = str(error).lower()
        number = error.errno if isinstance(error, OSError) else None
        if number in _FULL or "full" in text:
            what, hint = "the disk (or quota) of the work folder is full", "free some space"
        elif number in _READ_ONLY or "readonly" in text or "read-only" in text:
            what, hint = "the work folder cannot be written", "check its permissions and mount"
        elif isinstance(error, FileNotFoundError) or "unable to open" in text:
            what, hint = "the work folder cannot be opened", "check that the path can be created"
        elif "disk i/o" in text:
            what, hint = "the disk of the work folder failed", "check free space and the disk"
        else:
            raise
        raise DiskError(
            f"{what} ({error})",
            where=str(folder),
            hint=f"{hint}, then run the same command again: finished calls are kept",
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a temporary name, fsync, rename, fsync the folder.

    A reader sees the old file or the whole new one; so does the disk after a power cut.
    """
    with disk_error(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # a folder cannot be opened for syncing there
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
