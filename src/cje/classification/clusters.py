r"""Rows that are not independent: design effects of cells, and variances of sums over clusters.

Rows of one prompt, patient or session form a cluster; clusters are independent of each other. With
:math:`c_i` the row's share of the weight times its residual, the variance of a sum over a cell is
estimated by :math:`\frac{G}{G-1}\sum_g (\sum_{i \in g} c_i)^2` instead of :math:`\sum_i c_i^2`; the
ratio of the two is the cell's design effect, by which its effective number of rows is divided.

References
----------
Kish (1965), "Survey sampling". Liang and Zeger (1986), Biometrika 73, 13-22.
"""

from __future__ import annotations

import numpy as np

from cje.classification._arrays import row_shares
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["cluster_sums", "design_effect", "design_effects", "path_sd", "sum_variance"]

# Weight, in clusters, of the pooled design effect towards which that of a cell is shrunk.
_PRIOR_CLUSTERS = 10.0


def cluster_sums(terms: FloatArray, groups: IntArray | None) -> FloatArray:
    """Sum of the terms of each cluster; without groups every row is its own."""
    if groups is None:
        return terms
    return np.bincount(groups, weights=terms).astype(np.float64)


def sum_variance(
    terms: FloatArray, w: FloatArray | None, groups: IntArray | None
) -> tuple[float, float]:
    """Variance of the weighted mean of `terms` and its degrees of freedom, clusters minus one.

    Without groups the degrees of freedom are Kish's effective number of rows less one.
    """
    share = row_shares(len(terms), w)
    moved = cluster_sums(share * (terms - float(share @ terms)), groups)
    if groups is None:
        return float(moved @ moved), 1.0 / float(share @ share) - 1.0
    mass = cluster_sums(share, groups)
    effective = 1.0 / float(mass @ mass)
    return float(moved @ moved) * _small_sample(len(moved)), effective - 1.0


def _small_sample(n_clusters: int) -> float:
    return n_clusters / (n_clusters - 1.0) if n_clusters > 1 else 1.0


def design_effects(
    residual: FloatArray, w: FloatArray | None, cells: IntArray, n_cells: int, groups: IntArray
) -> FloatArray:
    """Design effect of each cell, at least 1, shrunk towards that of all cells together."""
    terms = residual if w is None else w * residual
    plain = np.bincount(cells, weights=terms**2, minlength=n_cells).astype(np.float64)
    pair, cluster = np.unique(groups * n_cells + cells, return_inverse=True)
    sums = np.bincount(cluster, weights=terms)
    robust = np.asarray(np.bincount(pair % n_cells, weights=sums**2, minlength=n_cells), float)
    robust *= _small_sample(int(groups.max()) + 1)
    count = np.bincount(pair % n_cells, minlength=n_cells)
    pooled = float(robust.sum() / plain.sum()) if plain.sum() > 0.0 else 1.0
    own = np.divide(robust, plain, out=np.full(n_cells, pooled), where=plain > 0.0)
    steadied = (count * own + _PRIOR_CLUSTERS * pooled) / (count + _PRIOR_CLUSTERS)
    return np.asarray(np.maximum(steadied, 1.0))


def design_effect(residual: FloatArray, w: FloatArray | None, groups: IntArray | None) -> float:
    """Design effect of the sum of all residuals, at least 1."""
    if groups is None:
        return 1.0
    one = np.zeros(len(residual), dtype=np.int64)
    return float(design_effects(residual, w, one, 1, groups)[0])


def path_sd(terms: FloatArray, groups: IntArray | None) -> float:
    r"""Largest standard deviation along the path of cumulated `terms` (in path order).

    A cluster's contribution so far is :math:`c_g`; adding a row changes :math:`\sum_g c_g^2` by
    :math:`2 c_g e + e^2`.
    """
    if groups is None:
        return float(np.sqrt(terms @ terms))
    order = np.argsort(groups, kind="stable")
    sorted_terms, sorted_groups = terms[order], groups[order]
    running = np.cumsum(sorted_terms)
    first = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    offset = (running - sorted_terms)[first]
    before = running - sorted_terms - np.repeat(offset, np.diff(np.append(first, len(terms))))
    change = np.empty_like(terms)
    change[order] = 2.0 * before * sorted_terms + sorted_terms**2
    variance = float(np.cumsum(change).max()) * _small_sample(int(groups.max()) + 1)
    return float(np.sqrt(max(variance, 0.0)))
