"""Stage outputs: Parquet chunks with content hashes, named after their inputs.

A chunk's name is the fingerprint of (stage, the stage's own settings, the content hash of the
input chunk). A changed setting therefore changes the names of exactly the chunks that depend on it,
and an input that comes out with the same bytes leaves everything after it untouched.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cje.errors import CJEError
from cje.pipeline.disk import write_atomically
from cje.pipeline.hashing import content_hash
from cje.pipeline.store import CallStore

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Chunk", "RowStream", "chunk_exists", "chunk_path", "load_chunk", "write_chunk"]

Row = dict[str, Any]
_NOT_IN_A_NAME = frozenset("/\\:\0")

_REBUILD = "delete this file and run the same command again: it is rebuilt from the store"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A complete chunk file: where it is, its content hash, its rows, error rows and calls."""

    stage: str
    name: str
    sha256: str
    bytes: int
    rows: int
    errors: int
    calls: int = 0

    def settled(self, source: Chunk) -> bool:
        """Whether this chunk, made from `source`, has no error rows of its own stage to try again.

        Error rows of `source` stay as they are.
        """
        return self.errors <= source.errors


def chunk_path(work_dir: str | Path, stage: str, name: str) -> Path:
    """Path of the chunk `name` of `stage`. Names are hexadecimal digests, never user text.

    A name that would lead out of the folder is refused.
    """
    for what, part in (("stage", stage), ("name", name)):
        if not isinstance(part, str) or part in ("", ".", "..") or set(part) & _NOT_IN_A_NAME:
            raise CJEError(f"a chunk's {what} must be one plain name, not a path", value=part)
    if not isinstance(work_dir, str | Path):
        raise CJEError("work_dir must be a path", value=work_dir)
    return Path(work_dir) / "chunks" / stage / f"{name}.parquet"


def chunk_exists(work_dir: str | Path, stage: str, name: str) -> bool:
    """Whether the chunk is on disk. Files appear by renaming, so an existing one is complete."""
    return chunk_path(work_dir, stage, name).is_file()


def load_chunk(
    work_dir: str | Path, stage: str, name: str, *, sha256: str | None = None
) -> list[Row]:
    """Rows of a chunk; with `sha256`, its bytes are checked against that hash."""
    return read_frame(work_dir, stage, name, sha256=sha256).to_dicts()


def read_frame(
    work_dir: str | Path,
    stage: str,
    name: str,
    *,
    sha256: str | None = None,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """A chunk as a data frame."""
    import polars as pl

    from cje.data.convert import POLARS_FAILURES

    path = chunk_path(work_dir, stage, name)
    try:
        data = path.read_bytes()
    except (OSError, UnicodeError) as error:  # a folder of that name, or an invalid name
        raise CJEError(f"a stage output cannot be read: {error}", where=str(path)) from error
    if sha256 is not None and content_hash(data) != sha256:
        raise CJEError(
            "a stage output was changed after it was written",
            where=str(path),
            hint=_REBUILD,
        )
    try:
        return pl.read_parquet(io.BytesIO(data), columns=None if columns is None else list(columns))
    except (*POLARS_FAILURES, OSError) as error:
        raise CJEError(
            f"a stage output cannot be read: {str(error).splitlines()[0]}",
            where=str(path),
            hint=_REBUILD,
        ) from error


def write_chunk(
    work_dir: str | Path,
    store: CallStore,
    stage: str,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    schema: Mapping[str, Any],
    calls: int = 0,
) -> Chunk:
    """Write rows as one Parquet file and record its hash; a column no row has is null."""
    import polars as pl

    frame = pl.DataFrame(list(rows), schema=dict(schema), orient="row")
    return write_frame(work_dir, store, stage, name, frame, calls)


def write_frame(
    work_dir: str | Path,
    store: CallStore,
    stage: str,
    name: str,
    frame: pl.DataFrame,
    calls: int = 0,
) -> Chunk:
    """Write a frame as one Parquet file (temporary name, fsync, rename) and record its hash."""
    data = parquet_bytes(frame)
    write_atomically(chunk_path(work_dir, stage, name), data)
    errors = int(frame["error"].is_not_null().sum())
    chunk = Chunk(stage, name, content_hash(data), len(data), len(frame), errors, calls)
    store.record_chunk(stage, name, (chunk.sha256, chunk.bytes, chunk.rows, errors, calls))
    return chunk


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as Parquet, with fixed options: the same rows always give the same bytes."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=3, statistics=False, row_group_size=1 << 20
    )
    return buffer.getvalue()


def find_chunk(work_dir: str | Path, store: CallStore, stage: str, name: str) -> Chunk | None:
    """The recorded chunk, if its file exists with the recorded size."""
    found = store.find_chunk(stage, name)
    if found is None:
        return None
    chunk = Chunk(stage, name, *found)
    try:
        actual = chunk_path(work_dir, stage, name).stat().st_size
    except OSError:
        return None  # missing: the stage writes it again from the store
    return chunk if actual == chunk.bytes else None


@dataclass(frozen=True)
class RowStream:
    """The output of a stage: chunks on disk, read one at a time.

    It takes the place of the founding document's list of rows; iterating gives the rows in
    order and never holds more than one chunk.
    """

    work_dir: Path
    stage: str
    chunks: tuple[Chunk, ...]

    def __len__(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def __iter__(self) -> Iterator[Row]:
        for chunk in self.chunks:
            yield from self.load(chunk)

    @property
    def errors(self) -> int:
        """Rows that carry an error."""
        return sum(chunk.errors for chunk in self.chunks)

    def load(self, chunk: Chunk) -> list[Row]:
        """The rows of one chunk, checked against its recorded hash."""
        return load_chunk(self.work_dir, chunk.stage, chunk.name, sha256=chunk.sha256)

    def part(self, chunk: Chunk, names: Sequence[str]) -> Iterator[Row]:
        """The rows of one chunk with some of their columns only."""
        frame = read_frame(
            self.work_dir, chunk.stage, chunk.name, sha256=chunk.sha256, columns=names
        )
        return frame.iter_rows(named=True)

    def select(self, *names: str) -> Iterator[Row]:
        """All rows with some of their columns only."""
        for chunk in self.chunks:
            yield from self.part(chunk, names)

    def columns(self, *names: str) -> pl.DataFrame:
        """Some columns of all rows (numbers and ids: small), as a data frame."""
        import polars as pl

        return pl.concat(
            read_frame(self.work_dir, c.stage, c.name, sha256=c.sha256, columns=names)
            for c in self.chunks
        )
