"""The empirical distribution function as a rank transform."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray
from cje.kernels.isotonic import isotonic_predict, pool_ties

__all__ = ["ecdf_fit", "ecdf_predict", "mid_ranks"]


def ecdf_fit(x: ArrayLike, w: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
    """Mid-rank empirical distribution function, as knots.

    At a distinct value ``v`` the rank is ``(W(x < v) + W(x = v) / 2) / W``, so ranks lie inside
    (0, 1) and their weighted mean is one half.

    Returns
    -------
    knots, ranks : ndarray
        Distinct values, increasing, and the rank of each.

    Examples
    --------
    >>> knots, ranks = ecdf_fit([3.0, 1.0, 3.0, 2.0])
    >>> knots.tolist(), ranks.tolist()
    ([1.0, 2.0, 3.0], [0.125, 0.375, 0.75])
    """
    values = np.asarray(x, dtype=np.float64)
    knots, _, weight, _ = pool_ties(values, values, w)
    reached = np.cumsum(weight)
    return knots, (reached - 0.5 * weight) / reached[-1]


def ecdf_predict(knots: ArrayLike, ranks: ArrayLike, x: ArrayLike) -> FloatArray:
    """Rank of new values: linear between the knots, constant outside; elementwise.

    Examples
    --------
    >>> ecdf_predict([1.0, 2.0], [0.25, 0.75], [0.0, 1.5, 9.0]).tolist()
    [0.25, 0.5, 0.75]
    """
    return isotonic_predict(knots, ranks, x)


def mid_ranks(x: ArrayLike) -> FloatArray:
    """Rank of every value, from one; equal values share the mean of theirs.

    Examples
    --------
    >>> mid_ranks([3.0, 1.0, 3.0, 2.0]).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    values = np.asarray(x, dtype=np.float64)
    order = np.argsort(values)
    ordered = values.take(order)
    rank = np.arange(1.0, len(values) + 1.0)
    new = ordered[1:] != ordered[:-1]
    if not new.all():
        ends = np.append(np.flatnonzero(new) + 1, len(values))
        counts = np.diff(ends, prepend=0)
        rank = np.repeat(ends - (counts - 1) / 2.0, counts)
    out = np.empty(len(values))
    out[order] = rank
    return out
