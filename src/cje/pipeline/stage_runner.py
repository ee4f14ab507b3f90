"""`StageRunner`: runs stages in a work folder, with its store, manifest, event log and executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl

from cje.findings import Finding
from cje.pipeline.chunks import Chunk, RowStream, find_chunk, read_frame, write_frame
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import disk_error, remove_leftovers
from cje.pipeline.events import EventLog
from cje.pipeline.local import LocalExecutor
from cje.pipeline.lock import WorkFolderLock
from cje.pipeline.manifest import Manifest
from cje.pipeline.progress import Moment, NoProgress, Reporter
from cje.pipeline.stages.base import CallStage, chunk_name, schema_after
from cje.pipeline.store import CallStore

__all__ = ["StageRunner"]

T = TypeVar("T")
_EVENT_SECONDS = 10.0


class Executor(Protocol):
    """Runs the calls of a stage."""

    def run_stage(self, stage: CallStage, rows: RowStream) -> tuple[Chunk, ...]: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


class StageRunner:
    """Runs stages: what `CJEPipeline` needs besides their order.

    Parameters
    ----------
    config : PipelineConfig
    reporter : Reporter, optional
        Shows progress; silent by default.
    """

    def __init__(self, config: PipelineConfig, *, reporter: Reporter | None = None) -> None:
        self.config = config
        self.work_dir = Path(config.work_dir)
        self._reporter = reporter or NoProgress()
        self._last_event = time.monotonic()
        self._executor: Executor | None = None
        self._stopped = False

    def _run_stage(self, name: str, stage: Callable[..., T], *arguments: Any) -> T:
        """Run one stage, with progress, events and timing."""
        if self._stopped:
            raise KeyboardInterrupt
        total = len(arguments[0]) if arguments and isinstance(arguments[0], RowStream) else 0
        began = time.monotonic()
        self._reporter.start(name, total)
        self._events.write("stage_started", stage=name, rows=total)
        try:
            made = stage(*arguments)
        except BaseException as error:
            self._events.write("stage_failed", stage=name, error=type(error).__name__)
            raise
        rows = len(made) if isinstance(made, RowStream) else total
        errors = made.errors if isinstance(made, RowStream) else 0
        self._events.write(
            "stage_finished",
            stage=name,
            rows=rows,
            errors=errors,
            seconds=round(time.monotonic() - began, 3),
        )
        self._reporter.done(name, f"{rows} rows, {errors} errors" if rows else "")
        return made

    def _call_stage(self, stage: CallStage, rows: RowStream, label: str | None = None) -> RowStream:
        assert self._executor is not None  # created after the check of the servers
        chunks = self._executor.run_stage(stage, rows)
        return self._finished(stage.name, stage.fingerprint, chunks, label)

    def _called(self, stage: CallStage, label: str) -> Callable[[RowStream], RowStream]:
        return lambda rows: self._call_stage(stage, rows, label)

    def _column_stage(
        self,
        stage: str,
        name: str,
        rows: RowStream,
        columns: Callable[[], dict[str, Any]],
        label: str | None = None,
    ) -> RowStream:
        """Run a stage that adds columns, computed from all rows at once, to each chunk."""
        names = [chunk_name(name, source) for source in rows.chunks]
        chunks = [find_chunk(self.work_dir, self._store, stage, each) for each in names]
        if not all(chunks):
            added = {column: np.asarray(values) for column, values in columns().items()}
            start = 0
            for index, source in enumerate(rows.chunks):
                part = {k: v[start : start + source.rows] for k, v in added.items()}
                start += source.rows
                frame = read_frame(self.work_dir, source.stage, source.name, sha256=source.sha256)
                chunks[index] = write_frame(
                    self.work_dir, self._store, stage, names[index], _with(frame, part, stage)
                )
        return self._finished(
            stage, name, tuple(chunk for chunk in chunks if chunk is not None), label
        )

    def _finished(
        self, stage: str, name: str, chunks: tuple[Chunk, ...], label: str | None = None
    ) -> RowStream:
        rows = RowStream(self.work_dir, stage, chunks)
        self._manifest.stage(label or stage, name, rows)
        return rows

    # -- opening the work folder ---------------------------------------------------------------

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the lock, the store and the log open during a run."""
        with WorkFolderLock(self.work_dir):
            self._store = CallStore(
                self.work_dir / "store.sqlite", durability=self.config.durability
            )
            self._findings: list[Finding] = []
            with _closing(self._store.close):
                with disk_error(self.work_dir):
                    remove_leftovers(self.work_dir)
                    self._manifest = Manifest(self.work_dir, self.config)
                    self._events = EventLog(self.work_dir / "events.jsonl")
                with _closing(self._reporter.close, self._events.close, self._close_executor):
                    yield

    def _close_executor(self) -> None:
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    def _make_executor(self) -> Executor:
        arguments = (self.config, self.work_dir, self._store, self._report, self._reporter.note)
        if self.config.executor == "ray":
            from cje.pipeline.ray_executor import RayExecutor

            return RayExecutor(*arguments)
        return LocalExecutor(*arguments)

    def _report(self, stage: str, moment: Moment) -> None:
        self._reporter.update(stage, moment)
        now = time.monotonic()
        if now - self._last_event >= _EVENT_SECONDS:
            self._last_event = now
            self._events.write("progress", stage=stage, **asdict(moment))


@contextmanager
def _closing(*closers: Callable[[], None]) -> Iterator[None]:
    """Call all closers at the end, the last one first, also after an error."""
    with ExitStack() as stack:
        for closer in closers:
            stack.callback(closer)
        yield


def _with(frame: pl.DataFrame, columns: dict[str, Any], stage: str) -> pl.DataFrame:
    """`frame` with columns added, in the stage's own order; NaN is written as null."""
    schema = schema_after(stage)
    added = [pl.Series(name, values).fill_nan(None) if values.dtype.kind == "f"
             else pl.Series(name, values) for name, values in columns.items()]  # fmt: skip
    absent = [pl.lit(None).alias(n) for n in schema if n not in frame.columns and n not in columns]
    return frame.with_columns(*added, *absent).select(
        pl.col(name).cast(kind) for name, kind in schema.items()
    )
