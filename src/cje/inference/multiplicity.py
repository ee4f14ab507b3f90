"""Several tests at once: Holm, Benjamini-Hochberg, and the max-t critical value."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.checks import check_seed
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["benjamini_hochberg", "holm", "max_t_critical_value"]


def _checked(p_values: Any) -> FloatArray:
    p = np.asarray(p_values, float)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise CJEError("p-values must be a list of numbers between 0 and 1", value=p_values)
    return p


def holm(p_values: Any) -> FloatArray:
    r"""Holm-adjusted p-values: family-wise error under any dependence.

    :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})` (Holm 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def benjamini_hochberg(p_values: Any) -> FloatArray:
    r"""Benjamini-Hochberg adjusted p-values: false discovery rate under positive dependence.

    :math:`\tilde p_{(i)} = \min_{j \ge i} \min(1, m p_{(j)} / j)` (Benjamini & Hochberg 1995).

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.04, 0.04]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")[::-1]
    stepped = p[order] * len(p) / np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped), 1.0)
    return adjusted


def max_t_critical_value(
    covariance: FloatArray, df: float, *, level: float, n_draws: int, seed: int
) -> float:
    """The `level` quantile of the largest absolute t over correlated quantities.

    Quantities with zero variance are left out. The draws are those of a multiplier bootstrap with
    normal multipliers, whose law given the data is exactly normal with this covariance: drawing it
    from its K x K root costs nothing that grows with the number of clusters. A common chi-square
    factor makes them multivariate t with `df` degrees of freedom.
    """
    se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    keep = se > 0.0
    if not keep.any():
        return 0.0
    correlation = covariance[np.ix_(keep, keep)] / np.outer(se[keep], se[keep])
    eigenvalues, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    rng = check_seed(seed)
    largest = np.abs(rng.standard_normal((n_draws, len(root))) @ root.T).max(axis=1)
    if np.isfinite(df):
        largest /= np.sqrt(rng.chisquare(df, n_draws) / df)
    return float(np.quantile(largest, level))
