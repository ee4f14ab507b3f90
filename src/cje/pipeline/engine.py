"""The call engine: many model calls at once, each paid for once.

For every request it looks in the store first, shares the work of equal requests in flight, waits
for a place at the provider, keeps to the budget, tries again what may succeed later, and commits
the answer before handing it back. Results do not depend on order, retries or concurrency: a call's
seed comes from its key, and jitter moves only the time of an attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cje.models import ModelCallError
from cje.pipeline.budget import FREE, Budget, Price
from cje.pipeline.gate import GateSettings, ProviderGate
from cje.pipeline.grouping import GROUP_ITEMS
from cje.pipeline.hashing import CallKeys, seed_of
from cje.pipeline.store import CallRecord

__all__ = ["CallEngine", "Outcome", "Recipe", "Request", "RetrySettings", "Tally", "safe_call"]


class Answer(Protocol):
    """What a judge or policy returns: JSON in, JSON out."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Recipe:
    """What all calls of one stage to one model share."""

    keys: CallKeys
    provider: str
    call: Callable[[Request, int], Awaitable[Answer]]  # (request, seed) -> answer; one attempt
    price: Price = FREE
    max_completion_tokens: int = 0
    inline: bool = False  # a function of this process: it never waits, so it needs no task

    def cost_bound(self, request: Request) -> float:
        """The most one attempt can cost: no token is shorter than a byte of its text."""
        price = self.price
        if not (price.prompt_per_million or price.completion_per_million):
            return 0.0
        bytes_in = len(self.keys.identity.encode()) + sum(
            len(part.encode()) for part in request.texts
        )
        return price.of(bytes_in, self.max_completion_tokens)


@dataclass(frozen=True, slots=True)
class Request:
    """One call that a stage wants: the recipe, the store key, and the call's own arguments."""

    recipe: Recipe
    key: bytes
    texts: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer as JSON, or the reason why there is none."""

    answer: dict[str, Any] | None
    reason: str | None = None
    message: str = ""


@dataclass(frozen=True)
class RetrySettings:
    """How often and how soon a failed attempt is made again."""

    max_attempts: int = 6
    max_refusals: int = 50
    base_seconds: float = 0.5
    max_seconds: float = 30.0


class Store(Protocol):
    """The part of the store that the engine needs (local file, or an actor far away)."""

    def register(self, keys: CallKeys) -> None: ...
    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]: ...
    async def put(self, record: CallRecord) -> None: ...
    async def commit(self, records: list[CallRecord]) -> None: ...


@dataclass
class Tally:
    """What happened so far in a stage, for progress lines and the event log."""

    finished: int = 0
    reused: int = 0
    failed: int = 0
    retries: int = 0
    refusals: int = 0


@dataclass(slots=True)
class _Attempts:
    counted: int = 0
    total: int = 0
    refusals: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


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
        self.halted: BaseException | None = None
        self._halting = asyncio.Event()

    def gate(self, provider: str) -> ProviderGate:
        """The gate of a provider, made on first use."""
        if provider not in self._gates:
            self._gates[provider] = ProviderGate(provider, self._limits(provider))
        return self._gates[provider]

    def retries(self, provider: str) -> RetrySettings:
        """The retry settings of a provider, looked up once."""
        if provider not in self._retries:
            self._retries[provider] = self._retry(provider)
        return self._retries[provider]

    async def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Outcomes of `requests`, in order; those in the store are already paid for."""
        known = await self.store.fetch([request.key for request in requests])
        todo = {r.key: r for r in requests if r.key not in known}
        self.tally.reused += len(requests) - len(todo)
        made = await self._run_inline([r for r in todo.values() if r.recipe.inline])
        made |= await self._run_tasks([r for r in todo.values() if not r.recipe.inline])
        return [Outcome(known[r.key]) if r.key in known else made[r.key] for r in requests]

    async def _run_inline(self, requests: Sequence[Request]) -> dict[bytes, Outcome]:
        """Calls to functions of this process: one after the other, committed in groups."""
        made: dict[bytes, Outcome] = {}
        for start in range(0, len(requests), GROUP_ITEMS):
            records: list[CallRecord] = []
            try:
                for request in requests[start : start + GROUP_ITEMS]:
                    used = _Attempts()
                    made[request.key] = outcome = await safe_call(self, request, used)
                    records.append(_record(request, outcome, used))
            finally:
                if records:
                    await self.store.commit(records)
                    self._count(records)
            await asyncio.sleep(0)  # let the progress and the other chunks have a turn
        return made

    async def _run_tasks(self, requests: Sequence[Request]) -> dict[bytes, Outcome]:
        """Calls that wait for a server: all in flight together, as far as the gates let them."""
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
        """Raise the first error, after the calls under way (paid for already) are committed."""
        errors = [t.exception() for t in tasks if t.done() and not t.cancelled()]
        error = next((e for e in errors if e is not None), None)
        if error is None:
            return
        self.halt(error)
        await asyncio.gather(*tasks, return_exceptions=True)
        raise error

    def halt(self, error: BaseException) -> None:
        """Start nothing more: calls that wait for a place or a retry end with `error`."""
        if self.halted is None:
            self.halted = error
            self._halting.set()
            for gate in self._gates.values():
                gate.close(error)

    async def rest(self, seconds: float) -> None:
        """Wait before a retry, unless the run is halted meanwhile."""
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
        """One call to its end: answered and committed, or given up and recorded as such."""
        used = _Attempts()
        outcome = await safe_call(self, request, used)
        record = _record(request, outcome, used)
        await self.store.put(record)
        self._count([record])
        return outcome

    def _count(self, records: Sequence[CallRecord]) -> None:
        """Tally what is committed."""
        failed = sum(record.reason is not None for record in records)
        self.tally.failed += failed
        self.tally.finished += len(records) - failed

    def backoff(self, retry: RetrySettings, attempt: int) -> float:
        """Seconds before the next attempt: exponential, with jitter of half its length."""
        delay = min(retry.max_seconds, retry.base_seconds * 2.0 ** max(0, attempt - 1))
        return delay * self._jitter.uniform(0.5, 1.5)


async def safe_call(engine: CallEngine, request: Request, used: _Attempts | None = None) -> Outcome:
    """Make a call until it is answered or given up; row-level trouble never raises.

    A refusal (429) waits and tries again without using up an attempt. A broken call (5xx, time-out,
    reset, unreadable body) and an unusable answer (missing or impossible log-prob, text that is no
    score) are tried again up to ``max_attempts``. What concerns the whole run (unknown model, wrong
    key, provider down, budget, disk) does raise.
    """
    used = _Attempts() if used is None else used
    gate, retry = engine.gate(request.recipe.provider), engine.retries(request.recipe.provider)
    while True:
        error = await _attempt(engine, gate, request, used)
        if isinstance(error, Outcome):
            return error
        if error.kind == "fatal":
            if not _concerns_one_row(error, gate):
                raise error
            return Outcome(None, error.reason, str(error))
        if used.counted >= retry.max_attempts or used.refusals >= retry.max_refusals:
            return Outcome(None, error.reason, str(error))
        engine.tally.retries += 1
        waits = used.refusals if error.kind == "rate_limit" else used.counted
        await engine.rest(max(engine.backoff(retry, waits), error.retry_after or 0.0))


async def _attempt(
    engine: CallEngine, gate: ProviderGate, request: Request, used: _Attempts
) -> Outcome | ModelCallError:
    """One attempt: the answer, or the error that says what to do next."""
    recipe = request.recipe
    ticket = await gate.acquire()
    settled = False
    try:
        bound = recipe.cost_bound(request)
        await engine.budget.reserve(bound)
        cost = 0.0
        try:
            used.total += 1
            answer = await recipe.call(request, seed_of(request.key))
            cost = _book(answer, recipe.price, used)
        except ModelCallError as error:
            cost = _book(error, recipe.price, used)
            if error.kind == "rate_limit":
                used.refusals += 1
                engine.tally.refusals += 1
                gate.refused(ticket, error.retry_after)
            elif error.kind == "transient":
                used.counted += gate.failed(ticket)
            else:
                used.counted += 1
                gate.answered()
            settled = True
            return error
        finally:
            engine.budget.settle(bound, cost)
        settled = True
        gate.succeeded()
        return Outcome(answer.to_json())
    finally:
        if not settled:
            gate.left()


def _record(request: Request, outcome: Outcome, used: _Attempts) -> CallRecord:
    return CallRecord(
        request.key,
        request.recipe.keys.digest,
        outcome.answer or {},
        used.total,
        used.prompt_tokens,
        used.completion_tokens,
        used.cost,
        outcome.reason,
        outcome.message,
    )


def _book(source: object, price: Price, used: _Attempts) -> float:
    """Add the tokens that an answer (or a billed error) reports; returns their price."""
    usage = getattr(source, "usage", None)
    if usage is None:
        return 0.0
    used.prompt_tokens += usage.prompt_tokens
    used.completion_tokens += usage.completion_tokens
    cost = price.of(usage.prompt_tokens, usage.completion_tokens)
    used.cost += cost
    return cost


def _concerns_one_row(error: ModelCallError, gate: ProviderGate) -> bool:
    """Whether a refused request says something about this row only (such as: too long).

    A provider that has answered others, and now calls one request invalid, means that request.
    A wrong key or an unknown model (401, 403, 404) concerns every call and stops the run.
    """
    return gate.successes > 0 and error.status in (400, 413, 422)
