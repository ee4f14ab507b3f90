"""The Ray executor: the same stages and store keys, spread over a cluster by Ray Data.

One actor on the driver's machine owns the SQLite file. Workers ask it for finished answers, send it
new ones, and wait for the commit as a local run does. A worker that dies loses only its calls in
flight: Ray starts another one, which finds the finished answers in the store. The driver writes the
chunks, so the bytes on disk are those of a local run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cje.errors import CJEError, require_extra
from cje.pipeline.budget import Budget
from cje.pipeline.chunks import Chunk, Row, RowStream, find_chunk, load_chunk, write_chunk
from cje.pipeline.config import PipelineConfig
from cje.pipeline.engine import CallEngine
from cje.pipeline.grouping import GroupCommit
from cje.pipeline.hashing import CallKeys
from cje.pipeline.local import LocalExecutor, gate_settings, retry_settings, run_rows
from cje.pipeline.progress import Moment
from cje.pipeline.stages.base import CallStage, chunk_name, schema_after
from cje.pipeline.stages.calls import make_call_stage
from cje.pipeline.store import CallRecord, CallStore

__all__ = ["RayExecutor"]


class StoreKeeper:
    """The actor that owns the store during a Ray run; its methods are called remotely."""

    def __init__(self, work_dir: str, config: dict[str, Any]) -> None:
        settings = PipelineConfig.model_validate(config)
        self._work_dir = Path(work_dir)
        self._store = CallStore(self._work_dir / "store.sqlite", durability=settings.durability)
        calls, cost = self._store.spent()
        caps = settings.budget
        self._budget = Budget(caps.max_calls, caps.max_cost, calls=calls, cost=cost)

    async def register(self, stage: str, identity: str) -> None:
        self._store.register(CallKeys(stage, json.loads(identity)))

    async def rows(self, stage: str, name: str, sha256: str) -> list[Row]:
        return load_chunk(self._work_dir, stage, name, sha256=sha256)

    async def fetch(self, keys: list[bytes]) -> dict[bytes, dict[str, Any]]:
        return self._store.get_many(keys)

    async def put_many(self, records: list[CallRecord]) -> None:
        self._store.put_many(records)

    async def reserve(self, bound: float) -> None:
        await self._budget.reserve(bound)

    async def settle(self, bound: float, cost: float, requests: int) -> None:
        self._budget.settle(bound, cost, requests)


class RemoteStore:
    """The worker's interface to the store."""

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper
        self._groups: GroupCommit[CallRecord] = GroupCommit(self.commit)

    def register(self, keys: CallKeys) -> None:
        import ray

        ray.get(self._keeper.register.remote(keys.stage, keys.identity))

    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        found: dict[bytes, dict[str, Any]] = await self._keeper.fetch.remote(list(keys))
        return found

    async def put(self, record: CallRecord) -> None:
        await self._groups.put(record)

    async def commit(self, records: list[CallRecord]) -> None:
        await self._keeper.put_many.remote(records)


class RemoteBudget(Budget):
    """A budget shared by all workers; the keeper counts."""

    def __init__(self, keeper: Any) -> None:
        super().__init__()
        self._keeper = keeper

    async def reserve(self, bound: float) -> None:
        import ray

        try:
            await self._keeper.reserve.remote(bound)
        except ray.exceptions.RayTaskError as error:
            raise _cause(error) from error

    def settle(self, bound: float, cost: float, requests: int = 1) -> None:
        self.cost += cost
        self._keeper.settle.remote(bound, cost, requests)


class ChunkWorker:
    """Takes one chunk after another through a stage, on a machine of the cluster."""

    def __init__(self, config: PipelineConfig, stage: str, keeper: Any) -> None:
        # Not validated again: a part of a run (`for_policy`) is not a valid file.
        settings = config
        capped = settings.budget.max_calls is not None or settings.budget.max_cost is not None
        store = RemoteStore(keeper)
        share = settings.ray.workers
        self._keeper = keeper
        self._stage = make_call_stage(stage, settings)
        self._engine = CallEngine(
            store,
            limits=gate_settings(settings, share),
            retry=retry_settings(settings),
            budget=RemoteBudget(keeper) if capped else None,
        )
        for recipe in self._stage.recipes:
            store.register(recipe.keys)
        self._loop = asyncio.new_event_loop()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        import ray

        made = []
        for stage, name, sha256 in zip(batch["stage"], batch["name"], batch["sha256"], strict=True):
            rows = ray.get(self._keeper.rows.remote(str(stage), str(name), str(sha256)))
            done = self._loop.run_until_complete(run_rows(self._stage, rows, self._engine))
            # JSON keeps floats exact and types plain.
            made.append(json.dumps(done, allow_nan=False))  # [rows, calls]
        return {"index": list(batch["index"]), "rows": made}


class RayExecutor:
    """Runs the chunks of a stage on a Ray cluster: an existing one, or one on this machine."""

    def __init__(
        self,
        config: PipelineConfig,
        work_dir: Path,
        store: CallStore,
        report: Callable[[str, Moment], None],
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._ray = require_extra("ray", "ray", "executor: ray")
        require_extra("ray.data", "ray", "executor: ray")
        self._config, self._work_dir = config, work_dir
        self._store, self._report = store, report
        self._local = LocalExecutor(config, work_dir, store, report, notice)
        self._started = not self._ray.is_initialized()
        if self._started:
            self._start()
        here = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            self._ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = self._ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy=here)(StoreKeeper)
        self._keeper = actor.remote(str(work_dir), _plain(config))

    def _start(self) -> None:
        address = self._config.ray.address
        local = (
            {} if address else {"num_cpus": self._config.ray.workers, "include_dashboard": False}
        )
        self._ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False, **local)

    def run_stage(self, stage: CallStage, rows: RowStream) -> tuple[Chunk, ...]:
        """Take every chunk of `rows` through `stage`, as `LocalExecutor.run_stage` does."""
        if not stage.recipes:
            return self._local.run_stage(stage, rows)  # no calls: needs no worker
        made: dict[int, Chunk] = {}
        names: dict[int, str] = {}
        fingerprint = stage.fingerprint
        for index, source in enumerate(rows.chunks):
            names[index] = chunk_name(fingerprint, source)
            found = find_chunk(self._work_dir, self._store, stage.name, names[index])
            if found is not None and found.settled(source):
                made[index] = found
        todo = [
            {"index": i, "stage": c.stage, "name": c.name, "sha256": c.sha256}
            for i, c in enumerate(rows.chunks)
            if i not in made
        ]
        if todo:
            for index, (done, calls) in self._results(stage, todo):
                made[index] = write_chunk(
                    self._work_dir, self._store, stage.name, names[index], done,
                    schema_after(stage.name), calls,
                )  # fmt: skip
                self._report(stage.name, self._moment(rows, made))
        return tuple(made[index] for index in range(len(rows.chunks)))

    def _results(self, stage: CallStage, todo: list[dict[str, Any]]) -> Any:
        """(index, rows) of each chunk, as workers finish it."""
        data = self._ray.data
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        plan = data.from_items(todo, override_num_blocks=len(todo)).map_batches(
            ChunkWorker,
            fn_constructor_args=(stage.config, stage.name, self._keeper),
            compute=data.ActorPoolStrategy(size=min(self._config.ray.workers, len(todo))),
            batch_size=1,
            num_gpus=self._gpus(stage),
        )
        try:
            for item in plan.iter_rows():
                yield int(item["index"]), json.loads(item["rows"])
        except self._ray.exceptions.RayError as error:
            raise _cause(error) from error

    def _gpus(self, stage: CallStage) -> float:
        """GPUs of one worker, for models that run in its process."""
        if all(recipe.passes is None for recipe in stage.recipes):
            return 0.0
        if self._config.ray.gpus_per_worker is not None:
            return self._config.ray.gpus_per_worker
        return 1.0 if self._ray.cluster_resources().get("GPU", 0.0) >= 1.0 else 0.0

    def _moment(self, rows: RowStream, made: dict[int, Chunk]) -> Moment:
        done = sum(chunk.rows for chunk in made.values())
        failed = sum(chunk.errors for chunk in made.values())
        return Moment(done, len(rows), 0, 0, failed, 0, 0, self._store.spent()[1])

    def stop(self) -> None:
        """Stop the part of the run that works in this process."""
        self._local.stop()

    def close(self) -> None:
        """Stop the keeper, and Ray if this run started it."""
        self._local.close()
        self._ray.kill(self._keeper)
        if self._started:
            self._ray.shutdown()


def _plain(config: PipelineConfig) -> dict[str, Any]:
    """A configuration as JSON types, in which it is sent to other machines."""
    return dict(json.loads(config.model_dump_json()))


def _cause(error: BaseException) -> BaseException:
    """The error of this package inside Ray's exception, otherwise that exception."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, CJEError) and type(seen).__module__.startswith("cje."):
            return seen
        seen = getattr(seen, "cause", None) or seen.__cause__
    return CJEError(f"the Ray run failed: {error}", hint="run the same command again to resume")
