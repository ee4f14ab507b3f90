"""Assigning probabilities to bins, and summing columns by bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["bin_sums", "equal_mass_bins", "equal_mass_edges", "equal_width_bins", "mass_bins"]

_FEW_EDGES = 64  # up to here, counting around each edge beats a full sort
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
    return np.searchsorted(equal_mass_edges(values, n_bins), values, side="right")


def equal_mass_edges(p: FloatArray, n_bins: int, weights: FloatArray | None = None) -> FloatArray:
    """Smallest value of each bin but the first, by the rule of `equal_mass_bins`.

    A bin is the number of edges at or below a value. An edge may repeat: the bin between is then
    empty. A partial sort finds the edges in less time than a full one.

    Parameters
    ----------
    p : array (n,)
    n_bins : int
    weights : array (n,), optional
        The bins then hold equal weight, and a weight of 2 counts as the row twice.

    Examples
    --------
    >>> equal_mass_edges(np.array([0.9, 0.1, 0.5, 0.3]), 2).tolist()
    [0.5]
    """
    if weights is not None:
        return _weighted_edges(p, n_bins, weights)
    n = len(p)
    if n_bins == 1 or n == 0:
        return np.full(n_bins - 1, np.inf)
    share = np.arange(1, n_bins) * n  # in units of 1 / n_bins rows
    rank = np.minimum(-(-share // n_bins), n - 1)
    value, below, on = _at_ranks(p, rank)
    low = (2 * below + on - 1) * n_bins < 2 * share
    return np.where(low, np.nextafter(value, np.inf), value)


def _at_ranks(p: FloatArray, rank: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The values of the given ranks, and how many rows lie below and on each."""
    if len(rank) > _FEW_EDGES:
        ordered = np.sort(p)
        value = ordered[rank]
        below = np.searchsorted(ordered, value, side="left")
        return value, below, np.searchsorted(ordered, value, side="right") - below
    value = np.partition(p, np.unique(rank))[rank]
    below, on = np.zeros((2, len(rank)), dtype=np.int64)
    for start in range(0, len(p), _BLOCK):
        block = p[start : start + _BLOCK]
        below += [np.count_nonzero(block < v) for v in value]
        on += [np.count_nonzero(block == v) for v in value]
    return value, below, on


def _weighted_edges(p: FloatArray, n_bins: int, weights: FloatArray) -> FloatArray:
    order = np.argsort(p)
    value = p[order]
    first = np.flatnonzero(np.diff(value, prepend=-np.inf))
    bins = mass_bins(np.add.reduceat(weights[order], first), n_bins)
    at = np.searchsorted(bins, np.arange(1, n_bins), side="left")
    return np.append(value[first], np.inf)[at]


def mass_bins(mass: FloatArray, n_bins: int) -> IntArray:
    """Bin of each distinct value, given its mass in rising order: each goes where its middle goes.

    Examples
    --------
    >>> mass_bins(np.array([1.0, 1.0, 4.0]), 2).tolist()
    [0, 0, 1]
    """
    middle = np.cumsum(mass) - mass + np.maximum(mass - 1.0, 0.0) / 2.0
    # The slack keeps whole numbers of rows whole, whatever the rounding of the sums.
    bins = np.floor(middle * n_bins / mass.sum() + 1e-9).astype(np.int64)
    return np.asarray(np.minimum(bins, n_bins - 1))


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
