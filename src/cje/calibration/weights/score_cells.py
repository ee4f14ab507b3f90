"""The distinct scores, found once and shared by every policy, and coarse groups of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["ScoreCells", "mass_groups"]

_BUCKETS = 4096
_PROBE = 1000
_BLOCK = 16_384


@dataclass(frozen=True)
class ScoreCells:
    """A cell is a distinct score; cells are numbered in increasing order.

    Parameters
    ----------
    x : array (d,)
        The distinct scores.
    counts : array (d,)
        Rows at each.
    cell : array (n,)
        Cell of each row.
    """

    x: FloatArray
    counts: FloatArray
    cell: IntArray

    @classmethod
    def build(cls, scores: FloatArray) -> ScoreCells:
        """Number the distinct scores."""
        return _by_bucket(scores) or _by_sorting(scores)

    @property
    def n_rows(self) -> int:
        return len(self.cell)

    @property
    def has_ties(self) -> bool:
        """Whether two rows share a score."""
        return len(self.x) < len(self.cell)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of a column over the rows of each cell."""
        return np.bincount(self.cell, values, minlength=len(self.x)).astype(np.float64, copy=False)

    def groups(self, at_most: int) -> IntArray:
        """Coarse group of each cell: consecutive cells, about equal numbers of rows."""
        if len(self.x) <= at_most:
            return np.arange(len(self.x))
        raw = mass_groups(self.counts, at_most)
        # A heavy cell may skip group numbers; close the gaps.
        return np.cumsum(np.diff(raw, prepend=raw[0]) > 0)

    def rows(self, block_values: FloatArray, block_starts: IntArray) -> FloatArray:
        """One value per row, from blocks of consecutive cells."""
        by_cell = np.repeat(block_values, np.diff(block_starts, append=len(self.x)))
        return by_cell[self.cell]


def mass_groups(mass: FloatArray, at_most: int) -> IntArray:
    """Group numbers of consecutive cells, about equal totals of `mass`; some may go unused."""
    middle = np.cumsum(mass) - 0.5 * mass
    groups = np.minimum((middle / mass.sum() * at_most).astype(np.int64), at_most - 1)
    return np.asarray(groups)


def _by_sorting(scores: FloatArray) -> ScoreCells:
    order = np.argsort(scores)
    ordered = scores[order]
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(new)
    cell = np.empty(len(scores), dtype=np.int64)
    cell[order] = np.cumsum(new) - 1 if len(starts) < len(scores) else np.arange(len(scores))
    counts = np.diff(starts, append=len(scores)).astype(np.float64)
    return ScoreCells(ordered[starts], counts, cell)


def _by_bucket(scores: FloatArray) -> ScoreCells | None:
    """Without a sort, where no two distinct scores share one of 4096 equal buckets.

    Judges emit few distinct scores, so this is the common case. None where it does not hold.
    """
    low, high = float(scores.min()), float(scores.max())
    width = (high - low) / (_BUCKETS - 1)
    if len(scores) <= _PROBE or not (width > 0.0 and np.isfinite(width)):
        return None
    value = np.full(_BUCKETS, np.nan)
    bucket = np.empty(len(scores), dtype=np.int64)
    stops = [*range(_PROBE, len(scores), _BLOCK), len(scores)]
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):  # blocks stay in cache
        part = scores[start:stop]
        here = bucket[start:stop]
        np.divide(part - low, width, out=here, casting="unsafe")
        differs = value[here] != part
        if differs.any():  # scores not met so far, or two in one bucket
            new = here[differs]
            if not np.isnan(value[new]).all():
                return None
            value[new] = part[differs]
            if (value[new] != part[differs]).any():
                return None
    size = np.bincount(bucket, minlength=_BUCKETS)
    used = size > 0
    number = np.cumsum(used) - 1
    return ScoreCells(value[used], size[used].astype(np.float64), number[bucket])
