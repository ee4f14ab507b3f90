"""Stop a run in which the same failure repeats call after call."""

from __future__ import annotations

from cje.errors import CJEError
from cje.pipeline.request import Outcome, Recipe

__all__ = ["FailureWatch", "RepeatedFailureError"]


class RepeatedFailureError(CJEError):
    """Many calls in a row fail in the same way; the run stops and keeps all finished work."""


class FailureWatch:
    """Stops a run in which many calls of one kind in a row fail for the same reason."""

    def __init__(self, most: int = 20) -> None:
        self._most = most
        self._in_a_row: dict[bytes, tuple[str, int]] = {}

    def note(self, recipe: Recipe, outcome: Outcome) -> None:
        """Record how a call ended.

        Raises
        ------
        RepeatedFailureError
            If it is one too many of equal failures in a row.
        """
        digest, reason = recipe.keys.digest, outcome.reason
        if reason is None or reason == "stopped":
            self._in_a_row.pop(digest, None)
            return
        last, count = self._in_a_row.get(digest, (reason, 0))
        count = count + 1 if last == reason else 1
        self._in_a_row[digest] = (reason, count)
        if count >= self._most:
            raise RepeatedFailureError(
                f"{count} calls in a row failed with '{reason}'; the last: {outcome.message}",
                where=recipe.place or recipe.keys.stage,
                hint="correct this part of the configuration, then run the same command again: "
                "finished calls are kept",
            )
