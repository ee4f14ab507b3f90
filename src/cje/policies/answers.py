"""The answers of a policy: a generated response, and the log-prob of a given one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cje.models import JSON, BadOutputError, Usage

__all__ = ["Boundary", "Ending", "Generation", "LogProb"]

#: How a response ended, which determines what its score includes (see `Generation`).
Ending = Literal["eos", "given", "text", "open", "unknown"]
Boundary = Literal["token_ids", "offsets", "prefix", "inside_token", "exact"]


@dataclass(frozen=True)
class Generation:
    """One sampled response.

    Attributes
    ----------
    text : str
        The response, character for character (no stripping: scoring needs the exact text).
    finish_reason : str
        ``"stop"``, ``"length"``, ``"refusal"``, or the server's own word.
    token_ids : tuple of int or None
        The sampled tokens, if the server reports them.
    logprob : float or None
        Sum of the tokens' log-probs that the server reported while generating.
    logprob_has_eos : bool
        Whether `logprob` includes the end of the response (its end token, or a stop string).
    ending : {"eos", "given", "text", "open", "unknown"}
        ``eos``: the configured end-of-sequence token. ``given``: an end token that `token_ids`
        holds as its last. ``text``: the stop string `end_text`. ``open``: nothing, it was cut off.
        ``unknown``: the server stopped without a reason, so the event has no known probability.
    end_text : str or None
        The stop string that ended the response.
    """

    text: str
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    logprob: float | None = None
    n_tokens: int = 0
    logprob_has_eos: bool = False
    usage: Usage = field(default_factory=Usage)
    ending: Ending = "open"
    end_text: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the model ended the response itself, which makes the end part of the event."""
        return self.ending not in ("open", "unknown")

    def to_json(self) -> dict[str, JSON]:
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "token_ids": None if self.token_ids is None else list(self.token_ids),
            "logprob": self.logprob,
            "n_tokens": self.n_tokens,
            "logprob_has_eos": self.logprob_has_eos,
            "ending": self.ending,
            "end_text": self.end_text,
            "usage": self.usage.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Generation:
        ids = data["token_ids"]
        return cls(
            text=data["text"],
            finish_reason=data["finish_reason"],
            token_ids=None if ids is None else tuple(ids),
            logprob=data["logprob"],
            n_tokens=data["n_tokens"],
            logprob_has_eos=data["logprob_has_eos"],
            usage=Usage.from_json(data["usage"]),
            ending=data["ending"],
            end_text=data["end_text"],
        )


@dataclass(frozen=True)
class LogProb:
    """log p(response | context): finite and not positive, checked on creation.

    Attributes
    ----------
    value : float
        The sum over the response's tokens.
    n_tokens : int
        Number of summed tokens (with EOS if it belongs to the event).
    boundary : str
        How the response's first token was found: from logged ``token_ids``, by character
        ``offsets``, by token ``prefix``; ``inside_token`` when a token spans the boundary and the
        sum starts at that token; ``exact`` for a model in this process.
    end : float or None
        The part of `value` that belongs to the end of the response (EOS), if known. Some servers
        omit it from the log-probs that they report while writing.
    """

    value: float
    n_tokens: int
    boundary: Boundary = "exact"
    usage: Usage = field(default_factory=Usage)
    end: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or self.value > 0.0:
            raise BadOutputError(
                "a log-prob must be finite and not positive", reason="bad_sum", value=self.value
            )

    def to_json(self) -> dict[str, JSON]:
        return {
            "value": self.value,
            "n_tokens": self.n_tokens,
            "boundary": self.boundary,
            "usage": self.usage.to_json(),
            "end": self.end,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> LogProb:
        return cls(
            data["value"], data["n_tokens"], data["boundary"], Usage.from_json(data["usage"]),
            data.get("end"),
        )  # fmt: skip
