"""The record of one model call, checked on creation: every existing record can be stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cje.data.surrogates import is_unicode, storable_text
from cje.errors import CJEError

__all__ = ["CallRecord"]

# Totals of counts below this stay exact in SQLite's 64-bit integers.
_LARGEST_COUNT = 2**40


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One finished call, or one given up (then `reason` is set and `answer` is empty).

    Attributes
    ----------
    text : str
        `answer` as JSON that SQLite can hold. Lone surrogates, which UTF-8 cannot express, are kept
        as JSON escapes, so the answer is read back unchanged.
    model : str or None
        The model that answered, according to the server.

    Raises
    ------
    CJEError
        If the answer is not JSON (a NaN, an object), or a count or the cost is not a finite number
        of at least 0. A record is refused here, and not inside a transaction with other answers.
    """

    key: bytes
    recipe: bytes
    answer: dict[str, Any]
    attempts: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    reason: str | None = None
    message: str = ""
    model: str | None = None
    text: str = field(init=False, default="")

    def __post_init__(self) -> None:
        for name in ("attempts", "prompt_tokens", "completion_tokens"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value < _LARGEST_COUNT:
                raise CJEError(f"{name} of a call is not a count", value=value)
        if not math.isfinite(self.cost) or self.cost < 0.0:
            raise CJEError("the cost of a call is not an amount", value=self.cost)
        object.__setattr__(self, "text", _json_text(self.answer))
        object.__setattr__(self, "message", storable_text(self.message))
        if self.model is not None:
            object.__setattr__(self, "model", storable_text(self.model)[:200])


def _json_text(answer: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        if not is_unicode(text):
            text = json.dumps(answer, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CJEError(f"the answer cannot be written as JSON: {error}") from error
    return text
