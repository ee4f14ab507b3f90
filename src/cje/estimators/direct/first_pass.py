"""The first pass over a file in parts: what needs no prediction.

The weight of each row (a prompt counts once, however many draws it has), summed by policy and
distinct score; the gaps between labelled rows and all rows; which prompts the policies share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from cje.data.streaming import NotStreamed, Part, StreamedRows
from cje.diagnostics.labelling import GapSums, LabelDraw, mid_rank
from cje.hints import by_interface
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Totals", "first_pass"]

_MOST_PAIRS = 60_000_000
"""Policies times prompts of one part, of which a count is kept (480 MB)."""


@dataclass(frozen=True)
class Totals:
    """Result of the first pass; the share of a row is 1 over the rows of its policy and prompt.

    Attributes
    ----------
    prompts : array (K,)
        Prompts of each policy.
    shared : int
        Prompts that every policy has.
    share, square : array (K, D)
        Sums of shares, and of their squares, over the rows without a label, by policy and score.
    label_share, label_place, label_prompt : array (m,)
        Each labelled row's share, its place in its policy's rows on 0-1, and its prompt,
        numbered through the parts.
    starts : array (parts + 1,)
        First prompt of each part.
    gaps : list of dict
        For each policy the sums of the gaps in rank, score and place.
    first_rows : array (G,)
        First row of each prompt in the file, where names are kept.
    names : Series, optional
        Names of the prompts, where they are few enough to be kept.
    """

    prompts: IntArray
    shared: int
    share: FloatArray
    square: FloatArray
    label_share: FloatArray
    label_place: FloatArray
    label_prompt: IntArray
    starts: IntArray
    gaps: list[dict[str, GapSums]]
    first_rows: IntArray
    names: pl.Series | None


def first_pass(rows: StreamedRows, most_kept: int) -> Totals:
    """Read each part once; names are kept of at most `most_kept` prompts times policies.

    Rows without a label are left for the second pass as integers, and the part is removed.

    Raises
    ------
    CJEError
        Two rows of one policy and prompt that are not draws.
    NotStreamed
        The policies have so few prompts in common that a part cannot be counted.
    """
    found = _FirstPass(rows, most_kept)
    for number in range(rows.n_parts):
        part = rows.part(number)
        if part is not None:
            found.add(number, part)
        found.starts.append(found.n_prompts)
        rows.forget(number)
    return found.totals()


class _FirstPass:
    """Sums over the parts so far."""

    def __init__(self, rows: StreamedRows, most_kept: int) -> None:
        k, d = rows.counts.shape
        self.rows, self._most_kept = rows, most_kept
        self.starts = [0]
        self.n_prompts = self._shared = 0
        self._prompts = np.zeros(k, dtype=np.int64)
        self._share, self._square = np.zeros(k * d), np.zeros(k * d)
        self._label_share, self._label_place = np.zeros(rows.n_labelled), np.zeros(rows.n_labelled)
        self._label_prompt = np.zeros(rows.n_labelled, dtype=np.int64)
        self._gaps: list[dict[str, GapSums]] = [{} for _ in range(k)]
        self._n_rows, self._n_labels = rows.row_of_policy(), rows.labelled.policy.counts()
        self._first_rows: list[IntArray] = []
        self._names: list[pl.Series] = []

    def add(self, number: int, part: Part) -> None:
        """Add one part."""
        count = self._count(part)
        place = (part.place + 0.5) / self._n_rows[part.policy]
        self._add_shares(number, part, count)
        self._add_labels(part, count, place)
        for k in range(len(self._gaps)):
            if 0 < self._n_labels[k] < self._n_rows[k]:
                self._add_gaps(k, part, place)
        self._add_names(part)

    def _count(self, part: Part) -> IntArray:
        """Rows of the policy and prompt of each row; counts prompts on the way."""
        k, g = len(self._prompts), part.prompt.n_names
        if k * g > _MOST_PAIRS:
            raise NotStreamed(
                "the policies have too few prompts in common to be counted in parts",
                value=(k, g),
                hint="read the file in memory: "
                + by_interface('engine="memory"', "--engine memory"),
            )
        pair = part.policy * g + part.prompt.codes
        counts = np.bincount(pair, minlength=k * g)
        seen = counts.reshape(k, g) > 0
        self._prompts += seen.sum(axis=1)
        self._shared += int(seen.all(axis=0).sum())
        return np.asarray(counts[pair])

    def _add_shares(self, number: int, part: Part, count: IntArray) -> None:
        free = np.flatnonzero(~part.labelled)
        key = part.policy[free] * len(self.rows.scores) + part.score[free]
        count = count[free]
        for equal in np.unique(count).tolist():
            # counted and divided once: a sum of millions of 1/20 would lose three digits
            rows = np.bincount(key[count == equal], minlength=len(self._share))
            self._share += rows / equal
            self._square += rows / equal**2
        left = np.stack([part.prompt.codes[free], key, count]).astype(np.int32)
        np.save(self.rows.scratch(number, "npy"), left)

    def _add_labels(self, part: Part, count: IntArray, place: FloatArray) -> None:
        own = np.flatnonzero(part.labelled)
        at = np.searchsorted(self.rows.labelled_rows, part.row[own])
        self._label_share[at], self._label_place[at] = 1.0 / count[own], place[own]
        self._label_prompt[at] = self.n_prompts + part.prompt.codes[own]

    def _add_gaps(self, k: int, part: Part, place: FloatArray) -> None:
        """Add the part's prompts to the gaps between labelled rows and all rows of policy k."""
        mine = np.flatnonzero(part.policy == k)
        if not len(mine):
            return
        counts, n, scores = self.rows.counts[k], int(self._n_rows[k]), self.rows.scores
        values = {
            "rank": (mid_rank(counts)[part.score[mine]], (n + 1.0) / 2.0),
            "score": (scores[part.score[mine]], float(scores @ counts) / n),
            "place": (place[mine], 0.5),
        }
        found = self._gaps[k]
        draw = LabelDraw(part.labelled[mine], part.prompt.codes[mine])
        for name, (value, pivot) in values.items():
            sums = draw.sums(value, pivot)
            found[name] = found[name] + sums if name in found else sums

    def _add_names(self, part: Part) -> None:
        """Count the prompts; keep their names while they are few."""
        self.n_prompts += part.prompt.n_names
        if not self._kept:
            self._first_rows, self._names = [], []
            return
        first = np.empty(part.prompt.n_names, dtype=np.int64)
        first[part.prompt.codes[::-1]] = part.row[::-1]
        self._first_rows.append(first)
        self._names.append(part.prompt.vocabulary.to_series())

    @property
    def _kept(self) -> bool:
        return self.n_prompts * len(self._prompts) <= self._most_kept

    def totals(self) -> Totals:
        shape = self.rows.counts.shape
        return Totals(
            self._prompts,
            self._shared,
            self._share.reshape(shape),
            self._square.reshape(shape),
            self._label_share,
            self._label_place,
            self._label_prompt,
            np.array(self.starts),
            self._gaps,
            np.concatenate(self._first_rows) if self._kept else np.zeros(0, dtype=np.int64),
            pl.concat(self._names) if self._kept else None,
        )
