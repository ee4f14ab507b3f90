"""Answer many calls in planned passes: one pass per model, whatever the policies and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cje.models import BadOutputError, ModelCallError, Usage
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.local.tokens import Prepared, response_span
from cje.policies.scored_tokens import ScoredToken, sum_span

if TYPE_CHECKING:
    from cje.policies.local.head import Sampling
    from cje.policies.local.model import LocalModel
    from cje.policies.local.packing import Item
    from cje.policies.local.runner import LocalPolicy

__all__ = ["GenerateCall", "ScoreCall", "answer_calls"]

Answer = LogProb | Generation | ModelCallError


@dataclass(frozen=True)
class ScoreCall:
    """log p(response | context) under one policy."""

    policy: LocalPolicy
    context: str
    response: str
    token_ids: tuple[int, ...] | None = None
    complete: bool = True
    ending: Ending | None = None
    end_text: str | None = None
    repeat: int = 0  # the same again, in another batch: measures the engine's own noise


@dataclass(frozen=True)
class GenerateCall:
    """One response of one policy."""

    policy: LocalPolicy
    context: str
    seed: int


def answer_calls(calls: Sequence[ScoreCall | GenerateCall]) -> Iterator[list[tuple[int, Answer]]]:
    """Answers with their positions in `calls`, as passes are finished.

    What concerns one row (a text that cannot be scored) is an answer of its own; what concerns the
    model raises.
    """
    for model, wanted in _by_model(calls):
        scoring = [(i, call) for i, call in wanted if isinstance(call, ScoreCall)]
        for repeat in sorted({call.repeat for _, call in scoring}):
            yield from _score(model, [(i, call) for i, call in scoring if call.repeat == repeat])
        writing = [(i, call) for i, call in wanted if isinstance(call, GenerateCall)]
        if writing:
            from cje.policies.local.generation import generate

            yield from generate(model, writing)


def _by_model(
    calls: Sequence[ScoreCall | GenerateCall],
) -> list[tuple[LocalModel, list[tuple[int, ScoreCall | GenerateCall]]]]:
    groups: dict[int, tuple[LocalModel, list[tuple[int, ScoreCall | GenerateCall]]]] = {}
    for index, call in enumerate(calls):
        model = call.policy.model
        groups.setdefault(id(model), (model, []))[1].append((index, call))
    return list(groups.values())


def _score(
    model: LocalModel, calls: Sequence[tuple[int, ScoreCall]]
) -> Iterator[list[tuple[int, Answer]]]:
    refused: list[tuple[int, Answer]] = []
    wanted: dict[Item, list[tuple[int, ScoreCall, Prepared]]] = {}
    for index, call in calls:
        try:
            prepared = call.policy.prepare(call)
        except ModelCallError as error:
            refused.append((index, error))
            continue
        wanted.setdefault(prepared.item, []).append((index, call, prepared))
    if refused:
        yield refused
    # Items of one set of distributions share their passes: usually there is one set.
    sets: dict[tuple[Sampling, ...], list[Item]] = {}
    for item, users in wanted.items():
        samplings = tuple(sorted({call.policy.sampling for _, call, _ in users}))
        sets.setdefault(samplings, []).append(item)
    for samplings, items in sets.items():
        passes = model.engine.score(items, samplings)
        while True:
            with model.lock:
                part = next(passes, None)
            if part is None:
                break
            yield [
                (index, _log_prob(scored.values[samplings.index(call.policy.sampling)], prepared))
                for scored in part
                for index, call, prepared in wanted[items[scored.index]]
            ]


def _log_prob(values: NDArray[np.float32], prepared: Prepared) -> LogProb | BadOutputError:
    """The sum, by the rules that a server's log-probs are summed by."""
    item = prepared.item
    tokens = [ScoredToken(None, None, None)] + [
        ScoredToken(None, i, v) for i, v in zip(item.response, values.tolist(), strict=True)
    ]
    try:
        value = sum_span(tokens, response_span(len(item.response)))
    except BadOutputError as error:
        return error
    usage = Usage(len(item.prompt) + len(item.response), 0)
    return LogProb(value, len(item.response), prepared.boundary, usage)
