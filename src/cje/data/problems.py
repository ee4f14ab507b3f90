"""Where a row came from, and what happens when one is bad: an error, or a counted skip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.hints import flag_option, option_hint
from cje.kernels.arrays import BoolArray, IntArray

__all__ = ["BadRows", "Origin", "Piece", "is_label"]


@dataclass(frozen=True)
class Piece:
    """The rows of one source: its name, how many, and how to name row i of it."""

    name: str
    n_rows: int
    row_name: Callable[[int], str]  # position among the source's rows -> "row 3"


def is_label(column: str) -> bool:
    """Whether a canonical column holds labels."""
    return column in ("oracle_label", "rater_list") or column.startswith("rater:")


class Origin:
    """Row of the assembled table -> the source and the row there."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._starts = np.cumsum([0, *(piece.n_rows for piece in pieces)])
        self._kept: IntArray | None = None  # rows that survived skipping; None means all

    def keep(self, mask: BoolArray) -> None:
        """Follow a selection of rows."""
        self.take(np.flatnonzero(mask))

    def take(self, rows: IntArray) -> None:
        """Follow a selection of rows by position, which may repeat."""
        self._kept = rows if self._kept is None else self._kept[rows]

    def in_several_pieces(self, rows: IntArray) -> bool:
        """Whether rows of the assembled table come from more than one source."""
        at = rows if self._kept is None else self._kept[rows]
        return len(set(np.searchsorted(self._starts, at, side="right").tolist())) > 1

    def sources(self) -> dict[str, int]:
        """Rows read from each source, before any were skipped."""
        counts: Counter[str] = Counter()
        for piece in self._pieces:
            counts[piece.name] += piece.n_rows
        return dict(counts)

    def name(self, row: int) -> str:
        """File and row, for a message."""
        source_row = row if self._kept is None else int(self._kept[row])
        i = int(np.searchsorted(self._starts, source_row, side="right")) - 1
        piece = self._pieces[i]
        return f"{piece.name}, {piece.row_name(source_row - int(self._starts[i]))}"


@dataclass
class BadRows:
    """Policy for bad rows: raise at the first, or (`skip`) collect, count and report them."""

    skip: bool
    reasons: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    label_reasons: Counter[str] = field(default_factory=Counter)
    lost_labels: int = 0

    def found(
        self,
        what: str,
        *,
        where: str,
        value: Any = ...,
        hint: str | None = None,
        answers: Sequence[str] = (),
        count: int = 1,
    ) -> None:
        """One or more bad rows with one reason, `where` being the first of them."""
        if not self.skip:
            skip = option_hint("skip_bad_rows", True)
            raise CJEError(
                what, where=where, value=value,
                hint=hint or f"correct the file, or skip and count such rows: {skip}",
                answers=list(dict.fromkeys([*answers, flag_option("skip_bad_rows")])),
            )  # fmt: skip
        self.reasons[what] += count
        self.first.setdefault(what, where)

    def unlabels(
        self,
        column: str,
        what: str,
        wrong: BoolArray,
        where: Callable[[int], str],
        *,
        readable: int,
    ) -> bool:
        """With skipping on, an unreadable label leaves its row unlabelled; counted on its own.

        Where no label is `readable`, the first is an error.
        """
        if not (self.skip and is_label(column) and wrong.any() and readable):
            return False
        self.lost_labels += int(wrong.sum())
        reason = f"{column} {what}"
        self.first.setdefault(reason, where(int(np.argmax(wrong))))
        self.label_reasons[reason] += int(wrong.sum())
        return True

    @property
    def n_skipped(self) -> int:
        """Rows left out so far."""
        return sum(self.reasons.values())

    def notes(self) -> list[str]:
        """What was skipped, for the reading report."""
        lost = [
            f"{count} unreadable label{'s' if count > 1 else ''}, the row"
            f"{'s' if count > 1 else ''} kept without: {what} (first: {self.first[what]})"
            for what, count in self.label_reasons.items()
        ]
        return lost + [
            f"skipped {count} bad row{'s' if count > 1 else ''}: {what} (first: {self.first[what]})"
            for what, count in self.reasons.items()
        ]
