"""The local executor: one process, one event loop, a few chunks open at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from cje.pipeline.budget import Budget
from cje.pipeline.chunks import Chunk, Row, RowStream, find_chunk, write_chunk
from cje.pipeline.config import PipelineConfig
from cje.pipeline.engine import CallEngine, RetrySettings, Tally
from cje.pipeline.gate import GateSettings
from cje.pipeline.progress import Moment
from cje.pipeline.stages.base import IN_PROCESS, CallStage, chunk_name, schema_after
from cje.pipeline.store import CallStore

__all__ = ["LocalExecutor", "gate_settings", "retry_settings", "run_rows"]

OPEN_CHUNKS = 3  # the next chunks' calls fill the places that the last calls of one leave free
TICK = 0.25


async def run_rows(
    stage: CallStage, rows: Sequence[Row], engine: CallEngine
) -> tuple[list[Row], int]:
    """The rows of one chunk, taken through a stage with all their calls in flight together.

    Returns the rows and the number of distinct calls behind them.
    """
    per_row = [stage.requests(row) for row in rows]
    requests = [request for made in per_row for request in made]
    outcomes = iter(await engine.run(requests))
    finished = [
        stage.finish(row, [next(outcomes) for _ in made])
        for row, made in zip(rows, per_row, strict=True)
    ]
    return finished, len({request.key for request in requests})


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
            return RetrySettings(max_attempts=1)  # a function gives the same answer again
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
        Told how far the stage is, a few times a second.
    """

    def __init__(
        self,
        config: PipelineConfig,
        work_dir: Path,
        store: CallStore,
        report: Callable[[str, Moment], None],
    ) -> None:
        self._work_dir, self._store, self._report = work_dir, store, report
        calls, cost = store.spent()
        budget = Budget(config.budget.max_calls, config.budget.max_cost, calls=calls, cost=cost)
        self.engine = CallEngine(
            store, limits=gate_settings(config), retry=retry_settings(config), budget=budget
        )
        self._loop = asyncio.Runner()
        self._found_calls = 0  # calls of the chunks that an earlier run finished

    def run_stage(self, stage: CallStage, rows: RowStream) -> tuple[Chunk, ...]:
        """Take every chunk of `rows` through `stage`.

        A finished chunk is left as it is, unless this stage put error rows into it: then its failed
        calls, and only those, are tried again.
        """
        return self._loop.run(self._stage(stage, rows))

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
        return Moment(
            rows=self._rows_done(stage, rows, made),
            total=len(rows),
            finished=tally.finished,
            reused=tally.reused,
            failed=tally.failed,
            retries=tally.retries,
            concurrency=sum(self.engine.gate(r.provider).in_flight for r in stage.recipes),
            cost=self.engine.budget.cost,
        )

    def _rows_done(self, stage: CallStage, rows: RowStream, made: dict[int, Chunk]) -> int:
        """Rows in finished chunks, and of the open ones the share whose calls are answered."""
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
