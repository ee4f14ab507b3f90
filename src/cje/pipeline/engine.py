"""The call engine: many concurrent model calls, each paid for once.

For every request it looks in the store first, shares the work of equal requests in flight, waits
for a place at the provider, keeps to the budget, retries what may succeed later, and commits the
answer before returning it. Results do not depend on order, retries or concurrency: a call's seed
comes from its key, and jitter changes only the time of an attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cje.errors import CJEError
from cje.pipeline.attempts import Attempts, planned_result, safe_call, storable
from cje.pipeline.budget import Budget
from cje.pipeline.failures import FailureWatch
from cje.pipeline.gate import GateSettings, ProviderGate
from cje.pipeline.grouping import GROUP_ITEMS, commit_each
from cje.pipeline.hashing import CallKeys, seed_of
from cje.pipeline.records import CallRecord
from cje.pipeline.request import Outcome, Recipe, Request

__all__ = ["CallEngine", "Outcome", "Recipe", "Request", "RetrySettings", "Tally"]


@dataclass(frozen=True)
class RetrySettings:
    """Number of attempts, and delays between them."""

    max_attempts: int = 6
    max_refusals: int = 50
    base_seconds: float = 0.5
    max_seconds: float = 30.0


class Store(Protocol):
    """The part of the store that the engine needs (a local file, or a remote actor)."""

    def register(self, keys: CallKeys) -> None: ...
    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]: ...
    async def put(self, record: CallRecord) -> None: ...
    async def commit(self, records: list[CallRecord]) -> None: ...


@dataclass
class Tally:
    """Counts of a stage so far, for progress lines and the event log."""

    finished: int = 0
    reused: int = 0
    failed: int = 0
    retries: int = 0
    refusals: int = 0


class CallEngine:
    """Runs requests against their providers.

    Parameters
    ----------
    store : Store
        Where answers are committed.
    limits : callable
        Gate settings of a provider by its name.
    retry : callable
        Attempts and delays of a provider by its name.
    budget : Budget, optional
        Caps on calls and money.
    """

    def __init__(
        self,
        store: Store,
        *,
        limits: Callable[[str], GateSettings] = lambda _: GateSettings(),
        retry: Callable[[str], RetrySettings] = lambda _: RetrySettings(),
        budget: Budget | None = None,
    ) -> None:
        self.store = store
        self._retry = retry
        self._retries: dict[str, RetrySettings] = {}
        self.budget = budget or Budget()
        self.tally = Tally()
        self._limits = limits
        self._gates: dict[str, ProviderGate] = {}
        self._in_flight: dict[bytes, asyncio.Task[Outcome]] = {}
        self._jitter = random.Random()
        self.watch = FailureWatch()
        self.halted: Exception | None = None
        self._halting = asyncio.Event()

    def gate(self, provider: str) -> ProviderGate:
        """The gate of a provider, created on first use."""
        if provider not in self._gates:
            self._gates[provider] = ProviderGate(provider, self._limits(provider))
            if self.halted is not None:
                self._gates[provider].close(self.halted)
        return self._gates[provider]

    def gates(self) -> list[ProviderGate]:
        """The gates of all providers called so far."""
        return list(self._gates.values())

    def retries(self, provider: str) -> RetrySettings:
        """The retry settings of a provider, looked up once."""
        if provider not in self._retries:
            self._retries[provider] = self._retry(provider)
        return self._retries[provider]

    async def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Outcomes of `requests`, in order; answers in the store are used without a call."""
        known = await self.store.fetch([request.key for request in requests])
        todo = {r.key: r for r in requests if r.key not in known}
        self.tally.reused += len(requests) - len(todo)
        planned = [r for r in todo.values() if r.recipe.passes is not None]
        others = [r for r in todo.values() if r.recipe.passes is None]
        made = await self._run_inline([r for r in others if r.recipe.inline])
        made |= await self._run_planned(planned)
        made |= await self._run_tasks([r for r in others if not r.recipe.inline])
        return [Outcome(known[r.key]) if r.key in known else made[r.key] for r in requests]

    async def _run_inline(self, requests: Sequence[Request]) -> dict[bytes, Outcome]:
        """Calls to functions of this process: one after another, committed in groups."""
        made: dict[bytes, Outcome] = {}
        for start in range(0, len(requests), GROUP_ITEMS):
            records: list[CallRecord] = []
            try:
                for request in requests[start : start + GROUP_ITEMS]:
                    made[request.key] = await self._answer(request, records)
                    self.watch.note(request.recipe, made[request.key])
            finally:
                if records:
                    failed = await commit_each(self.store.commit, records)
                    self._count([r for i, r in enumerate(records) if i not in failed])
                    for error in failed.values():
                        raise error
            await asyncio.sleep(0)  # let the progress display and other chunks run
        return made

    async def _run_planned(self, requests: Sequence[Request]) -> dict[bytes, Outcome]:
        """Calls of models in this process: planned together, committed pass by pass."""
        if not requests:
            return {}
        made: dict[bytes, Outcome] = {}
        bounds = {request.key: request.recipe.cost_bound(request) for request in requests}
        for request in requests:
            await self.budget.reserve(bounds[request.key])
        passes = [r.recipe.passes for r in requests if r.recipe.passes is not None]
        calls = [p.make(r, seed_of(r.key)) for p, r in zip(passes, requests, strict=True)]
        answers = passes[0].answer(calls)
        try:
            while (part := await asyncio.to_thread(next, answers, None)) is not None:
                records = []
                for index, answer in part:
                    request = requests[index]
                    outcome, record = planned_result(self, request, answer, bounds[request.key])
                    made[request.key] = outcome
                    records.append(record)
                    self.watch.note(request.recipe, outcome)
                failed = await commit_each(self.store.commit, records)
                self._count([r for i, r in enumerate(records) if i not in failed])
                for error in failed.values():
                    raise error
                if self.halted is not None and len(made) < len(requests):
                    raise self.halted
        except CJEError as error:
            self.halt(error)
            raise
        finally:
            for key in bounds.keys() - made.keys():
                self.budget.release(bounds[key])
        return made

    async def _run_tasks(self, requests: Sequence[Request]) -> dict[bytes, Outcome]:
        """Calls to servers: all in flight together, within the limits of the gates."""
        tasks = {request.key: self._task(request) for request in requests}
        try:
            if tasks:
                await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise
        await self._raise_first(list(tasks.values()))
        return {key: task.result() for key, task in tasks.items()}

    async def _raise_first(self, tasks: list[asyncio.Task[Outcome]]) -> None:
        """Raise the first error, after the calls in flight (already paid for) are committed."""
        errors = [t.exception() for t in tasks if t.done() and not t.cancelled()]
        error = next((e for e in errors if isinstance(e, Exception)), None)
        if error is None:
            return
        self.halt(error)
        await asyncio.gather(*tasks, return_exceptions=True)
        raise error

    def halt(self, error: Exception) -> None:
        """Start no more calls: those that wait for a place or a retry end with `error`.

        Calls in flight continue: they end within their own time limit, and are stored.
        """
        if self.halted is None:
            self.halted = error
            self._halting.set()
            self.budget.close(error)
            for gate in self._gates.values():
                gate.close(error)

    async def rest(self, seconds: float) -> None:
        """Wait before a retry, unless the run is halted."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halting.wait(), seconds)
        if self.halted is not None:
            raise self.halted

    def _task(self, request: Request) -> asyncio.Task[Outcome]:
        task = self._in_flight.get(request.key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._finish(request))
            self._in_flight[request.key] = task
            task.add_done_callback(lambda _: self._in_flight.pop(request.key, None))
        return task

    async def _finish(self, request: Request) -> Outcome:
        """Make one call until it is answered, or given up, and commit its record."""
        records: list[CallRecord] = []
        try:
            outcome = await self._answer(request, records)
        finally:
            for record in records:
                try:
                    await self.store.put(record)
                except Exception as error:
                    self.halt(error)  # stop: the store accepts no more answers
                    raise
                self._count([record])
        self.watch.note(request.recipe, outcome)
        return outcome

    async def _answer(self, request: Request, records: list[CallRecord]) -> Outcome:
        """Make a call and append its record, also if the run stops between two attempts."""
        used = Attempts()
        try:
            outcome, record = storable(request, await safe_call(self, request, used), used)
        except CJEError as error:
            self.halt(error)
            if used.total:
                reason = getattr(error, "reason", "stopped")
                records.append(storable(request, Outcome(None, reason, str(error)), used)[1])
            raise
        records.append(record)
        return outcome

    def _count(self, records: Sequence[CallRecord]) -> None:
        """Count committed calls."""
        failed = sum(record.reason is not None for record in records)
        self.tally.failed += failed
        self.tally.finished += len(records) - failed

    def backoff(self, retry: RetrySettings, attempt: int) -> float:
        """Seconds before the next attempt: exponential, with jitter of half its length."""
        delay = min(retry.max_seconds, retry.base_seconds * 2.0 ** max(0, attempt - 1))
        return delay * self._jitter.uniform(0.5, 1.5)
