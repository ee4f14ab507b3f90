"""The interface of clients for all protocols, with checked answers as plain dicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cje.errors import CJEError
from cje.models.call_errors import BadOutputError, RetryableError
from cje.models.endpoint import JSON, Endpoint, Usage
from cje.models.metering import read_usage

__all__ = ["Client", "Completion", "make_client", "read_chat", "read_completion"]

Message = Mapping[str, str]
LARGEST_TOKEN_ID = 2**31


@dataclass(frozen=True)
class Completion:
    """A generated text with the server's information on its tokens.

    Attributes
    ----------
    text : str
    finish_reason : str
        ``"stop"``, ``"length"``, ``"refusal"``, ``"content_filter"`` or the server's own word.
    tokens, logprobs : tuple or None
        Text and log-prob of each generated token, if the server gives them.
    token_ids : tuple of int or None
    top : tuple of mappings
        For each token, the log-probs of the likeliest alternatives, by token text.
    stop_reason : str, int or None
        What ended the text if not the model's own end token: a stop string, or the id of another
        end token (only vLLM reports it).
    usage : Usage
    """

    text: str
    finish_reason: str
    tokens: tuple[str, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    top: tuple[Mapping[str, float], ...] = field(default=())
    stop_reason: str | int | None = None
    usage: Usage = field(default_factory=Usage)


class Client(Protocol):
    """Makes one attempt of one call; raises only subclasses of `ModelCallError`."""

    endpoint: Endpoint

    async def chat(self, messages: Sequence[Message], **parameters: JSON) -> Completion: ...

    async def post(
        self, path: str, body: Mapping[str, JSON], *, billed: bool = True
    ) -> dict[str, JSON]: ...

    async def models(self, *, within: float = 10.0) -> list[str]: ...

    async def aclose(self) -> None: ...


def make_client(endpoint: Endpoint) -> Client:
    """The client for an endpoint's protocol. Only this function imports the SDK."""
    if endpoint.protocol == "anthropic":
        from cje.models.anthropic_client import AnthropicClient

        return AnthropicClient(endpoint)
    if endpoint.protocol == "local":
        raise CJEError(
            f"{endpoint.label} is a model of this process, not a server",
            hint="make its client with cje.policies.local.LocalChat and hand it over",
        )
    from cje.models.openai_client import OpenAIClient

    return OpenAIClient(endpoint)


def first_choice(body: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """`choices[0]`; without it the body is broken, which is a retryable error."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise RetryableError("the answer has no choices", reason="broken_body", where=where)
    return choices[0]


def read_chat(body: Mapping[str, Any], where: str) -> Completion:
    """A chat-completions answer."""
    choice = first_choice(body, where)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise RetryableError("the answer has no message", reason="broken_body", where=where)
    finish = str(choice.get("finish_reason") or "unknown")
    text = message.get("content")
    if message.get("refusal"):
        finish, text = "refusal", message["refusal"]
    if not isinstance(text, str):
        raise BadOutputError(
            "the model's message has no text", reason="empty_message", raw=str(text), where=where
        )
    tokens, values, top = _chat_logprobs(choice.get("logprobs"))
    return Completion(
        text, finish, tokens, values, _ids(choice.get("token_ids"), where), top,
        _stop_reason(choice), read_usage(body) or Usage(),
    )  # fmt: skip


def read_completion(body: Mapping[str, Any], where: str) -> Completion:
    """A text-completions answer (no echo)."""
    choice = first_choice(body, where)
    text = choice.get("text")
    if not isinstance(text, str):
        raise RetryableError("the answer has no text", reason="broken_body", where=where)
    finish = str(choice.get("finish_reason") or "unknown")
    block = choice.get("logprobs")
    tokens: tuple[str, ...] | None = None
    values: tuple[float, ...] | None = None
    ids = _ids(choice.get("token_ids"), where)
    if isinstance(block, Mapping):
        raw_tokens, raw_values = block.get("tokens"), block.get("token_logprobs")
        if raw_tokens is None:  # llama-server uses the format of a chat
            tokens, values, ids = _llama_server_block(block, text, where)
        if isinstance(raw_tokens, list) and isinstance(raw_values, list):
            tokens = tuple(str(token) for token in raw_tokens)
            values = tuple(_number(value) for value in raw_values)
    return Completion(
        text, finish, tokens, values, ids, (),
        _stop_reason(choice), read_usage(body) or Usage(),
    )  # fmt: skip


def _chat_logprobs(
    block: Any,
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None, tuple[Mapping[str, float], ...]]:
    content = block.get("content") if isinstance(block, Mapping) else None
    if not isinstance(content, list) or not all(isinstance(entry, Mapping) for entry in content):
        return None, None, ()
    tokens = tuple(str(entry.get("token", "")) for entry in content)
    values = tuple(_number(entry.get("logprob")) for entry in content)
    top = tuple(
        {
            str(alternative["token"]): _number(alternative.get("logprob"))
            for alternative in entry.get("top_logprobs") or ()
            if isinstance(alternative, Mapping) and "token" in alternative
        }
        for entry in content
    )
    return tokens, values, top


def _llama_server_block(
    block: Mapping[str, Any], text: str, where: str
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None, tuple[int, ...] | None]:
    """Tokens, log-probs and ids; None for all if tokens are missing.

    llama-server omits tokens that are only part of a character: the bytes then do not add up.
    """
    tokens, values, _ = _chat_logprobs(block)
    if tokens is None:
        return None, None, None
    entries = block["content"]
    try:
        written = b"".join(bytes(entry["bytes"]) for entry in entries)
    except (KeyError, TypeError, ValueError):
        return tokens, values, None
    if written != text.encode("utf-8", "surrogatepass"):
        return None, None, None
    return tokens, values, _ids([entry.get("id") for entry in entries], where)


def _stop_reason(choice: Mapping[str, Any]) -> str | int | None:
    value = choice.get("stop_reason")
    return value if type(value) in (str, int) else None


def _number(value: Any) -> float:
    """A number, or NaN for anything else, which callers refuse with a reason."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # integers in JSON are unbounded
        return math.nan


def _ids(value: Any, where: str) -> tuple[int, ...] | None:
    """Token ids, if the server gives them; one impossible id makes all of them invalid."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        return None
    for item in value:
        if not 0 <= item < LARGEST_TOKEN_ID:
            raise BadOutputError(
                "a token id is outside every vocabulary", reason="bad_token_id", where=where,
                value=item,
            )  # fmt: skip
    return tuple(value)
