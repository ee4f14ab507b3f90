"""When failures mean the run and not the row: the same one, call after call."""

from __future__ import annotations

from cje.errors import CJEError
from cje.pipeline.request import Outcome, Recipe

__all__ = ["FailureWatch", "RepeatedFailureError"]


class RepeatedFailureError(CJEError):
    """Call after call fails in the same way; the run stops with everything finished kept."""


class FailureWatch:
    """Stops a run in which call after call of one kind fails for the same reason."""

    def __init__(self, most: int = 20) -> None:
        self._most = most
        self._in_a_row: dict[bytes, tuple[str, int]] = {}

    def note(self, recipe: Recipe, outcome: Outcome) -> None:
        """Take note of how a call ended.

        Raises
        ------
        RepeatedFailureError
            When it is the last of too many equal failures in a row.
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
