"""The local executor: one process, one event loop, and a few chunks at a time."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cje.errors import CJEError
from cje.pipeline.budget import Budget
from cje.pipeline.chunks import Chunk, Row, RowStream, find_chunk, write_chunk
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import DamagedStoreError
from cje.pipeline.engine import CallEngine, RetrySettings, Tally
from cje.pipeline.gate import GateSettings
from cje.pipeline.progress import Moment
from cje.pipeline.request import Outcome
from cje.pipeline.stages.base import IN_PROCESS, CallStage, chunk_name, schema_after
from cje.pipeline.store import CallStore

__all__ = ["LocalExecutor", "gate_settings", "retry_settings", "run_rows"]

OPEN_CHUNKS = 3  # calls of the next chunks use the places that the last calls of a chunk leave free
TICK = 0.25


class StoppedError(CJEError):
    """The run was asked to stop; finished work is kept."""


async def run_rows(
    stage: CallStage, rows: Sequence[Row], engine: CallEngine
) -> tuple[list[Row], int]:
    """Take the rows of one chunk through a stage, with all their calls in flight together.

    Returns the rows and the number of distinct calls behind them.
    """
    per_row = [stage.requests(row) for row in rows]
    requests = [request for made in per_row for request in made]
    outcomes = iter(await engine.run(requests))
    finished = [
        _finish(stage, row, [next(outcomes) for _ in made])
        for row, made in zip(rows, per_row, strict=True)
    ]
    return finished, len({request.key for request in requests})


def _finish(stage: CallStage, row: Row, outcomes: list[Outcome]) -> Row:
    """The finished row; an answer that this stage cannot have stored means a damaged store."""
    try:
        return stage.finish(row, outcomes)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedStoreError(
            f"a stored answer is not one that this stage could have stored "
            f"({type(error).__name__}: {error})",
            where=f"{stage.name}, row {row.get('row_id')}",
            hint="restore a copy of store.sqlite; if you move the file away, the next run makes "
            "every call again",
        ) from error


def gate_settings(config: PipelineConfig, share: int = 1) -> Callable[[str], GateSettings]:
    """Gate settings of each provider; `share` processes divide a provider's limits."""

    def settings(provider: str) -> GateSettings:
        limits = config.limits_for(provider)
        rate = limits.requests_per_minute
        return GateSettings(
            max_concurrency=max(1, limits.max_concurrency // share),
            requests_per_minute=None if rate is None else rate / share,
            breaker_failures=limits.breaker_failures,
            breaker_pause=limits.breaker_pause,
            breaker_trips=limits.breaker_trips,
        )

    return settings


def retry_settings(config: PipelineConfig) -> Callable[[str], RetrySettings]:
    """Retry settings of each provider."""

    def settings(provider: str) -> RetrySettings:
        if provider in IN_PROCESS:
            return RetrySettings(max_attempts=1)  # a function would give the same answer again
        limits = config.limits_for(provider)
        return RetrySettings(limits.max_attempts, base_seconds=limits.retry_seconds)

    return settings


class LocalExecutor:
    """Runs a stage's chunks on this process's event loop.

    Parameters
    ----------
    config : PipelineConfig
    work_dir : Path
    store : CallStore
    report : callable
        Receives the progress of the stage, a few times per second.
    notice : callable, optional
        Receives a sentence to show to the user.
    """

    def __init__(
        self,
        config: PipelineConfig,
        work_dir: Path,
        store: CallStore,
        report: Callable[[str, Moment], None],
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._work_dir, self._store, self._report = work_dir, store, report
        self._notice = notice
        calls, cost = store.spent()
        budget = Budget(config.budget.max_calls, config.budget.max_cost, calls=calls, cost=cost)
        self.engine = CallEngine(
            store, limits=gate_settings(config), retry=retry_settings(config), budget=budget
        )
        self._loop = asyncio.Runner()
        self._working: asyncio.Task[Any] | None = None
        self._found_calls = 0  # calls of the chunks that an earlier run finished

    def run_stage(self, stage: CallStage, rows: RowStream) -> tuple[Chunk, ...]:
        """Take every chunk of `rows` through `stage`.

        A finished chunk is kept, unless this stage put error rows into it: then only its failed
        calls are tried again.
        """
        try:
            return self._loop.run(self._stage(stage, rows))
        except (StoppedError, asyncio.CancelledError) as error:
            raise KeyboardInterrupt from error

    def stop(self) -> None:
        """Stop like Ctrl-C; may be called from another thread."""
        self._loop.get_loop().call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        """At the first interrupt start no more calls; at the second stop at once."""
        if self.engine.halted is None:
            gates = self.engine.gates()
            self._notice(
                f"stopping: the {sum(gate.in_flight for gate in gates)} calls under way are "
                "finished and kept; press Ctrl-C again to leave at once"
            )
            self.engine.halt(StoppedError("the run was stopped"))
        elif self._working is not None:
            self._working.cancel()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Handle Ctrl-C while calls are in flight, which asyncio would cancel."""
        loop = asyncio.get_running_loop()
        ours = threading.current_thread() is threading.main_thread() and signal.getsignal(
            signal.SIGINT
        ) not in (None, signal.SIG_IGN)
        if ours:
            try:
                loop.add_signal_handler(signal.SIGINT, self._interrupt)
            except NotImplementedError:  # not available on Windows, where Ctrl-C stops at once
                ours = False
        self._working = asyncio.current_task()
        try:
            yield
        finally:
            self._working = None
            if ours:
                loop.remove_signal_handler(signal.SIGINT)

    def close(self) -> None:
        """Close the event loop."""
        self._loop.close()

    async def _stage(self, stage: CallStage, rows: RowStream) -> tuple[Chunk, ...]:
        self.engine.tally, self._found_calls = Tally(), 0
        for recipe in stage.recipes:
            self._store.register(recipe.keys)
        places, fingerprint = asyncio.Semaphore(OPEN_CHUNKS), stage.fingerprint
        made: dict[int, Chunk] = {}
        ticker = asyncio.create_task(self._tick(stage, rows, made))
        open_tasks: set[asyncio.Task[None]] = set()
        with self._listening():
            try:
                for index, source in enumerate(rows.chunks):
                    name = chunk_name(fingerprint, source)
                    found = find_chunk(self._work_dir, self._store, stage.name, name)
                    if found is not None and found.settled(source):
                        made[index] = found
                        self._found_calls += found.calls
                        continue
                    await places.acquire()
                    _raise_first(open_tasks)
                    task = asyncio.create_task(
                        self._chunk(stage, rows, source, name, index, made, places)
                    )
                    open_tasks.add(task)
                if open_tasks:
                    await asyncio.wait(open_tasks, return_when=asyncio.FIRST_EXCEPTION)
                _raise_first(open_tasks)
            except Exception as error:
                # Calls under way have been paid for: they end (each within its time limit), and
                # are stored, before the run does.
                self.engine.halt(error)
                if open_tasks:
                    await asyncio.wait(open_tasks)
                raise
            finally:
                await _stop([ticker, *open_tasks])
                await self._store.drain()
                await stage.close()
        self._report(stage.name, self._moment(stage, rows, made))
        return tuple(made[index] for index in range(len(rows.chunks)))

    async def _chunk(
        self,
        stage: CallStage,
        rows: RowStream,
        source: Chunk,
        name: str,
        index: int,
        made: dict[int, Chunk],
        places: asyncio.Semaphore,
    ) -> None:
        try:
            done, calls = await run_rows(stage, rows.load(source), self.engine)
            made[index] = write_chunk(
                self._work_dir, self._store, stage.name, name, done, schema_after(stage.name), calls
            )
        finally:
            places.release()

    async def _tick(self, stage: CallStage, rows: RowStream, made: dict[int, Chunk]) -> None:
        while True:
            self._report(stage.name, self._moment(stage, rows, made))
            await asyncio.sleep(TICK)

    def _moment(self, stage: CallStage, rows: RowStream, made: dict[int, Chunk]) -> Moment:
        tally = self.engine.tally
        providers = {recipe.provider for recipe in stage.recipes}
        return Moment(
            rows=self._rows_done(stage, rows, made),
            total=len(rows),
            finished=tally.finished,
            reused=tally.reused,
            failed=tally.failed,
            retries=tally.retries,
            # Policies of one provider share its gate: each gate counts once.
            concurrency=sum(self.engine.gate(p).in_flight for p in providers),
            cost=self.engine.budget.cost,
            waiting="; ".join(filter(None, (self.engine.gate(p).waiting() for p in providers))),
        )

    def _rows_done(self, stage: CallStage, rows: RowStream, made: dict[int, Chunk]) -> int:
        """Rows of finished chunks, and of open chunks the share whose calls are answered."""
        done = sum(chunk.rows for chunk in made.values())
        calls = sum(chunk.calls for chunk in made.values())
        tally = self.engine.tally
        answered = tally.finished + tally.reused + tally.failed - (calls - self._found_calls)
        per_row = stage.expected_calls(len(rows)) / max(1, len(rows))
        under_way = int(answered / per_row) if per_row else 0
        return min(len(rows), done + max(0, under_way))


def _raise_first(tasks: set[asyncio.Task[None]]) -> None:
    for task in [t for t in tasks if t.done()]:
        tasks.discard(task)
        task.result()


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
