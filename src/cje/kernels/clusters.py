"""Sums and means of rows by cluster."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.kernels.arrays import FloatArray

__all__ = ["cluster_means", "cluster_sums"]


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


def _sums(column: FloatArray, codes: NDArray[np.integer[Any]], n: int) -> FloatArray:
    # NumPy's type stubs promise integers whatever the weights.
    return cast(FloatArray, np.bincount(codes, weights=column, minlength=n))
