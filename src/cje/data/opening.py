"""Open a file once, by descriptor; errors say what to do.

No path is handed to a library that interprets it: polars expands ``*``, ``?`` and ``[...]`` in a
path and would read the neighbours of ``m[1].csv``; an opened file is one file.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import BinaryIO

from cje.errors import CJEError

__all__ = ["cannot_open", "open_file"]

_HINTS = {
    errno.ENAMETOOLONG: "move the file to a folder with a shorter path",
    errno.EMFILE: "close other files, or raise the limit: ulimit -n 4096",
    errno.ENFILE: "close other programs: the system has too many open files",
    errno.EACCES: "check the permissions of the file and its folder",
    errno.EPERM: "check the permissions of the file and its folder",
}


def open_file(path: Path) -> BinaryIO:
    """The file at `path`, opened for reading bytes.

    Raises
    ------
    CJEError
        It cannot be opened: permissions, a path that is too long, too many open files.
    """
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise cannot_open(path, error) from error


def cannot_open(path: Path, error: OSError | ValueError) -> CJEError:
    """The error for a path that the operating system refused."""
    if not isinstance(error, OSError):
        return CJEError(f"not a path: {error}", where=ascii(str(path)))
    reason = (error.strerror or str(error)).lower()
    shown = str(path)
    if len(shown) > 200:
        shown = f"{shown[:80]}...{shown[-60:]} ({len(shown)} characters)"
    return CJEError(
        f"cannot be opened: {reason}",
        where=shown,
        hint=_HINTS.get(error.errno or 0, "check the path"),
    )
