"""Disk errors as one sentence, and private files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cje.errors import CJEError

__all__ = [
    "DamagedStoreError",
    "DiskError",
    "create_private",
    "damaged",
    "disk_error",
    "make_private_folder",
    "remove_leftovers",
    "write_atomically",
]

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_TEMPORARY = ".tmp"

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class DiskError(CJEError):
    """The work folder cannot take more data. All committed data are intact."""


class DamagedStoreError(CJEError):
    """The store of calls holds content that this package did not write."""


@contextmanager
def disk_error(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system and SQLite about `folder` into a `DiskError`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        found = _disk_trouble(error)
        if found is None and isinstance(error, OSError):
            found = ("the work folder cannot be used", "check the path and the disk")
        if found is not None:
            what, hint = found
            raise DiskError(
                f"{what} ({error})",
                where=str(folder),
                hint=f"{hint}, then run the same command again: finished calls are kept",
            ) from error
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            raise  # a defect of this package, not of the file
        if "locked" in str(error):
            raise DiskError(
                "another process is writing to the store",
                where=str(folder),
                hint="wait for it, then run the same command again: finished calls are kept",
            ) from error
        raise damaged(folder / "store.sqlite", str(error)) from error


def _disk_trouble(error: OSError | sqlite3.Error) -> tuple[str, str] | None:
    """The problem with the disk, and what to do; None if the error is not about the disk."""
    # Only SQLite's messages are compared: those of the operating system quote the path.
    number = error.errno if isinstance(error, OSError) else None
    text = "" if isinstance(error, OSError) else str(error).lower()
    if number in _FULL or "full" in text:
        return "the disk (or quota) of the work folder is full", "free some space"
    if number in _READ_ONLY or "readonly" in text:
        return "the work folder cannot be written", "check its permissions and mount"
    if isinstance(error, FileNotFoundError) or "unable to open" in text:
        return "the work folder cannot be opened", "check that the path can be created"
    if "disk i/o" in text:
        return "the disk of the work folder failed", "check free space and the disk"
    return None


def damaged(path: Path, what: str) -> DamagedStoreError:
    """The error for a store with content that this package cannot have written."""
    return DamagedStoreError(
        f"the store of calls is damaged ({what})",
        where=str(path),
        hint="restore a copy of the file, or rescue what is readable with `sqlite3 store.sqlite "
        ".recover`; if you move the file away, the next run makes every call again",
    )


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))


def make_private_folder(folder: Path) -> None:
    """Create `folder` and missing parents for the owner only; existing folders are unchanged."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that a killed run left below `folder`.

    Call it only while holding the folder's lock, when no other process writes.
    """
    for path in folder.rglob(f".*{_TEMPORARY}"):
        path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a temporary name, fsync, rename, fsync the folder.

    A reader sees the old file or the complete new one, also after a power cut. Only the owner can
    read the file.
    """
    with disk_error(path.parent):
        make_private_folder(path.parent)
        temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
        try:
            temporary.unlink(missing_ok=True)
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
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
