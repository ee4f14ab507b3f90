"""When a file is read in parts: asked for, or unasked where it is large and nothing prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cje.data.sources import Opened
from cje.data.streaming import (
    STREAM_FROM,
    NotStreamed,
    StreamedRows,
    announced_rows,
    read_streamed,
)
from cje.errors import CJEError

__all__ = ["ENGINES", "Streaming", "in_memory_after", "streaming_of"]

ENGINES = ("auto", "memory", "streaming")

# Arguments of the reader that need all rows in memory.
_OF_READING = ("skip_bad_rows", "label_map", "wide", "covariates", "text", "labels")


@dataclass(frozen=True)
class Streaming:
    """Whether a file may be, or must be, read in parts, and what of the analysis prevents it."""

    engine: str
    against: tuple[str, ...] = ()
    note: str | None = None

    def read(self, source: Any, reading: Mapping[str, Any]) -> StreamedRows | None:
        """The rows in parts, or None where they are to be read in memory.

        Raises
        ------
        NotStreamed
            Where parts were asked for and something prevents them.
        """
        if self.note is not None and isinstance(source, Opened):
            source.notes.append(self.note)
        if self.engine == "memory" or not self._wanted(source):
            return None
        try:
            return self._read(source, reading)
        except NotStreamed as error:
            if self.engine == "streaming":
                raise
            source.notes.append(_note(error))
            return None

    def check(self, reading: Mapping[str, Any]) -> None:
        """Raise NotStreamed where the analysis uses what needs all rows in memory."""
        given = [name for name in _OF_READING if reading.get(name) not in (None, False, (), {})]
        against = (*self.against, *given)
        if against:
            raise NotStreamed(
                "the analysis uses what needs all rows in memory",
                value=", ".join(against),
                hint="leave these out, or leave the engine to be chosen",
            )

    def _wanted(self, source: Any) -> bool:
        return self.engine == "streaming" or announced_rows(source) >= STREAM_FROM

    def _read(self, source: Any, reading: Mapping[str, Any]) -> StreamedRows:
        if not isinstance(source, Opened):
            raise NotStreamed(
                "only a single Parquet file can be read in parts",
                value=type(source).__name__,
                hint="give its path",
            )
        self.check(reading)
        names = ("fields", "judge_scale", "oracle_scale", "repeats")
        return read_streamed(source, **{name: reading[name] for name in names})


def streaming_of(engine: str, estimator: str, whole: Mapping[str, bool]) -> Streaming:
    """How the fresh draws of an analysis may be read.

    `whole` says which arguments were given that need all rows in memory.
    """
    against = [name for name, given in whole.items() if given]
    if estimator not in ("auto", "direct"):
        against.append(f"the estimator {estimator}")
    return Streaming(engine, tuple(against))


def in_memory_after(error: CJEError) -> Streaming:
    """Reading in memory what turned out to need it."""
    return Streaming("memory", note=_note(error))


def _note(error: CJEError) -> str:
    value = "" if error.value is ... else f" ({error.value})"
    return f"read in memory: {error.what}{value}"
