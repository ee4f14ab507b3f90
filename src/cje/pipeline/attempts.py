"""One call with all its attempts: what each attempt used, and the record of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cje.errors import CJEError
from cje.models import BadOutputError, ModelCallError, Usage
from cje.models.metering import Meter, metered
from cje.pipeline.gate import ProviderGate
from cje.pipeline.hashing import seed_of
from cje.pipeline.records import CallRecord
from cje.pipeline.request import Answer, Outcome, Request

if TYPE_CHECKING:
    from cje.pipeline.engine import CallEngine

__all__ = ["Attempts", "planned_result", "safe_call", "storable"]

# Unusable because of what was sent: another attempt would send the same.
_IN_THE_REQUEST = frozenset(
    {
        "ambiguous_token",
        "bad_token_id",
        "boundary_inside_token",
        "boundary_unknown",
        "content_filter",
        "control_text",
        "context_too_long",
        "empty_prompt",
        "empty_response",
        "no_context",
        "not_unicode",
        "too_large",
        "unknown_end",
    }
)


@dataclass(slots=True)
class Attempts:
    """Usage of the attempts of one call so far."""

    counted: int = 0
    total: int = 0
    refusals: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    model: str | None = None
    last_bad: tuple[str, str] | None = None


async def safe_call(engine: CallEngine, request: Request, used: Attempts | None = None) -> Outcome:
    """Make a call until it is answered or given up; errors of one row never raise.

    A refusal (429) waits and tries again without using up an attempt. A broken call (5xx, time-out,
    reset, unreadable body) and an unusable answer (missing or impossible log-prob, text that is not
    a score) are tried again up to ``max_attempts``. A call is given up early if the same unusable
    answer comes twice, and at once if another attempt cannot help (a text that is too long). Any
    other exception makes this one call an error. What concerns the whole run (unknown model,
    wrong key, provider down, budget, disk) does raise.
    """
    used = Attempts() if used is None else used
    gate, retry = engine.gate(request.recipe.provider), engine.retries(request.recipe.provider)
    while True:
        error = await _attempt(engine, gate, request, used)
        if isinstance(error, Outcome):
            return error
        if error.kind == "fatal":
            if not _concerns_one_row(error, gate):
                raise error
            return Outcome(None, error.reason, str(error))
        if error.kind == "bad_answer" and _is_final(error, used):
            return Outcome(None, error.reason, str(error))
        if used.counted >= retry.max_attempts or used.refusals >= retry.max_refusals:
            return Outcome(None, error.reason, str(error))
        engine.tally.retries += 1
        waits = used.refusals if error.kind == "rate_limit" else used.counted
        await engine.rest(max(engine.backoff(retry, waits), error.retry_after or 0.0))


def _is_final(error: ModelCallError, used: Attempts) -> bool:
    """Whether an unusable answer would come again: it already did, or the request is its cause."""
    if error.reason in _IN_THE_REQUEST:
        return True
    bad = (str(error), getattr(error, "raw", ""))
    if used.last_bad == bad:
        return True
    used.last_bad = bad
    return False


async def _attempt(
    engine: CallEngine, gate: ProviderGate, request: Request, used: Attempts
) -> Outcome | ModelCallError:
    """One attempt: the answer, or the error that says what to do next."""
    ticket = await gate.acquire()
    try:
        bound = request.recipe.cost_bound(request)
        await engine.budget.reserve(bound)
    except BaseException:
        gate.left()
        raise
    if engine.halted is not None:
        engine.budget.release(bound)
        gate.left()
        raise engine.halted
    result: Outcome | ModelCallError | None = None
    answer: Answer | None = None
    with metered() as meter:
        try:
            answer = await request.recipe.call(request, seed_of(request.key))
            result = Outcome(answer.to_json())
        except ModelCallError as error:
            result = error
        except CJEError:
            raise
        except Exception as error:  # unforeseen, such as a user's own judge that raises
            result = _unforeseen(error)
        finally:
            cost = _book(meter, answer, request, bound, used)
            requests = max(1, meter.requests)
            used.total += requests
            engine.budget.settle(bound, cost, requests)
            _report(engine, gate, ticket, result, used)
    return result


def _unforeseen(error: Exception) -> ModelCallError:
    return BadOutputError(
        f"reading the answer failed with {type(error).__name__}: {error}",
        reason=f"unforeseen_{type(error).__name__}",
    )


def _report(
    engine: CallEngine,
    gate: ProviderGate,
    ticket: int,
    result: Outcome | ModelCallError | None,
    used: Attempts,
) -> None:
    """Release the place at the provider, and report what the attempt says about the provider."""
    if result is None:
        gate.left()
    elif isinstance(result, Outcome):
        gate.succeeded()
    elif result.kind == "rate_limit":
        used.refusals += 1
        engine.tally.refusals += 1
        gate.refused(ticket, result.retry_after)
    elif result.kind == "transient":
        used.counted += gate.failed(ticket)
    else:
        used.counted += 1
        gate.answered()


def planned_result(
    engine: CallEngine, request: Request, answer: Answer | ModelCallError, bound: float
) -> tuple[Outcome, CallRecord]:
    """Outcome and record of a call of a planned pass, which is never tried again."""
    used = Attempts(total=1)
    if isinstance(answer, ModelCallError):
        outcome, usable = Outcome(None, answer.reason, str(answer)), None
    else:
        outcome, usable = Outcome(answer.to_json()), answer
    engine.budget.settle(bound, _book(Meter(), usable, request, bound, used))
    return storable(request, outcome, used)


def storable(request: Request, outcome: Outcome, used: Attempts) -> tuple[Outcome, CallRecord]:
    """The outcome with its record; an answer that cannot be stored makes this call an error."""
    try:
        return outcome, _record(request, outcome, used)
    except CJEError as error:
        refused = Outcome(None, "not_storable", str(error))
        return refused, _record(request, refused, used)


def _record(request: Request, outcome: Outcome, used: Attempts) -> CallRecord:
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
        used.model,
    )


def _book(
    meter: Meter, answer: Answer | None, request: Request, bound: float, used: Attempts
) -> float:
    """Add the usage of an attempt, usable or not, and return its price.

    Answers without a report of their usage, and answers that may be on their way, are booked at the
    most they can have cost, so the books never show less than the provider's bill.
    """
    usage, unreported = meter.usage, meter.unreported
    counted = getattr(answer, "usage", None)
    if usage == Usage() and isinstance(counted, Usage) and counted != Usage():
        usage, unreported = counted, 0  # a function's own count, or tokens the client counted
    used.prompt_tokens += usage.prompt_tokens
    used.completion_tokens += usage.completion_tokens
    used.model = meter.model or used.model
    cost = request.recipe.price.of(usage.prompt_tokens, usage.completion_tokens)
    cost += unreported * bound
    used.cost += cost
    return cost


def _concerns_one_row(error: ModelCallError, gate: ProviderGate) -> bool:
    """Whether a refusal concerns only this row (a text that is too long, for example).

    If the provider has answered other requests, a request it calls invalid is at fault itself.
    A wrong key or an unknown model (401, 403, 404) concerns every call and stops the run.
    """
    return gate.successes > 0 and error.status in (400, 413, 422)
