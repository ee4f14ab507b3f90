"""Draws of a metric for a perfectly calibrated model with the same predictions.

Independent rows: outcomes are drawn from the predicted probabilities. Clusters: how outcomes depend
within a cluster is not known, so the observed residuals are kept and every cluster's are given one
random sign, which leaves their mean zero and their dependence as it is (a wild bootstrap). Both
give new residuals, of which every metric here is a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cje.checks import check_choice, check_whole_number
from cje.classification import scores
from cje.classification._arrays import row_shares
from cje.classification.clusters import cluster_sums
from cje.classification.rows import Rows
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.binning import equal_mass_edges, equal_width_bins

__all__ = ["class_wise_draws", "mean_loss_draws", "residual_draws"]

Statistic = Callable[[FloatArray], float]
_BLOCK_CELLS = 4_000_000  # numbers in one block of drawn classes

Reduce = Callable[[FloatArray, FloatArray], float]


def _order(rows: Rows) -> IntArray:
    """The rows sorted by every input of a metric except the outcome."""
    if rows.p.ndim == 1:
        keys: list[FloatArray] = [rows.p]
    else:  # one number per distribution; different ones do not share it
        irrational = np.sqrt(np.arange(2.0, rows.p.shape[1] + 2.0)) % 1.0
        keys = [rows.p @ irrational]
    if rows.label is not None:
        keys.append(rows.label.astype(np.float64))
    if rows.w is not None:
        keys.append(rows.w)
    return np.lexsort(tuple(keys[::-1]))


def residual_draws(
    statistic: Statistic, rows: Rows, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """The statistic of drawn residuals, for scores of a 0/1 outcome or of the announced label."""
    draws = np.empty(n_draws)
    if rows.groups is not None:
        n_groups = int(rows.groups.max()) + 1
        for i in range(n_draws):
            draws[i] = statistic(_signs(n_groups, rng)[rows.groups] * rows.residual)
        return draws
    order = _order(rows)
    point = np.empty(len(rows))
    for i in range(n_draws):
        point[order] = rng.random(len(rows))
        draws[i] = statistic((point < rows.p) - rows.p)
    return draws


def _signs(n: int, rng: np.random.Generator) -> FloatArray:
    return np.asarray(rng.integers(0, 2, n) * 2.0 - 1.0)


def mean_loss_draws(
    losses: Callable[[IntArray, FloatArray], FloatArray],
    expected: Callable[[FloatArray], FloatArray],
    rows: Rows,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Weighted mean of a loss of drawn classes; with clusters, of signed sums of its surprise."""
    share = row_shares(len(rows), rows.w)
    if rows.groups is not None:
        usual = expected(rows.p)
        surprise = cluster_sums(share * (losses(rows.y, rows.p) - usual), rows.groups)
        signs = rng.integers(0, 2, (n_draws, len(surprise))) * 2.0 - 1.0
        return np.asarray(np.maximum(float(share @ usual) + signs @ surprise, 0.0))
    draws = np.zeros(n_draws)
    for part, codes in _drawn_classes(rows, n_draws, rng):
        p, mass = rows.p[part], share[part]
        for i in range(n_draws):
            draws[i] += mass @ losses(codes[:, i], p)
    return draws


def squared_loss_draws(rows: Rows, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Multiclass Brier scores of drawn classes."""
    return mean_loss_draws(
        scores.squared_losses, scores.expected_squared_losses, rows, n_draws, rng
    )


def log_loss_draws(rows: Rows, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Log losses of drawn classes."""
    return mean_loss_draws(scores.log_losses, scores.expected_log_losses, rows, n_draws, rng)


def _drawn_classes(
    rows: Rows, n_draws: int, rng: np.random.Generator
) -> Iterator[tuple[slice, IntArray]]:
    """Blocks of rows with `n_draws` classes for each, drawn from its distribution."""
    n, k = rows.p.shape
    rank: IntArray = np.empty(n, dtype=np.int64)
    rank[_order(rows)] = np.arange(n)
    streams = np.asarray(rng.integers(0, 2**63, n))[
        rank
    ]  # a row's draws belong to its place in the order
    size = max(1, _BLOCK_CELLS // max(k, n_draws))
    for start in range(0, n, size):
        part = slice(start, min(start + size, n))
        cumulated = np.cumsum(rows.p[part], axis=1)
        cumulated /= cumulated[:, -1:]
        codes = np.empty((len(cumulated), n_draws), dtype=np.int64)
        points = _uniforms(streams[part], n_draws)
        for i, (row, point) in enumerate(zip(cumulated, points, strict=True)):
            codes[i] = row.searchsorted(point, side="right")
        yield part, np.minimum(codes, k - 1)


def _uniforms(streams: IntArray, n: int) -> FloatArray:
    """`n` uniform numbers for each stream: SplitMix64, a few operations per number."""
    steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = streams.astype(np.uint64)[:, None] + steps  # arrays of whole numbers wrap around
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)) * 2.0**-53)


def class_wise_draws(
    reduce: Reduce,
    rows: Rows,
    n_draws: int,
    rng: np.random.Generator,
    n_bins: int = 15,
    strategy: str = "uniform",
) -> FloatArray:
    """``reduce(gap sums, weights)`` over the (class, bin) cells of drawn classes.

    A drawn class changes the count of one cell; the sums of the scores do not change. So a draw
    needs the drawn class's own score and bin, and no pass over the others.
    """
    check_whole_number("n_bins", n_bins)
    check_choice("binning strategy", strategy, ("uniform", "quantile"))
    n, k = rows.p.shape
    w = np.ones(n) if rows.w is None else rows.w
    edges = None
    if strategy == "quantile":
        edges = [equal_mass_edges(np.ascontiguousarray(rows.p[:, j]), n_bins, rows.w)
                 for j in range(k)]  # fmt: skip
    if rows.groups is not None:
        return _signed_class_wise(reduce, rows, n_draws, rng, n_bins, edges)
    weight, expected = _fixed_sums(rows.p, w, n_bins, edges)
    found = np.zeros((n_draws, k * n_bins))
    for part, codes in _drawn_classes(rows, n_draws, rng):
        score = np.take_along_axis(rows.p[part], codes, axis=1)
        cells = codes * n_bins + _bins_of(score, codes, n_bins, edges)
        mass = w[part]
        for i in range(n_draws):
            found[i] += np.bincount(cells[:, i], weights=mass, minlength=k * n_bins)
    return np.array([reduce(row - expected, weight) for row in found])


def _bins_of(
    score: FloatArray, codes: IntArray, n_bins: int, edges: list[FloatArray] | None
) -> IntArray:
    if edges is None:
        return np.asarray(equal_width_bins(score.ravel(), n_bins)).reshape(score.shape)
    bins = np.zeros(score.shape, dtype=np.int64)
    for j in np.unique(codes):
        here = codes == j
        bins[here] = np.searchsorted(edges[j], score[here], side="right")
    return bins


def _fixed_sums(
    p: FloatArray, w: FloatArray, n_bins: int, edges: list[FloatArray] | None
) -> tuple[FloatArray, FloatArray]:
    """Weight and summed score of each (class, bin) cell."""
    weight, total = [], []
    for j in range(p.shape[1]):
        score = np.ascontiguousarray(p[:, j])
        if edges is None:
            bins = equal_width_bins(score, n_bins)
        else:
            bins = np.searchsorted(edges[j], score, side="right")
        weight.append(np.bincount(bins, weights=w, minlength=n_bins))
        total.append(np.bincount(bins, weights=w * score, minlength=n_bins))
    return np.concatenate(weight), np.concatenate(total)


def _signed_class_wise(
    reduce: Reduce,
    rows: Rows,
    n_draws: int,
    rng: np.random.Generator,
    n_bins: int,
    edges: list[FloatArray] | None,
) -> FloatArray:
    """The same with the observed residuals, one random sign per cluster."""
    assert rows.groups is not None
    n, k = rows.p.shape
    w = np.ones(n) if rows.w is None else rows.w
    signs = rng.integers(0, 2, (int(rows.groups.max()) + 1, n_draws)) * 2.0 - 1.0
    weight, _ = _fixed_sums(rows.p, w, n_bins, edges)
    found = np.zeros((n_draws, k * n_bins))
    for j in range(k):
        score = np.ascontiguousarray(rows.p[:, j])
        bins = _bins_of(score, np.full(n, j), n_bins, edges)
        terms = w * ((rows.y == j) - score)
        pair, cluster = np.unique(rows.groups * n_bins + bins, return_inverse=True)
        sums = np.bincount(cluster, weights=terms)
        for b in range(n_bins):
            here = np.flatnonzero(pair % n_bins == b)
            found[:, j * n_bins + b] = sums[here] @ signs[pair[here] // n_bins]
    return np.array([reduce(row, weight) for row in found])
