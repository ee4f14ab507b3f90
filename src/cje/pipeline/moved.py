"""A server at a new address: its stored answers stay valid only if it repeats one of them.

A server with an `endpoint_id` is asked one question at temperature 0 in its first run. After a
change of the address, the question is asked again and both answers must agree.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cje.models import Completion, Endpoint, make_client
from cje.models.secrets import masked_url
from cje.pipeline.budget import Price
from cje.pipeline.config import PipelineConfig
from cje.pipeline.hashing import CallKeys
from cje.pipeline.request import Outcome, Recipe, Request
from cje.pipeline.store import CallStore
from cje.pipeline.trials import QUESTION, Trial, ask_all

__all__ = ["Repeated", "repeat_answers"]

_MOST_TOKENS = 24
# Batching and precision change the log-probs of a text slightly; other weights by far more.
_TOLERANCE_PER_TOKEN = 0.02


@dataclass(frozen=True)
class Repeated:
    """The result of asking a server with an `endpoint_id` again.

    Attributes
    ----------
    endpoint : Endpoint
    ok : bool
    says : str
    """

    endpoint: Endpoint
    ok: bool
    says: str


@dataclass(frozen=True)
class _Said:
    """An answer, for the store."""

    text: str
    logprob: float | None
    n_tokens: int
    usage: Any

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "logprob": self.logprob, "n_tokens": self.n_tokens}


def repeat_answers(
    config: PipelineConfig, asked: Sequence[tuple[Endpoint, bool, str]], store: CallStore
) -> list[Repeated]:
    """Ask every server with an `endpoint_id`, and compare with its answer at the old address.

    Parameters
    ----------
    asked : sequence of (Endpoint, bool, str)
        The endpoints; for each, whether it is asked as a chat, and its section in the file.
    """
    trials: dict[bytes, tuple[Endpoint, Trial]] = {}
    for endpoint, chat, place in asked:
        if endpoint.endpoint_id is not None:
            trial = _trial(config, endpoint, chat, place)
            trials.setdefault(trial.request.key, (endpoint, trial))
    if not trials:
        return []
    ended = asyncio.run(ask_all([trial for _, trial in trials.values()], config, store))
    return [
        _compare(endpoint, trial, end, store)
        for (endpoint, trial), end in zip(trials.values(), ended, strict=True)
    ]


def _compare(
    endpoint: Endpoint, trial: Trial, end: Outcome | Exception, store: CallStore
) -> Repeated:
    if isinstance(end, Exception) or end.answer is None:
        said = str(end) if isinstance(end, Exception) else end.message
        return Repeated(endpoint, False, f"the question that identifies the server failed: {said}")
    keys = trial.request.recipe.keys
    name = f"address of {keys.digest.hex()}"
    first, now = store.note(name), _address(endpoint)
    if first is None:
        store.write_note(name, now)
        return Repeated(endpoint, True, "its answer is kept, to recognise the server later")
    if first == now:
        return Repeated(endpoint, True, "the address is unchanged")
    before = store.get_many([keys.key(first)])[keys.key(first)]
    if _agree(before, end.answer):
        return Repeated(endpoint, True, f"moved from {first}; it repeats a stored answer")
    return Repeated(
        endpoint, False,
        f"at {now} it does not repeat the answer stored from {first} ({before['text']!r}, now "
        f"{end.answer['text']!r}): give this server an endpoint_id of its own",
    )  # fmt: skip


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one["text"] != other["text"]:
        return False
    if one["logprob"] is None or other["logprob"] is None:
        return True
    allowed = _TOLERANCE_PER_TOKEN * max(1, one["n_tokens"])
    return bool(abs(one["logprob"] - other["logprob"]) <= allowed)


def _trial(config: PipelineConfig, endpoint: Endpoint, chat: bool, place: str) -> Trial:
    client: Any = make_client(endpoint)
    keys = CallKeys("identity", {**endpoint.identity(), "chat": chat, "asked": QUESTION})
    price = config.price_of(endpoint.model)
    recipe = Recipe(
        keys, endpoint.provider, _asking(client, endpoint, chat),
        Price(price.prompt_per_million, price.completion_per_million), _MOST_TOKENS, place=place,
    )  # fmt: skip
    request = Request(recipe, keys.key(_address(endpoint)), (QUESTION,))
    return Trial(f"server {endpoint.endpoint_id}", request, client.aclose)


def _asking(
    client: Any, endpoint: Endpoint, chat: bool
) -> Callable[[Request, int], Awaitable[_Said]]:
    async def ask(request: Request, seed: int) -> _Said:
        sampling = {"temperature": 0.0, "max_tokens": _MOST_TOKENS, "seed": 0}
        answer: Completion
        if chat:
            answer = await client.chat([{"role": "user", "content": QUESTION}], **sampling)
        else:
            answer = await client.complete(QUESTION, **sampling, logprobs=1)
        values = answer.logprobs or ()
        total = math.fsum(values) if values and all(map(math.isfinite, values)) else None
        return _Said(answer.text, total, len(values), answer.usage)

    return ask


def _address(endpoint: Endpoint) -> str:
    return "" if endpoint.url is None else masked_url(endpoint.url)
