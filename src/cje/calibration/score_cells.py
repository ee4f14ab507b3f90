"""Scores sorted once and shared by every policy: distinct values, and coarse groups of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ScoreCells"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreCells:
    """The distinct scores in increasing order, and where each row belongs.

    Parameters
    ----------
    x : array (d,)
        Distinct scores.
    counts : array (d,)
        Rows at each.
    order : array (n,)
        Sorts the rows by score.
    starts : array (d,)
        First sorted row of each cell.
    """

    x: FloatArray
    counts: FloatArray
    order: IntArray
    starts: IntArray

    @classmethod
    def build(cls, scores: FloatArray) -> ScoreCells:
        """Sort the scores."""
        order = _sort(scores)
        ordered = scores[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        counts = np.diff(starts, append=len(scores)).astype(np.float64)
        return cls(ordered[starts], counts, order, starts)

    @property
    def n_rows(self) -> int:
        return len(self.order)

    def sums(self, ordered: FloatArray) -> FloatArray:
        """Sum over the rows of each cell, of values already in sorted order."""
        return ordered if len(self.x) == self.n_rows else np.add.reduceat(ordered, self.starts)

    def groups(self, at_most: int) -> IntArray:
        """Coarse group of each cell: consecutive cells, about equal numbers of rows."""
        if len(self.x) <= at_most:
            return np.arange(len(self.x))
        middle = np.cumsum(self.counts) - 0.5 * self.counts
        raw = np.minimum((middle / self.n_rows * at_most).astype(np.int64), at_most - 1)
        # A heavy cell may skip group numbers; close the gaps.
        return np.cumsum(np.diff(raw, prepend=raw[0]) > 0)

    def rows(self, block_values: FloatArray, block_starts: IntArray) -> FloatArray:
        """One value a row, in the caller's order, from blocks of consecutive cells."""
        ends = np.append(block_starts[1:], len(self.x))
        first = self.starts[block_starts]
        last = np.append(self.starts, self.n_rows)[ends]
        out = np.empty(self.n_rows)
        out[self.order] = np.repeat(block_values, last - first)
        return out


_BUCKETS = 1 << 16
_PROBE = 1000


def _sort(scores: FloatArray) -> IntArray:
    """argsort; where the scores take few well separated values, by their 16-bit bucket.

    Judges emit few distinct scores. If no bucket holds two of them, sorting the bucket numbers (a
    radix sort) sorts the scores.
    """
    low, high = float(scores.min()), float(scores.max())
    width = (high - low) / (_BUCKETS - 1)
    if width > 0.0 and np.isfinite(width) and len(scores) > _PROBE:
        for part in (scores[:_PROBE], scores):
            position = part - low
            position /= width
            bucket = position.astype(np.uint16)
            value = np.empty(_BUCKETS)
            value[bucket] = part
            if (value[bucket] != part).any():
                return np.argsort(scores)
        return np.argsort(bucket, kind="stable")
    return np.argsort(scores)
