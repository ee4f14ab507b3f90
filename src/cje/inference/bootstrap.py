"""Bootstraps: multipliers on an influence matrix, and whole clusters resampled for a refit."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import factorial

import numpy as np
from numpy.typing import NDArray

from cje.checks import check_seed
from cje.kernels.arrays import FloatArray

__all__ = ["cluster_bootstrap", "multiplier_draws"]


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
    rng = check_seed(seed)
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
    The Poisson bootstrap: each draw takes each cluster a Poisson(1) number of times, which equals
    drawing G clusters with replacement except for the total, which a statistic of means does not
    use. The totals of all draws are one product of `totals` with the matrix of these
    multiplicities; a cluster touches few cells, so the product is sparse. Single precision holds
    the multiplicities exactly and the sums to 1e-7, far below bootstrap noise.

    References
    ----------
    Hanley & MacGibbon (2006), "Creating non-parametric bootstrap samples using Poisson
    frequencies", Computer Methods and Programs in Biomedicine 83, 57-62.
    """
    from scipy.sparse import csr_array

    g = len(totals)
    rng = check_seed(seed)
    cells = csr_array(np.asarray(totals, dtype=np.float32).T)
    step = max(1, _BLOCK_CELLS // max(g, 1))
    results = []
    for start in range(0, n_draws, step):
        counts = _multiplicities(rng, g, min(step, n_draws - start))
        results.append(refit(np.asarray((cells @ counts).T, dtype=np.float64)))
    return np.concatenate(results)


def _multiplicities(rng: np.random.Generator, g: int, n_draws: int) -> NDArray[np.float32]:
    """(G, n_draws) Poisson(1) numbers, from 16 random bits each (right to 1e-5)."""
    counts = _poisson_table()[rng.integers(0, 1 << 16, (g, n_draws), dtype=np.uint16)]
    if g < 64:  # beyond, an empty draw has probability below 1e-27
        counts[:, ~counts.any(axis=0)] = 1.0
    return counts


@lru_cache(maxsize=1)
def _poisson_table() -> NDArray[np.float32]:
    """Inverse distribution function of Poisson(1) at the 65,536 midpoints of [0, 1]."""
    steps = np.cumsum([np.exp(-1.0) / factorial(k) for k in range(12)])
    middle = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(steps, middle).astype(np.float32)
