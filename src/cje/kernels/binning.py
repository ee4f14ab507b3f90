"""Assigning probabilities to bins, and summing columns by bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["bin_sums", "equal_mass_bins", "equal_width_bins"]

_BLOCK = 16_384  # rows whose scratch space stays in the second-level cache


def equal_width_bins(p: ArrayLike, n_bins: int) -> IntArray:
    """Bin of each value among `n_bins` equal intervals of [0, 1].

    Bin ``b`` is ``[b / n_bins, (b + 1) / n_bins)`` and the last one also holds 1. The edges are the
    floating-point quotients themselves: 0.29 with 100 bins is in bin 29, where
    ``floor(0.29 * 100)`` says 28.

    Examples
    --------
    >>> equal_width_bins([0.0, 0.29, 0.5, 1.0], 100).tolist()
    [0, 29, 50, 99]
    """
    values = np.asarray(p, dtype=np.float64)
    flat = values.ravel()
    bins = np.empty(flat.shape, dtype=np.int64)
    edge, side = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK]
        size = len(block)
        _bin_block(block, n_bins, edge[:size], side[:size])
        bins[start : start + size] = edge[:size]
    return bins.reshape(values.shape)


def _bin_block(block: FloatArray, n_bins: int, edge: FloatArray, side: FloatArray) -> None:
    """Bins of a block, left in `edge`; `side` is scratch."""
    # A value is in the bin to the right or to the left of its nearest edge, whatever the rounding
    # of the product: the quotient, which is the edge, decides.
    np.multiply(block, n_bins, out=edge)
    np.rint(edge, out=edge)
    np.divide(edge, n_bins, out=side)
    np.subtract(block, side, out=side)
    np.floor(side, out=side)  # 0 at or right of the edge, -1 left of it
    edge += side
    if block.max() >= 1.0:
        np.minimum(edge, n_bins - 1, out=edge)


def equal_mass_bins(p: ArrayLike, n_bins: int) -> IntArray:
    """Bin of each value when every bin is to hold the same number of rows.

    Equal values are never split: a value with ``L`` rows below it and ``c`` rows on it goes where
    its middle rank goes, ``floor((L + (c - 1) / 2) * n_bins / n)``. Without ties, bin sizes differ
    by at most one; with heavy ties some bins stay empty.

    Examples
    --------
    >>> equal_mass_bins([0.9, 0.1, 0.5, 0.3], 2).tolist()
    [1, 0, 1, 0]
    """
    values = np.asarray(p, dtype=np.float64)
    n = len(values)
    order = np.argsort(values)
    ordered = values[order]
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    counts = np.diff(starts, append=n)
    bins = np.empty(n, dtype=np.int64)
    bins[order] = np.repeat((2 * starts + counts - 1) * n_bins // (2 * n), counts)
    return bins


def bin_sums(
    bins: ArrayLike, n_bins: int, *columns: ArrayLike, weights: ArrayLike | None = None
) -> tuple[FloatArray, ...]:
    """Number of rows in each bin, then the sum of each column there.

    Parameters
    ----------
    bins : array_like of int
        Bin of each row, in ``0 .. n_bins - 1``.
    n_bins : int
    *columns : array_like
        Columns to sum.
    weights : array_like, optional
        Row weights: the first result is then the weight in each bin and the sums are weighted.

    Examples
    --------
    >>> count, total = bin_sums([0, 2, 2], 3, [1.0, 2.0, 3.0])
    >>> count.tolist(), total.tolist()
    ([1.0, 0.0, 2.0], [1.0, 0.0, 5.0])
    """
    index = np.asarray(bins)
    if weights is None:
        count = np.bincount(index, minlength=n_bins).astype(np.float64)
        return (count, *(cluster_sums(column, index, n_bins) for column in columns))
    w = np.asarray(weights, dtype=np.float64)
    weighted = (np.asarray(column, dtype=np.float64) * w for column in columns)
    return tuple(cluster_sums(column, index, n_bins) for column in (w, *weighted))
