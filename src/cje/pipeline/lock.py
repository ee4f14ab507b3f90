"""One run at a time in one work folder."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from types import TracebackType

from cje.errors import CJEError
from cje.pipeline.disk import disk_error

__all__ = ["WorkFolderLock", "is_locked"]


class WorkFolderLock:
    """Holds a work folder for one process; a second one is told who has it.

    The lock is SQLite's own exclusive file lock on an empty database, so it works wherever the
    store works and the operating system drops it when the process dies, even by ``kill -9``.
    Nothing has to be cleaned up by hand.
    """

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / "lock.sqlite"
        self._owner = work_dir / "lock.json"
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> WorkFolderLock:
        with disk_error(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            try:
                connection.execute("BEGIN EXCLUSIVE")
                self._owner.write_text(json.dumps({"pid": os.getpid()}))
            except (sqlite3.Error, OSError) as error:
                connection.close()
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
            return f" (process {json.loads(self._owner.read_text())['pid']})"
        except (OSError, ValueError, KeyError):
            return ""  # the other run has not written its name yet


def is_locked(work_dir: Path) -> bool:
    """Whether a run is using `work_dir` right now."""
    path = work_dir / "lock.sqlite"
    if not path.is_file():
        return False
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    finally:
        connection.close()
    return False
