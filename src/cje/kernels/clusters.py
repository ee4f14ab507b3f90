"""Sums and means of rows by cluster, and clusters numbered without gaps."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["cluster_means", "cluster_sums", "count_distinct", "renumbered"]

_SPARSE = 64  # numbers per row beyond which sorting is cheaper than a table of all numbers


def cluster_sums(values: ArrayLike, codes: ArrayLike, n_clusters: int) -> FloatArray:
    """Sum the rows of each cluster.

    Parameters
    ----------
    values : array_like, shape (n,) or (n, K)
    codes : array_like of int, shape (n,)
        Cluster of each row, in ``0 .. n_clusters - 1``.
    n_clusters : int

    Returns
    -------
    ndarray, shape (n_clusters,) or (n_clusters, K)
        Zero for a cluster without rows.

    Examples
    --------
    >>> cluster_sums([1.0, 2.0, 4.0], [1, 0, 1], 3).tolist()
    [2.0, 5.0, 0.0]
    """
    rows = np.asarray(values, dtype=np.float64)
    index = np.asarray(codes)
    if rows.ndim == 1:
        return _sums(rows, index, n_clusters)
    sums = np.empty((n_clusters, rows.shape[1]))
    for k in range(rows.shape[1]):
        sums[:, k] = _sums(rows[:, k], index, n_clusters)
    return sums


def cluster_means(values: ArrayLike, codes: ArrayLike, n_clusters: int) -> FloatArray:
    """Mean of the rows of each cluster; NaN for a cluster without rows.

    Examples
    --------
    >>> cluster_means([1.0, 2.0, 4.0], [1, 0, 1], 3).tolist()
    [2.0, 2.5, nan]
    """
    index = np.asarray(codes)
    count = np.bincount(index, minlength=n_clusters)
    total = _sums(np.asarray(values, dtype=np.float64), index, n_clusters)
    means = np.full(n_clusters, np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means


def count_distinct(codes: ArrayLike) -> int:
    """How many clusters have a row.

    Examples
    --------
    >>> count_distinct([7, 3, 7])
    2
    """
    index = np.asarray(codes)
    used = _used(index)
    return len(np.unique(index)) if used is None else int(np.count_nonzero(used))


def renumbered(codes: ArrayLike) -> tuple[IntArray, int]:
    """The clusters numbered 0, 1, ... in their order, without gaps, and how many there are.

    Equal to ``np.unique(codes, return_inverse=True)[1]``, by a table instead of a sort where the
    numbers are small.

    Examples
    --------
    >>> found, n = renumbered([7, 3, 7])
    >>> found.tolist(), n
    ([1, 0, 1], 2)
    """
    index = np.asarray(codes)
    used = _used(index)
    if used is None:
        distinct, inverse = np.unique(index, return_inverse=True)
        return inverse, len(distinct)
    n = int(np.count_nonzero(used))
    if n == len(used):
        return index, n
    return (np.cumsum(used) - 1)[index], n


def _used(codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_] | None:
    """Which of the numbers up to the largest occur; None where a table of them would be waste."""
    if not codes.size or codes.min() < 0 or (largest := int(codes.max())) > _SPARSE * codes.size:
        return None
    used = np.zeros(largest + 1, dtype=bool)
    used[codes] = True
    return used


def _sums(column: FloatArray, codes: NDArray[np.integer[Any]], n: int) -> FloatArray:
    # NumPy's type stubs promise integers whatever the weights.
    return cast(FloatArray, np.bincount(codes, weights=column, minlength=n))
