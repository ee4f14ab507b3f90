"""The one error type users meet, and a helper that says which extra to install."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = ["CJEError", "MissingExtraError", "require_extra"]


class CJEError(ValueError):
    """A problem with input or configuration: what is wrong, where, the value and the way out.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        File, row, field: where it was found.
    value : object, optional
        The offending value (shown shortened).
    hint : str, optional
        What to do next.
    answers : sequence, optional
        Where the message is a question: what the command line would add to the command to answer
        it, or (old, new) for an argument to replace; the likeliest answer first.

    Examples
    --------
    >>> print(CJEError("judge_score is not a number", where="a.jsonl, row 3", value="high",
    ...                hint="map the field with fields={'judge_score': ...}"))
    judge_score is not a number [a.jsonl, row 3] (got 'high'). What to do: map the field with fields={'judge_score': ...}
    """  # noqa: E501

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        value: Any = ...,
        hint: str | None = None,
        answers: Sequence[str | tuple[str, str]] = (),
    ) -> None:
        self.what, self.where, self.value, self.hint = what, where, value, hint
        self.answers = tuple(answers)
        message = what.rstrip(".")
        if where:
            message += f" [{where}]"
        if value is not ...:
            message += f" (got {_short(value)})"
        if hint:
            message += f". What to do: {hint}"
        super().__init__(message)


class MissingExtraError(CJEError, ImportError):
    """A feature needs an optional dependency that is not installed."""


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 12]}... ({len(text)} characters)"


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra of this package provides it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package '{module.partition('.')[0]}', which is not installed",
            hint=f"pip install 'causal-judge[{extra}]'",
        ) from error
