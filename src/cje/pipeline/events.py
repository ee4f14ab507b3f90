"""The event log: one JSON object per line, numbers and names only (no text, no key)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TextIO

from cje.pipeline.disk import create_private, disk_error

__all__ = ["EventLog"]


class EventLog:
    """Appends events to a file, each line flushed as it is written."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        with disk_error(self._folder):
            create_private(path)
            self._handle: TextIO = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, event: str, **values: Any) -> None:
        """Append one event with the time in seconds since 1970."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **values})
        with disk_error(self._folder):
            self._handle.write(line + "\n")
            self._handle.flush()

    def close(self) -> None:
        """Close the file."""
        self._handle.close()
