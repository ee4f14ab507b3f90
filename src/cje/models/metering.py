"""Count the usage of the answers of a call, usable or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from cje.models.endpoint import Usage

__all__ = ["Meter", "current_meter", "metered", "read_usage"]

# More tokens than any model reads or writes in one call.
_MOST_TOKENS = 2**31


@dataclass
class Meter:
    """Usage of one attempt, over all its requests.

    Attributes
    ----------
    requests : int
        Requests sent to a model.
    usage : Usage
        Billed tokens, as the server reports them.
    unreported : int
        Answers that were or may have been billed without a report of the amount: without a valid
        usage, broken, or lost. They are booked at the most they can have cost.
    model : str or None
        The model that the last answer names.
    """

    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    unreported: int = 0
    model: str | None = None

    def answered(self, body: Mapping[str, Any]) -> None:
        """Count an answer."""
        usage = read_usage(body)
        if usage is None:
            self.unreported += 1
        else:
            self.usage += usage
        if isinstance(body.get("model"), str):
            self.model = body["model"]

    def lost(self) -> None:
        """Count an answer that cannot be read, or that may still arrive."""
        self.unreported += 1


_METER: ContextVar[Meter | None] = ContextVar("cje_meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Count every model call inside the block, including those of tasks that it starts."""
    meter = Meter()
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def current_meter() -> Meter:
    """The meter of the current call (outside `metered`, one that is never read)."""
    return _METER.get() or Meter()


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """Billed tokens of an answer, for all protocols; None without plausible counts.

    Examples
    --------
    >>> read_usage({"usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    Usage(prompt_tokens=7, completion_tokens=2)
    >>> read_usage({"usage": {"prompt_tokens": -7, "completion_tokens": 2}}) is None
    True
    """
    for block, prompt, completion in (
        ("usage", "prompt_tokens", "completion_tokens"),
        ("usage", "input_tokens", "output_tokens"),  # Anthropic
        ("meta_info", "prompt_tokens", "completion_tokens"),  # SGLang
        (None, "tokens_evaluated", "tokens_predicted"),  # llama-server
    ):
        found = body if block is None else body.get(block)
        if not isinstance(found, Mapping) or prompt not in found:
            continue
        counts = [_count(found[prompt]), _count(found.get(completion) or 0)]
        if counts[0] is None or counts[1] is None:
            return None
        return Usage(counts[0], counts[1])
    return None


def _count(value: Any) -> int | None:
    """A number of tokens: whole, at least 0, and no more than a model can read."""
    if type(value) not in (int, float) or not 0 <= value < _MOST_TOKENS or value != int(value):
        return None
    return int(value)
