"""Bootstraps: multipliers on an influence matrix, and whole clusters resampled for a refit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["cluster_bootstrap", "multiplier_draws"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Multipliers are drawn in blocks of clusters: memory stays bounded at 10^6 clusters.
_BLOCK_CELLS = 4_000_000


def multiplier_draws(influence: FloatArray, *, n_draws: int, seed: int) -> FloatArray:
    r"""(n_draws, K) draws of :math:`\sum_g \xi_g \psi_g` with Mammen's two-point multipliers.

    Mammen's :math:`\xi` has mean 0 and second and third moments 1, so that the draws keep the
    variance and the skewness of the estimator. The whole bootstrap is one matrix product
    (in blocks of clusters, in a fixed order).

    References
    ----------
    Mammen (1993), "Bootstrap and wild bootstrap for high dimensional linear models".
    """
    g, k = influence.shape
    scale = np.sqrt(g / (g - 1.0)) if g > 1 else 1.0
    root5 = np.sqrt(5.0)
    low, high, p_low = (1.0 - root5) / 2.0, (1.0 + root5) / 2.0, (root5 + 1.0) / (2.0 * root5)
    rng = np.random.default_rng(seed)
    draws = np.zeros((n_draws, k))
    step = max(1, _BLOCK_CELLS // max(n_draws, 1))
    for start in range(0, g, step):
        block = influence[start : start + step]
        chosen = rng.random((n_draws, len(block)), dtype=np.float32) < p_low
        # xi = high + (low - high) * chosen: the product runs on the 0/1 matrix alone
        draws += high * block.sum(axis=0) + (low - high) * (chosen.astype(np.float64) @ block)
    return scale * draws


def cluster_bootstrap(
    totals: FloatArray,
    refit: Callable[[FloatArray], FloatArray],
    *,
    n_draws: int,
    seed: int,
) -> FloatArray:
    """Refitting cluster bootstrap in O(distinct cells) per draw.

    Parameters
    ----------
    totals : array (G, C)
        For each cluster its contribution to C cell totals: label counts, label sums and row
        counts per (policy, distinct score). Everything a refit needs must be such a total.
    refit : callable
        Maps (B, C) resampled totals of B draws to (B, K) estimates, all draws at once.
    n_draws, seed : int
        Number of draws; the same seed gives the same draws.

    Returns
    -------
    array (n_draws, K)

    Notes
    -----
    G clusters are drawn with replacement; a draw is a vector of multiplicities, and the totals of
    all draws are one product of the multiplicity matrix with `totals`. Single precision holds
    the multiplicities exactly and the sums to 1e-7, far below bootstrap noise.
    """
    g = len(totals)
    rng = np.random.default_rng(seed)
    cells = np.ascontiguousarray(totals, dtype=np.float32)
    step = max(1, _BLOCK_CELLS // max(g, 1))
    results = []
    for start in range(0, n_draws, step):
        size = min(step, n_draws - start)
        picks = rng.integers(0, g, (size, g), dtype=np.int32)
        picks += np.arange(size, dtype=np.int32)[:, None] * np.int32(g)
        counts = np.bincount(picks.ravel(), minlength=size * g).reshape(size, g)
        results.append(refit((counts.astype(np.float32) @ cells).astype(np.float64)))
    return np.concatenate(results)
