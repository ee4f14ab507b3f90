"""Bins of scores and the sums inside them, in blocks small enough for the processor's cache.

Equal-width bins are those of `cje.kernels.binning`; equal-mass bins follow its rule too, but from
the edges, which a partial sort finds in less time than a full one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cje.classification._arrays import BLOCK, FloatArray, IntArray, check_whole_number
from cje.errors import CJEError
from cje.kernels.binning import equal_width_bins

__all__ = ["BinSums", "Strategy", "binner", "cell_sums", "equal_mass_edges", "gap_sums"]

Strategy = Literal["uniform", "quantile"]
Binner = Callable[[FloatArray], IntArray]

_FEW_EDGES = 64  # up to here, comparing with every edge beats a binary search


def binner(p: FloatArray, n_bins: int, strategy: str, w: FloatArray | None) -> Binner:
    """A function from scores to bins: ``"uniform"`` by width, ``"quantile"`` by mass."""
    n_bins = check_whole_number(n_bins, "n_bins")
    if strategy == "uniform":
        return lambda block: _uniform(block, n_bins)
    if strategy == "quantile":
        edges = equal_mass_edges(p, n_bins, w)
        return lambda block: _between(block, edges)
    raise CJEError("unknown binning strategy", value=strategy, hint="uniform or quantile")


def _uniform(p: FloatArray, n_bins: int) -> IntArray:
    scaled = p * n_bins
    bins = scaled.astype(np.int32)
    scaled -= bins
    # Only a score within rounding of an edge can be misplaced by the product.
    if scaled.min() < 1e-9 or scaled.max() > 1.0 - 1e-9:
        return equal_width_bins(p, n_bins)
    return bins  # type: ignore[return-value]


def _between(p: FloatArray, edges: FloatArray) -> IntArray:
    if len(edges) > _FEW_EDGES:
        return np.searchsorted(edges, p, side="right")
    bins = np.zeros(len(p), dtype=np.int8)
    for edge in edges:
        bins += p >= edge
    return bins.astype(np.int64)


def equal_mass_edges(p: FloatArray, n_bins: int, w: FloatArray | None = None) -> FloatArray:
    """Smallest score of each bin but the first, so that the bins hold equal mass.

    Equal scores are never split: a score with mass ``L`` below and ``c`` on it goes where its
    middle goes, ``floor((L + (c - 1) / 2) * n_bins / n)``, as in
    `cje.kernels.binning.equal_mass_bins`. An edge may repeat: the bin between is then empty.
    """
    if w is not None:
        return _weighted_edges(p, n_bins, w)
    n = len(p)
    share = np.arange(1, n_bins) * (n / n_bins)
    rank = np.minimum(np.ceil(share - 1e-9).astype(np.int64), n - 1)
    if n_bins == 1:
        return np.empty(0)
    value = np.partition(p, np.unique(rank))[rank]
    below, on = np.zeros(n_bins - 1), np.zeros(n_bins - 1)
    for start in range(0, n, BLOCK):
        block = p[start : start + BLOCK]
        below += [np.count_nonzero(block < v) for v in value]
        on += [np.count_nonzero(block == v) for v in value]
    low = below + (on - 1.0) / 2.0 < share - 1e-9
    return np.asarray(np.where(low, np.nextafter(value, np.inf), value))


def _weighted_edges(p: FloatArray, n_bins: int, w: FloatArray) -> FloatArray:
    order = np.argsort(p)
    score, mass = p[order], w[order]
    first = np.flatnonzero(np.diff(score, prepend=-np.inf))
    on = np.add.reduceat(mass, first)
    below = np.cumsum(on) - on
    middle = below + np.maximum(on - 1.0, 0.0) / 2.0
    bins = np.minimum(np.floor(middle * n_bins / mass.sum() + 1e-9), n_bins - 1)
    at = np.searchsorted(bins, np.arange(1, n_bins), side="left")
    return np.append(score[first], np.inf)[at]


def gap_sums(
    y: NDArray[Any], p: FloatArray, w: FloatArray | None, n_bins: int, bins_of: Binner
) -> FloatArray:
    """Sum of (weighted) outcome minus score in each bin, from one pass in blocks."""
    total = np.zeros(n_bins)
    for start in range(0, len(p), BLOCK):
        rows = slice(start, start + BLOCK)
        gap = y[rows] - p[rows]
        if w is not None:
            gap *= w[rows]
        total += np.bincount(bins_of(p[rows]), weights=gap, minlength=n_bins)
    return total


class BinSums(NamedTuple):
    """Sums over the rows of each cell, cells without weight left out.

    Attributes
    ----------
    weight, squared : array (C,)
        Sum of the weights and of their squares.
    mean_y, mean_p : array (C,)
        Weighted means of outcome and score.
    cell : array (C,) of int
        Number of the cell.
    """

    weight: FloatArray
    squared: FloatArray
    mean_y: FloatArray
    mean_p: FloatArray
    cell: IntArray

    @property
    def gap(self) -> FloatArray:
        """Mean outcome minus mean score of each cell."""
        return self.mean_y - self.mean_p

    @property
    def effective(self) -> FloatArray:
        """Kish's effective number of rows of each cell."""
        return self.weight**2 / self.squared


def _sums(cells: IntArray, n_cells: int, *columns: FloatArray) -> list[FloatArray]:
    return [np.bincount(cells, weights=c, minlength=n_cells).astype(float) for c in columns]


def cell_sums(
    y: FloatArray, p: FloatArray, w: FloatArray | None, cells: IntArray, n_cells: int
) -> BinSums:
    """Weights and means of every cell that holds weight."""
    if w is None:
        weight = squared = np.bincount(cells, minlength=n_cells).astype(np.float64)
        y_sum, p_sum = _sums(cells, n_cells, y, p)
    else:
        weight, squared, y_sum, p_sum = _sums(cells, n_cells, w, w * w, w * y, w * p)
    kept = np.flatnonzero(weight > 0.0)
    weight = weight[kept]
    return BinSums(weight, squared[kept], y_sum[kept] / weight, p_sum[kept] / weight, kept)
