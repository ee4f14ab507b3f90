r"""Agreement of two raters, or of many, as pure functions on arrays.

Every statistic here is a smooth function of sums over rows, or has an influence function, so that
`cje.diagnostics.clustered` gives each an interval that leaves out one prompt at a time.

References
----------
Cohen (1960), "A coefficient of agreement for nominal scales"; Cohen (1968), "Weighted kappa";
Krippendorff (2004), Content Analysis, 2nd ed., chapter 11; Shrout & Fleiss (1979), "Intraclass
correlations".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    LARGEST,
    bool_array,
    check_choice,
    check_weights,
    finite_array,
    float_array,
    n_rows,
)
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_sums
from cje.kernels.ranks import ecdf_fit

__all__ = [
    "KappaWeights",
    "cohen_kappa",
    "explained_share",
    "krippendorff_alpha",
    "rank_correlation",
    "sensitivity_specificity",
]

KappaWeights = Literal["none", "linear", "quadratic"]
_WEIGHTS = ("none", "linear", "quadratic")
_MOST_LEVELS = 1000


# ---- kappa ----------------------------------------------------------------------------------


def cohen_kappa(
    first: ArrayLike,
    second: ArrayLike,
    *,
    weights: KappaWeights = "none",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Cohen's kappa of two ratings of the same responses.

    :math:`\kappa = 1 - \sum_{jk} d_{jk} O_{jk} / \sum_{jk} d_{jk} E_{jk}`, with O the table of the
    two ratings, E the product of its margins, and :math:`d_{jk}` equal to :math:`[j \ne k]`,
    :math:`|j - k|` or :math:`(j - k)^2`, j and k the positions among the values that occur.

    Raises
    ------
    CJEError
        Both give one and the same value throughout: agreement beyond chance is not defined.

    Examples
    --------
    >>> cohen_kappa([1, 2, 3, 3], [1, 2, 2, 3])
    0.6363636363636364
    """
    check_choice("weights of kappa", weights, _WEIGHTS)
    n = n_rows("first", first)
    a = finite_array("first", first, n=n, largest=LARGEST)
    b = finite_array("second", second, n=n, largest=LARGEST)
    w = check_weights("sample_weight", sample_weight, n)
    cells, levels = kappa_cells(a, b)
    each = np.ones(n) if w is None else w / w.max()
    table = cluster_sums(each, cells, levels**2)
    value = float(kappa_of(table, disagreement(levels, weights)))
    if np.isnan(value):
        raise CJEError("kappa is not defined: both ratings have one value only", value=float(a[0]))
    return value


def kappa_cells(first: FloatArray, second: FloatArray) -> tuple[IntArray, int]:
    """The cell of each pair in the table of ratings, and the number of levels."""
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    levels = len(values)
    if levels > _MOST_LEVELS:
        raise CJEError(
            f"kappa is for at most {_MOST_LEVELS} different ratings", value=levels,
            hint="round them, or use a rank correlation",
        )  # fmt: skip
    return codes[: len(first)] * levels + codes[len(first) :], levels


def disagreement(levels: int, weights: KappaWeights) -> FloatArray:
    """What each cell of the table costs."""
    place = np.arange(levels)
    gap = np.abs(place[:, None] - place)
    power = {"none": 0, "linear": 1, "quadratic": 2}[weights]
    return np.asarray(np.where(gap > 0, gap.astype(np.float64) ** power, 0.0))


def kappa_of(tables: FloatArray, cost: FloatArray) -> FloatArray:
    """Kappa of flattened tables (..., L * L); NaN where it is not defined."""
    levels = len(cost)
    table = tables.reshape(*tables.shape[:-1], levels, levels)
    total = table.sum(axis=(-2, -1))
    expected = np.einsum("...j,...k,jk->...", table.sum(axis=-1), table.sum(axis=-2), cost)
    observed = np.einsum("...jk,jk->...", table, cost) * total
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0.0, 1.0 - observed / expected, np.nan))


# ---- alpha ----------------------------------------------------------------------------------


def krippendorff_alpha(
    ratings: ArrayLike, *, metric: Literal["nominal", "ordinal", "interval"] = "interval"
) -> float:
    r"""Krippendorff's alpha of a table (responses, raters); NaN where a rater gave no rating.

    :math:`\alpha = 1 - D_o / D_e`: the mean difference of two ratings of one response over that of
    any two ratings. Responses with one rating do not count.

    Raises
    ------
    CJEError
        No response has two ratings, or all ratings are equal.

    Examples
    --------
    >>> krippendorff_alpha([[1, 1], [2, 2], [3, 2]])
    0.7058823529411764
    """
    check_choice("metric", metric, ("nominal", "ordinal", "interval"))
    n_rows("ratings", ratings)
    table = float_array("ratings", ratings)
    if table.ndim != 2:
        raise CJEError("ratings must have rows (responses) and columns (raters)", value=table.shape)
    row, _ = np.nonzero(~np.isnan(table))
    value = finite_array("ratings", table[~np.isnan(table)], largest=LARGEST)
    found = long_alpha(row, value, metric)
    if found is None:
        raise CJEError("alpha is not defined: no response has two ratings, or all are equal")
    return found


def long_alpha(
    item: IntArray, value: FloatArray, metric: Literal["nominal", "ordinal", "interval"]
) -> float | None:
    """Alpha of ratings in long form: the response of each rating, and the rating."""
    sums = alpha_sums(item, value, metric)
    if sums is None:
        return None
    found = float(alpha_of(sums[1].sum(axis=0)))
    return None if np.isnan(found) else found


def alpha_sums(
    item: IntArray, value: FloatArray, metric: str = "interval"
) -> tuple[IntArray, FloatArray] | None:
    """The responses with at least two ratings, and each one's part of the sums behind alpha.

    Columns: the number of ratings, what its own pairs differ by, then the sums that the differences
    of all pairs are made of.
    """
    counts = np.bincount(item)
    paired = counts[item] >= 2
    if not paired.any():
        return None
    items, index = np.unique(item[paired], return_inverse=True)
    values, n = value[paired], len(items)
    m = np.bincount(index).astype(np.float64)
    if metric == "nominal":
        _, code = np.unique(values, return_inverse=True)
        table = np.zeros((n, int(code.max()) + 1))
        np.add.at(table, (index, code), 1.0)
        own = (m**2 - (table**2).sum(axis=1)) / (m - 1.0)
        return items, np.column_stack([m, own, table])
    if metric == "ordinal":
        knots, rank = ecdf_fit(values)
        values = rank[np.searchsorted(knots, values)]
    centred = values - values.mean()
    scale = float(np.abs(centred).max()) or 1.0
    v = centred / scale  # alpha has no scale; the squares stay finite
    total, square = np.bincount(index, v), np.bincount(index, v**2)
    own = 2.0 * (m * square - total**2) / (m - 1.0)
    return items, np.column_stack([m, own, total, square])


def alpha_of(sums: FloatArray) -> FloatArray:
    """Alpha from sums (..., 4) of differences, or (..., 2 + levels) of counts."""
    n, own = sums[..., 0], sums[..., 1]
    if sums.shape[-1] == 4:
        every = 2.0 * (n * sums[..., 3] - sums[..., 2] ** 2)
        floor = 1e-12 * n * np.maximum(sums[..., 3], 1e-300)
    else:
        every, floor = n**2 - (sums[..., 2:] ** 2).sum(axis=-1), np.zeros_like(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(every > floor, 1.0 - (n - 1.0) * own / every, np.nan))


# ---- ranks ----------------------------------------------------------------------------------


def rank_correlation(
    first: ArrayLike, second: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Spearman's rank correlation; ties have their mean rank.

    Raises
    ------
    CJEError
        All values of one side are equal.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]), 6)
    0.8
    """
    n = n_rows("first", first)
    a = finite_array("first", first, n=n)
    b = finite_array("second", second, n=n)
    w = check_weights("sample_weight", sample_weight, n)
    found = rank_influence(a, b, np.ones(n) if w is None else w)
    if found is None:
        raise CJEError("a rank correlation needs values that differ on both sides")
    return found[0]


def rank_influence(
    first: FloatArray, second: FloatArray, weight: FloatArray
) -> tuple[float, FloatArray] | None:
    r"""Spearman's correlation and the influence of every row, weighted; None without spread.

    With :math:`F, G` the mid-rank distribution functions and k the mid-rank kernel, row i moves
    :math:`E[(F - \bar F)(G - \bar G)]` through its own product and through every other row's ranks,
    by :math:`E_j[k(x_i, x_j) (G_j - \bar G)]`.
    """
    share = weight / weight.sum()
    ranks, through = [], []
    for values in (first, second):
        knots, rank = ecdf_fit(values, weight)
        place = np.searchsorted(knots, values)
        ranks.append(rank[place])
        through.append(place)
    f, g = ranks[0] - 0.5, ranks[1] - 0.5
    var_f, var_g = float(share @ f**2), float(share @ g**2)
    if min(var_f, var_g) <= 1e-15:
        return None
    cov = float(share @ (f * g))
    rho = cov / np.sqrt(var_f * var_g)
    d_cov = f * g - cov
    d_cov += _kernel(through[0], share * g, f) + _kernel(through[1], share * f, g)
    d_f = f**2 - var_f + 2.0 * _kernel(through[0], share * f, f)
    d_g = g**2 - var_g + 2.0 * _kernel(through[1], share * g, g)
    moved = d_cov / np.sqrt(var_f * var_g) - 0.5 * rho * (d_f / var_f + d_g / var_g)
    return float(np.clip(rho, -1.0, 1.0)), np.asarray(share * moved)


def _kernel(place: IntArray, value: FloatArray, rank: FloatArray) -> FloatArray:
    """Sum over j of (1{x_i < x_j} + 1{x_i = x_j} / 2 - F_j) value_j, for every i."""
    at = np.bincount(place, value)
    above = at.sum() - np.cumsum(at)
    return np.asarray((above + 0.5 * at)[place] - float((rank + 0.5) @ value))


# ---- shares ---------------------------------------------------------------------------------


def sensitivity_specificity(
    truth: ArrayLike, verdict: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> tuple[float, float]:
    """Share of the positives that `verdict` finds, and of the negatives that it leaves.

    Raises
    ------
    CJEError
        All labels are positive, or all are negative.

    Examples
    --------
    >>> sensitivity_specificity([1, 1, 0, 0], [1, 0, 0, 0])
    (0.5, 1.0)
    """
    n = n_rows("truth", truth)
    positive, said = bool_array("truth", truth), bool_array("verdict", verdict)
    if positive.shape != (n,) or said.shape != (n,):
        raise CJEError("truth and verdict must have one value per row", value=said.shape)
    w = check_weights("sample_weight", sample_weight, n)
    weight = np.ones(n) if w is None else w / w.max()
    sensitivity = _share(weight, positive, said)
    specificity = _share(weight, ~positive, ~said)
    if sensitivity is None or specificity is None:
        raise CJEError("sensitivity and specificity need positive and negative labels")
    return sensitivity, specificity


def _share(weight: FloatArray, among: BoolArray, hit: BoolArray) -> float | None:
    total = float(weight[among].sum())
    return float(weight[among & hit].sum()) / total if total > 0.0 else None


def explained_share(
    labels: ArrayLike, predicted: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""R2: :math:`1 - \sum w (y - \hat y)^2 / \sum w (y - \bar y)^2`.

    Raises
    ------
    CJEError
        All labels are equal.

    Examples
    --------
    >>> explained_share([0.0, 1.0], [0.25, 0.75])
    0.75
    """
    n = n_rows("labels", labels)
    y = finite_array("labels", labels, n=n, largest=LARGEST)
    f = finite_array("predicted", predicted, n=n, largest=LARGEST)
    w: Any = check_weights("sample_weight", sample_weight, n)
    w = np.ones(n) if w is None else w / w.max()
    spread = float(w @ (y - np.average(y, weights=w)) ** 2)
    if not spread > 0.0:
        raise CJEError("R2 needs labels that differ")
    return 1.0 - float(w @ (y - f) ** 2) / spread
