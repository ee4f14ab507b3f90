"""One run at a time in one work folder."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType

from cje.errors import CJEError
from cje.pipeline.disk import create_private, disk_error, make_private_folder

__all__ = ["WorkFolderLock", "is_locked"]


class WorkFolderLock:
    """Locks a work folder for one process; a second process gets an error that names the first.

    The lock is SQLite's own exclusive file lock on an empty database, so it works wherever the
    store works, and the operating system releases it when the process dies, even by ``kill -9``.
    No clean-up is needed.
    """

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / "lock.sqlite"
        self._owner = work_dir / "lock.json"
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> WorkFolderLock:
        with disk_error(self._path.parent):
            make_private_folder(self._path.parent)
            create_private(self._path)
            connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            try:
                connection.execute("BEGIN EXCLUSIVE")
                create_private(self._owner)
                self._owner.write_text(json.dumps({"pid": os.getpid()}))
            except (sqlite3.Error, OSError) as error:
                connection.close()
                if isinstance(error, OSError):
                    raise
                if _is_damaged(error):
                    raise CJEError(
                        "the lock file is damaged", where=str(self._path),
                        hint="no run is using it: delete it, then run the same command again",
                    ) from error  # fmt: skip
                if "locked" not in str(error):
                    raise
                raise CJEError(
                    f"another run is using this work folder{self._who()}",
                    where=str(self._path.parent),
                    hint="wait for it, stop it, or set another work_dir; "
                    "`cje status` shows how far it is",
                ) from error
            self._connection = connection
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            self._connection.execute("ROLLBACK")
            self._connection.close()
            self._connection = None

    def _who(self) -> str:
        try:
            return f" (process {int(json.loads(self._owner.read_text())['pid'])})"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return ""  # the other run has not yet written its name


def is_locked(work_dir: Path) -> bool:
    """Whether a run is using `work_dir` right now."""
    path = work_dir / "lock.sqlite"
    if not path.is_file():
        return False
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        ) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.DatabaseError as error:
        return "locked" in str(error)  # nobody holds a lock whose file is damaged
    return False


def _is_damaged(error: sqlite3.Error) -> bool:
    return "not a database" in str(error) or "malformed" in str(error)
