"""The calls that find out how a server scores, counted in the run's budget and store."""

from __future__ import annotations

from typing import Any

from cje.models import ModelCallError
from cje.models.metering import Meter, metered
from cje.pipeline.budget import Budget, BudgetError, Price
from cje.pipeline.config import PipelineConfig
from cje.pipeline.hashing import CallKeys
from cje.pipeline.records import CallRecord
from cje.policies import PolicyConfig, make_runner
from cje.policies.config import render_prompt
from cje.policies.probe import MOST_REQUESTS, MOST_WRITTEN, PROBE_TEXTS, Capability

__all__ = ["probe_scoring"]


async def probe_scoring(policy: PolicyConfig, config: PipelineConfig, store: Any) -> Capability:
    """Find out how the server of `policy` scores; `store` records the calls.

    The probe starts only if the budget covers the most it can cost, and is booked however it ends.
    Answers without a report of their usage are booked at the most they can cost.

    Raises
    ------
    BudgetError
        The rest of the budget may not cover the probe.
    ModelCallError
        The server does not answer.
    """
    runner: Any = make_runner(policy)
    price = config.price_of(policy.model)
    paid = Price(price.prompt_per_million, price.completion_per_million)
    longest = max(len((render_prompt(policy, text) + text).encode()) for text in PROBE_TEXTS)
    bound = paid.of(longest, MOST_WRITTEN)
    calls, spent = store.spent()
    budget = Budget(config.budget.max_calls, config.budget.max_cost, calls=calls, cost=spent)
    reason, message = None, ""
    answer: dict[str, Any] = {}
    try:
        if runner.probe_asks:
            try:
                await budget.reserve(MOST_REQUESTS * bound)
            except BudgetError as error:
                raise BudgetError(
                    f"to find out how {policy.name} is scored: {error.what}", where=error.where,
                    hint=f"{error.hint}; or set `scoring` of the policy, which needs fewer calls",
                ) from error  # fmt: skip
        with metered() as meter:
            try:
                found: Capability = await runner.aprobe()
                answer = found.to_json()
            except ModelCallError as error:
                reason, message = error.reason, str(error)
                raise
            except BaseException:
                reason, message = "interrupted", "the run was stopped while the server was probed"
                raise
            finally:
                if meter.requests:
                    keys = CallKeys("check", {"scoring": runner.identity(), "model": policy.model})
                    store.register(keys)
                    cost = _cost(meter, paid, bound)
                    record = CallRecord(
                        keys.key("probe"), keys.digest, answer, meter.requests,
                        meter.usage.prompt_tokens, meter.usage.completion_tokens, cost, reason,
                        message, meter.model,
                    )  # fmt: skip
                    await store.commit([record])
    finally:
        await runner.aclose()
    return found


def _cost(meter: Meter, price: Price, bound: float) -> float:
    usage = meter.usage
    return price.of(usage.prompt_tokens, usage.completion_tokens) + meter.unreported * bound
