"""The call engine: retries, limits, budgets, and results that do not depend on any of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cje.models import BadOutputError, FatalError, RetryableError, Usage
from cje.pipeline.attempts import safe_call
from cje.pipeline.budget import Budget, BudgetError, Price
from cje.pipeline.engine import CallEngine, RetrySettings
from cje.pipeline.gate import GateSettings, ProviderDownError, ProviderGate
from cje.pipeline.hashing import CallKeys
from cje.pipeline.request import Outcome, Recipe, Request
from cje.pipeline.store import CallStore

FAST = RetrySettings(max_attempts=6, base_seconds=0.001)


@dataclass
class Number:
    value: float
    usage: Usage = field(default_factory=lambda: Usage(10, 5))

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value}


class Model:
    """Answers with a number made from the seed; `trouble(text, count)` may raise instead."""

    def __init__(self, trouble: Any = None, delay: float = 0.0) -> None:
        self.calls: Counter[str] = Counter()
        self.running = self.most = 0
        self._trouble, self._delay = trouble, delay

    async def __call__(self, request: Request, seed: int) -> Number:
        text = request.texts[0]
        self.calls[text] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self._delay)
            if self._trouble is not None:
                self._trouble(text, self.calls[text])
        finally:
            self.running -= 1
        return Number(seed / 2**31)


def _engine(path: Path, **options: Any) -> CallEngine:
    options.setdefault("retry", lambda _: FAST)
    return CallEngine(CallStore(path / "store.sqlite"), **options)


def _requests(engine: CallEngine, model: Model, texts: list[str], **more: Any) -> list[Request]:
    keys = CallKeys("judge", {"model": "m"})
    engine.store.register(keys)
    recipe = Recipe(keys, "local", model, **more)
    return [Request(recipe, keys.key(text), (text,)) for text in texts]


def _values(outcomes: list[Outcome]) -> list[float]:
    return [outcome.answer["value"] for outcome in outcomes if outcome.answer is not None]


TEXTS = [f"text {i}" for i in range(60)]


def _flaky(text: str, count: int) -> None:
    draw = random.Random(f"{text}/{count}").random()
    if draw < 0.1:
        raise RetryableError("busy", kind="rate_limit", reason="http_429")
    if draw < 0.2:
        raise RetryableError("broken", reason="http_500", status=500)
    if draw < 0.25:
        raise BadOutputError("NaN", reason="not_finite")


def test_results_do_not_depend_on_faults_or_concurrency(tmp_path: Path) -> None:
    results = []
    for name, model, limit in (
        ("calm", Model(), 64),
        ("faulty", Model(_flaky), 64),
        ("single", Model(_flaky), 1),
    ):
        folder = tmp_path / name
        folder.mkdir()
        engine = _engine(folder, limits=lambda _, n=limit: GateSettings(max_concurrency=n))
        results.append(_values(asyncio.run(engine.run(_requests(engine, model, TEXTS)))))
    assert len(results[0]) == len(TEXTS)
    assert results[0] == results[1] == results[2]


def test_finished_calls_are_reused_and_equal_requests_share_one_call(tmp_path: Path) -> None:
    model = Model()
    engine = _engine(tmp_path)

    async def twice() -> tuple[list[Outcome], list[Outcome]]:
        requests = _requests(engine, model, TEXTS + TEXTS)
        both = await asyncio.gather(engine.run(requests), engine.run(requests))
        return both[0], both[1]

    first, second = asyncio.run(twice())
    assert first == second
    assert set(model.calls.values()) == {1}
    again = _engine(tmp_path)
    assert asyncio.run(again.run(_requests(again, model, TEXTS))) == first[: len(TEXTS)]
    assert set(model.calls.values()) == {1}


def test_an_unusable_answer_becomes_an_outcome_with_a_reason(tmp_path: Path) -> None:
    def trouble(text: str, count: int) -> None:
        if text == "text 3":
            raise BadOutputError("positive log-prob", reason="positive_logprob")

    model = Model(trouble)
    engine = _engine(tmp_path)
    outcomes = asyncio.run(engine.run(_requests(engine, model, TEXTS)))
    assert outcomes[3].answer is None
    assert outcomes[3].reason == "positive_logprob"
    assert model.calls["text 3"] == 2  # the same unusable answer again: nothing new to expect
    assert len(_values(outcomes)) == len(TEXTS) - 1
    # It is not finished: a later run tries again.
    model._trouble = None
    later = _engine(tmp_path)
    assert len(_values(asyncio.run(later.run(_requests(later, model, TEXTS))))) == len(TEXTS)
    assert model.calls["text 4"] == 1


def test_a_wrong_key_stops_the_run_at_once_and_a_bad_row_does_not(tmp_path: Path) -> None:
    def denied(text: str, count: int) -> None:
        raise FatalError("no", reason="http_401", status=401)

    engine = _engine(tmp_path, limits=lambda _: GateSettings(max_concurrency=2))
    model = Model(denied)
    with pytest.raises(FatalError):
        asyncio.run(engine.run(_requests(engine, model, TEXTS)))
    assert sum(model.calls.values()) <= 4

    def too_long(text: str, count: int) -> None:
        if text == "text 30":
            raise FatalError("too long", reason="http_400", status=400)

    engine = _engine(tmp_path, limits=lambda _: GateSettings(max_concurrency=2))
    outcomes = asyncio.run(engine.run(_requests(engine, Model(too_long), TEXTS)))
    assert outcomes[30].reason == "http_400"
    assert len(_values(outcomes)) == len(TEXTS) - 1


def test_concurrency_halves_on_refusals_and_recovers(tmp_path: Path) -> None:
    limit_seen: list[float] = []

    def trouble(text: str, count: int) -> None:
        limit_seen.append(engine.gate("local").limit)
        if len(limit_seen) == 5:
            raise RetryableError("busy", kind="rate_limit", reason="http_429", retry_after=0.02)

    engine = _engine(tmp_path, limits=lambda _: GateSettings(max_concurrency=8))
    model = Model(trouble, delay=0.001)
    texts = [str(i) for i in range(400)]
    assert len(_values(asyncio.run(engine.run(_requests(engine, model, texts))))) == 400
    assert model.most <= 8
    assert min(limit_seen) == pytest.approx(4.0, abs=0.5)
    assert limit_seen[-1] == 8.0
    assert sum(model.calls.values()) == 401


def test_calls_refused_together_halve_the_limit_once() -> None:
    async def scene() -> float:
        gate = ProviderGate("p", GateSettings(max_concurrency=16))
        tickets = [await gate.acquire() for _ in range(16)]
        for ticket in tickets:
            gate.refused(ticket, None)
        return gate.limit

    assert asyncio.run(scene()) == 8.0


def test_retry_after_is_obeyed(tmp_path: Path) -> None:
    times: list[float] = []

    def trouble(text: str, count: int) -> None:
        times.append(asyncio.get_running_loop().time())
        if count == 1:
            raise RetryableError("busy", kind="rate_limit", reason="http_429", retry_after=0.2)

    engine = _engine(tmp_path)
    asyncio.run(engine.run(_requests(engine, Model(trouble), ["one"])))
    assert times[1] - times[0] >= 0.2


def test_requests_per_minute_are_spread(tmp_path: Path) -> None:
    times: list[float] = []

    def note(text: str, count: int) -> None:
        times.append(asyncio.get_running_loop().time())

    engine = _engine(tmp_path, limits=lambda _: GateSettings(16, requests_per_minute=3000.0))
    asyncio.run(engine.run(_requests(engine, Model(note), TEXTS[:20])))
    assert times[-1] - times[0] >= 19 * 0.02 * 0.95


def test_breaker_stops_a_dead_provider_with_a_clear_message(tmp_path: Path) -> None:
    def dead(text: str, count: int) -> None:
        raise RetryableError("down", reason="http_503", status=503)

    settings = GateSettings(
        max_concurrency=4, breaker_failures=5, breaker_pause=0.005, breaker_trips=3
    )
    engine = _engine(tmp_path, limits=lambda _: settings)
    model = Model(dead)
    with pytest.raises(ProviderDownError, match=r"'local' failed .* in a row.*3 pauses"):
        asyncio.run(engine.run(_requests(engine, model, TEXTS)))
    assert sum(model.calls.values()) <= 5 + 4 + 3  # threshold, calls under way, one probe a pause


def test_an_outage_that_ends_costs_no_row(tmp_path: Path) -> None:
    count_all = Counter[str]()

    def outage(text: str, count: int) -> None:
        count_all["calls"] += 1
        if 10 <= count_all["calls"] < 30:
            raise RetryableError("down", reason="http_503", status=503)

    settings = GateSettings(
        max_concurrency=8, breaker_failures=8, breaker_pause=0.002, breaker_trips=20
    )
    engine = _engine(
        tmp_path, limits=lambda _: settings, retry=lambda _: RetrySettings(3, base_seconds=0.001)
    )
    assert len(_values(asyncio.run(engine.run(_requests(engine, Model(outage), TEXTS))))) == 60


def test_call_budget_is_never_passed(tmp_path: Path) -> None:
    engine = _engine(tmp_path, budget=Budget(max_calls=25))
    model = Model(_flaky)
    with pytest.raises(BudgetError, match="25 calls"):
        asyncio.run(engine.run(_requests(engine, model, TEXTS)))
    assert sum(model.calls.values()) == 25


def test_money_budget_is_never_passed_and_is_used(tmp_path: Path) -> None:
    price = Price(1000.0, 1000.0)  # a call costs 0.015
    engine = _engine(tmp_path, budget=Budget(max_cost=0.5))
    model = Model(delay=0.001)
    requests = _requests(engine, model, TEXTS, price=price, max_completion_tokens=5)
    bound = requests[0].recipe.cost_bound(requests[0])
    assert bound >= 0.015
    with pytest.raises(BudgetError, match="spent"):
        asyncio.run(engine.run(requests))
    spent = engine.store.spent()[1]
    assert spent <= 0.5
    assert spent > 0.5 - bound - 16 * 0.015
    assert engine.budget.cost <= 0.5


def test_safe_call_returns_an_outcome_for_row_level_trouble(tmp_path: Path) -> None:
    def trouble(text: str, count: int) -> None:
        raise RetryableError("reset", reason="connection")

    engine = _engine(tmp_path, limits=lambda _: GateSettings(breaker_failures=100))
    request = _requests(engine, Model(trouble), ["one"])[0]
    outcome = asyncio.run(safe_call(engine, request))
    assert (outcome.answer, outcome.reason) == (None, "connection")
