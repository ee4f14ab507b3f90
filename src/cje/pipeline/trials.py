"""One small call to every model that a run will ask to write, judge or label.

The calls go through the run's own engine and store: they are counted, and a resumed run does not
make them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cje.judges import JudgeConfig, make_judge
from cje.pipeline.budget import Budget, Price
from cje.pipeline.config import PipelineConfig
from cje.pipeline.engine import CallEngine, RetrySettings
from cje.pipeline.hashing import CallKeys
from cje.pipeline.local import gate_settings
from cje.pipeline.records import CallRecord
from cje.pipeline.request import Outcome, Recipe, Request
from cje.pipeline.stages.base import IN_PROCESS
from cje.policies import PolicyConfig, make_runner
from cje.policies.probe import PROBE_CONTEXT

__all__ = ["NoStore", "Trial", "ask_all", "trials"]

QUESTION, ANSWER = PROBE_CONTEXT, "Yes, I can help you with that. What do you need?"
OTHER = "No."
# A server that does not answer within seconds is not ready for a run.
_RETRIES = RetrySettings(max_attempts=3, max_refusals=5, base_seconds=0.2, max_seconds=1.0)


@dataclass(frozen=True)
class Trial:
    """A call that tests whether a model can do its part.

    Attributes
    ----------
    what : str
        The part, for the line of the report.
    request : Request
    close : callable
        Closes the connections.
    """

    what: str
    request: Request
    close: Callable[[], Awaitable[None]]


def trials(config: PipelineConfig) -> list[Trial]:
    """The calls to try: judge, oracle, and every policy that will write."""
    asked = [("the judge", at, judge) for at, judge in config.judge_places()]
    oracle = config.oracle_config
    if oracle is not None and oracle.judge is not None and oracle.source == "model":
        asked.append(("the oracle", "oracle_config.judge", oracle.judge))
    made = [_judging(what, at, config, judge) for what, at, judge in asked if not judge.is_local]
    made += [_writing(at, config, policy) for at, policy in config.writers() if not policy.is_local]
    return [trial for trial in made if trial.request.recipe.provider not in IN_PROCESS]


def _judging(what: str, place: str, config: PipelineConfig, part: JudgeConfig) -> Trial:
    judge = make_judge(part)

    async def ask(request: Request, seed: int) -> Any:
        if config.is_pairwise:
            return await judge.acompare_once(QUESTION, ANSWER, OTHER, seed=seed)
        return await judge.ajudge(QUESTION, ANSWER, seed=seed)

    shown = [QUESTION, ANSWER, OTHER] if config.is_pairwise else [QUESTION, ANSWER]
    identity = {"judge": judge.identity(), "asked": shown}
    request = _request(config, identity, judge.provider, ask, part.model, part.max_tokens, place)
    return Trial(f"{what} ({part.model})", request, judge.aclose)


def _writing(where: str, config: PipelineConfig, policy: PolicyConfig) -> Trial:
    runner = make_runner(policy)

    async def ask(request: Request, seed: int) -> Any:
        return await runner.agenerate(QUESTION, seed=seed)

    identity = {"writer": runner.identity(), "asked": QUESTION}
    request = _request(
        config, identity, policy.provider, ask, policy.model, policy.max_tokens, where
    )
    return Trial(f"writing under {policy.name}", request, runner.aclose)


def _request(
    config: PipelineConfig,
    identity: Mapping[str, Any],
    provider: str,
    ask: Callable[[Request, int], Awaitable[Any]],
    model: str,
    max_tokens: int,
    place: str,
) -> Request:
    price = config.price_of(model)
    keys = CallKeys("check", identity)
    recipe = Recipe(
        keys, provider, ask, Price(price.prompt_per_million, price.completion_per_million),
        max_tokens, place=place,
    )  # fmt: skip
    return Request(recipe, keys.key("first"), (QUESTION, ANSWER))


class NoStore:
    """A store for `cje validate` that keeps nothing, because that command writes nothing."""

    def register(self, keys: CallKeys) -> None: ...

    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        return {}

    async def put(self, record: CallRecord) -> None: ...

    async def commit(self, records: list[CallRecord]) -> None: ...

    def spent(self) -> tuple[int, float]:
        return 0, 0.0

    async def drain(self) -> None: ...


async def ask_all(
    made: Sequence[Trial], config: PipelineConfig, store: Any
) -> list[Outcome | Exception]:
    """Make all trials concurrently, and return how each ended.

    An unusable answer may be chance, so the question is then asked once more.
    """
    calls, cost = store.spent()
    budget = Budget(config.budget.max_calls, config.budget.max_cost, calls=calls, cost=cost)
    limits = gate_settings(config)

    async def one(trial: Trial) -> Outcome:
        # One engine per trial: a failure of one model must not end the trial of another.
        engine = CallEngine(store, limits=limits, retry=lambda _: _RETRIES, budget=budget)
        store.register(trial.request.recipe.keys)
        try:
            outcome = (await engine.run([trial.request]))[0]
            if outcome.reason is not None:
                again = trial.request.recipe.keys.key("again")
                outcome = (await engine.run([replace(trial.request, key=again)]))[0]
            return outcome
        finally:
            await trial.close()

    try:
        ended = await asyncio.gather(*(one(trial) for trial in made), return_exceptions=True)
    finally:
        await store.drain()
    return [_no_interruption(end) for end in ended]


def _no_interruption(end: Outcome | BaseException) -> Outcome | Exception:
    if isinstance(end, Outcome | Exception):
        return end
    raise end
