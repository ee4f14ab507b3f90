"""Bins of scores and the sums inside them, in blocks small enough for the processor's cache.

The rules are those of `cje.kernels.binning`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cje.checks import check_choice, check_whole_number
from cje.classification._arrays import BLOCK
from cje.classification.clusters import design_effects
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.binning import equal_mass_edges, equal_width_bins

__all__ = ["BinSums", "Strategy", "binner", "cell_sums", "gap_sums", "mean_design_effect"]

Strategy = Literal["uniform", "quantile"]
Binner = Callable[[FloatArray], IntArray]

_MOST_BINS = 1_000_000
_EFFECT_CELLS = 10
_FEW_EDGES = 64  # up to here, comparing with every edge beats a binary search


def binner(p: FloatArray, n_bins: int, strategy: str, w: FloatArray | None) -> Binner:
    """A function from scores to bins: ``"uniform"`` by width, ``"quantile"`` by mass."""
    check_whole_number("n_bins", n_bins, most=_MOST_BINS)
    if check_choice("binning strategy", strategy, ("uniform", "quantile")) == "uniform":
        return lambda block: _uniform(block, n_bins)
    edges = equal_mass_edges(p, n_bins, w)
    return lambda block: _between(block, edges)


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
        Sum of the weights, and of their squares times the cell's design effect.
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
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    cells: IntArray,
    n_cells: int,
    groups: IntArray | None = None,
) -> BinSums:
    """Weights and means of every cell that holds weight.

    With `groups`, the sum of squared weights carries each cell's design effect, and so does every
    effective number of rows.
    """
    if w is None:
        weight = squared = np.bincount(cells, minlength=n_cells).astype(np.float64)
        y_sum, p_sum = _sums(cells, n_cells, y, p)
    else:
        weight, squared, y_sum, p_sum = _sums(cells, n_cells, w, w * w, w * y, w * p)
    if groups is not None:
        squared = squared * design_effects(y - p, w, cells, n_cells, groups)
    kept = np.flatnonzero(weight > 0.0)
    weight = weight[kept]
    return BinSums(weight, squared[kept], y_sum[kept] / weight, p_sum[kept] / weight, kept)


def mean_design_effect(
    y: FloatArray, p: FloatArray, w: FloatArray | None, groups: IntArray | None
) -> float:
    """Mean design effect of ten equal-mass cells by their weight; 1 without groups."""
    if groups is None:
        return 1.0
    cells = binner(p, _EFFECT_CELLS, "quantile", w)(p)
    plain = cell_sums(y, p, w, cells, _EFFECT_CELLS)
    clustered = cell_sums(y, p, w, cells, _EFFECT_CELLS, groups)
    return float(clustered.squared.sum() / plain.squared.sum())
