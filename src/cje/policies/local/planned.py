"""Answer many calls in planned passes per model, across policies and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cje.models import BadOutputError, Completion, ModelCallError, Usage
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.local.tokens import Prepared, response_span
from cje.policies.scored_tokens import ScoredToken, sum_span

if TYPE_CHECKING:
    from cje.policies.local.generation import Text
    from cje.policies.local.head import Sampling
    from cje.policies.local.model import LocalModel
    from cje.policies.local.packing import Item
    from cje.policies.local.runner import LocalPolicy

__all__ = ["AnyCall", "ChatCall", "GenerateCall", "ScoreCall", "answer_calls"]

Answer = LogProb | Generation | Completion | ModelCallError


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
    repeat: int = 0  # a repeat in another batch, which measures the engine's noise

    @property
    def model(self) -> LocalModel:
        return self.policy.model


@dataclass(frozen=True)
class GenerateCall:
    """One response of one policy."""

    policy: LocalPolicy
    context: str
    seed: int

    @property
    def model(self) -> LocalModel:
        return self.policy.model

    def begin(self, index: int) -> Text:
        """The text, with its prompt as tokens."""
        from cje.policies.local.generation import begin_text

        policy, tokeniser = self.policy, self.model.tokeniser
        config = policy.config
        prompt = tokeniser.encode(tokeniser.render(config, self.context), bos=config.bos)
        return begin_text(
            self.model, index, policy.name, prompt, tokeniser.stops(config), policy.sampling,
            config.max_tokens, self.seed, self.finish,
        )  # fmt: skip

    def finish(self, text: Text) -> Generation:
        """The written text with the sum of its log-probs; ``given`` and ``eos`` include the end."""
        tokeniser = self.model.tokeniser
        stopped = text.ids[-1] in text.stops
        ending: Ending = "open"
        if stopped:
            is_eos = tokeniser.text_of(text.ids[-1]) == self.policy.config.eos_text
            ending = "eos" if is_eos else "given"
        return Generation(
            text=tokeniser.decode(text.ids[:-1] if stopped else text.ids),
            finish_reason="stop" if stopped else "length",
            token_ids=tuple(text.ids),
            logprob=math.fsum(min(value, 0.0) for value in text.logs),
            n_tokens=len(text.ids),
            logprob_has_eos=stopped,
            usage=Usage(len(text.prompt), len(text.ids)),
            ending=ending,
        )


@dataclass(frozen=True)
class ChatCall:
    """An answer to a conversation, as a judge asks for it."""

    model: LocalModel
    name: str
    messages: tuple[tuple[str, str], ...]
    sampling: Sampling
    max_tokens: int
    seed: int
    top: int = 0

    def begin(self, index: int) -> Text:
        """The text, with its prompt as tokens."""
        from cje.policies.local.generation import begin_text

        tokeniser = self.model.tokeniser
        messages = [{"role": role, "content": content} for role, content in self.messages]
        prompt = tokeniser.encode(tokeniser.chat(messages, where=self.name))
        return begin_text(
            self.model, index, self.name, prompt, tokeniser.ends, self.sampling, self.max_tokens,
            self.seed, self.finish, self.top,
        )  # fmt: skip

    def finish(self, text: Text) -> Completion:
        """The answer in the form of a server's answer."""
        tokeniser = self.model.tokeniser
        stopped = text.ids[-1] in text.stops
        ids = text.ids[:-1] if stopped else text.ids
        return Completion(
            tokeniser.decode(ids),
            "stop" if stopped else "length",
            tuple(tokeniser.text_of(i) for i in ids),
            tuple(text.logs[: len(ids)]),
            tuple(text.ids),
            tuple(
                {tokeniser.text_of(i): value for i, value in pairs}
                for pairs in text.alternatives[: len(ids)]
            ),
            usage=Usage(len(text.prompt), len(text.ids)),
        )


AnyCall = ScoreCall | GenerateCall | ChatCall


def answer_calls(calls: Sequence[AnyCall]) -> Iterator[list[tuple[int, Answer]]]:
    """Answers with their positions in `calls`, as passes finish.

    An error of one row (a text that cannot be scored) is the answer of that row; an error of the
    model raises.
    """
    for model, wanted in _by_model(calls):
        scoring = [(i, call) for i, call in wanted if isinstance(call, ScoreCall)]
        for repeat in sorted({call.repeat for _, call in scoring}):
            yield from _score(model, [(i, call) for i, call in scoring if call.repeat == repeat])
        writing = [(i, call) for i, call in wanted if not isinstance(call, ScoreCall)]
        if writing:
            from cje.policies.local.generation import generate

            yield from generate(model, writing)


def _by_model(
    calls: Sequence[AnyCall],
) -> list[tuple[LocalModel, list[tuple[int, AnyCall]]]]:
    groups: dict[int, tuple[LocalModel, list[tuple[int, AnyCall]]]] = {}
    for index, call in enumerate(calls):
        model = call.model
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
