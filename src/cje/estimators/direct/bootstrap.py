"""The refitting cluster bootstrap of the direct estimator, on cell totals.

A cell is a (policy, distinct score) pair. Calibration, slope and rectified mean depend on the data
only through each cell's row weight, label weight and weighted label sum, so a bootstrap draw costs
O(cells), whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.direct.label_pool import inverse_propensity
from cje.estimators.rows import draw_weights, require_scores
from cje.inference import cluster_bootstrap
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.binning import equal_mass_bins
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = ["bootstrap_direct", "isotonic_rows"]


_MAX_LEVELS = 100  # finer scores are grouped: a draw costs O(levels)
_BATCH_LEVELS = 48  # up to here the min-max formula beats one pass per draw


@dataclass(frozen=True)
class _Cells:
    """Totals per cluster, and where each column belongs in the (policy, score) grid."""

    totals: FloatArray  # (clusters, rows cells + 2 x label cells)
    row_at: IntArray
    label_at: IntArray
    rectified: NDArray[np.bool_]  # (policies,): has enough labels of its own
    prior: FloatArray  # (scores,): all-data calibration, used where a draw has no label

    def refit(self, totals: FloatArray) -> FloatArray:
        """Estimates (B, K) of B resampled totals: isotonic fit, slope, rectified mean."""
        b, k, d = len(totals), len(self.rectified), len(self.prior)
        n_row, n_label = len(self.row_at), len(self.label_at)
        flat = np.zeros((3, b, k * d))
        flat[0][:, self.row_at] = totals[:, :n_row]
        flat[1][:, self.label_at] = totals[:, n_row : n_row + n_label]
        flat[2][:, self.label_at] = totals[:, n_row + n_label :]
        rows, weight, total = flat.reshape(3, b, k, d)
        f = isotonic_rows(total.sum(axis=1), weight.sum(axis=1), self.prior)[:, :, None]
        row_sum, label_sum = rows.sum(axis=2), weight.sum(axis=2)
        f_rows = _share((rows @ f)[..., 0], row_sum)
        f_labels = _share((weight @ f)[..., 0], label_sum)
        y_mean = _share(total.sum(axis=2), label_sum)
        sxx = (weight @ f**2)[..., 0] - label_sum * f_labels**2
        sxy = (total @ f)[..., 0] - label_sum * f_labels * y_mean
        # single-precision totals: a spread below 1e-6 is rounding
        slope = np.where(sxx > 1e-6 * label_sum, _share(sxy, sxx), 0.0)
        corrected = slope * (f_rows - f_labels) + y_mean
        return np.where(self.rectified & (label_sum > 0), corrected, f_rows)


def bootstrap_direct(
    dataset: Dataset, *, n_draws: int = 2_000, seed: int = 0, min_labels: int = 8
) -> FloatArray:
    """(n_draws, K) bootstrap draws of the policy values, calibration refitted in each.

    Whole clusters (prompts, or what contains them) are resampled, with all their policies and
    draws. Each draw fits the isotonic calibration on its own labels, each policy's least-squares
    slope, and the rectified mean (no cross-fitting: within a draw of repeated rows it would leak).
    Policies with fewer than `min_labels` labelled clusters are borrowed. More than 100 distinct
    scores are grouped into 100 of equal mass. Values are on the label's own scale.
    """
    require_scores(dataset, "the bootstrap")
    cells = _gather(dataset, min_labels)
    draws = cluster_bootstrap(cells.totals, cells.refit, n_draws=n_draws, seed=seed)
    return np.asarray(dataset.oracle_scale.from_unit(draws))


def _gather(data: Dataset, min_labels: int) -> _Cells:
    policy: Codes = data.policy.compact()
    prompt = data.units.compact()
    scores, level = _levels(data.judge_score)
    k, d, g = policy.n_names, len(scores), prompt.n_names
    grid = policy.codes * d + level
    weights = draw_weights(data, policy)
    u = np.ones(len(data)) if weights is None else weights
    labelled = np.flatnonzero(data.is_labelled)
    pairs = np.unique(policy.codes[labelled] * g + prompt.codes[labelled])
    own = np.bincount(pairs // g, minlength=k)  # labelled clusters
    if own.sum() == 0:
        raise CJEError("the bootstrap needs oracle labels", value=0)
    w = u[labelled] * inverse_propensity(data, labelled)
    row_at, row_totals = _cell_totals(grid, prompt.codes, u, g)
    label_at, counts = _cell_totals(grid[labelled], prompt.codes[labelled], w, g)
    _, sums = _cell_totals(
        grid[labelled], prompt.codes[labelled], w * data.oracle_label[labelled], g
    )
    prior = isotonic_predict(
        *isotonic_fit(data.judge_score[labelled], data.oracle_label[labelled], w), scores
    )
    totals = np.hstack([row_totals, counts, sums])
    return _Cells(totals, row_at, label_at, own >= min_labels, prior)


def _levels(scores: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct scores and each row's level; more than `_MAX_LEVELS` become equal-mass groups."""
    distinct, level = np.unique(scores, return_inverse=True)
    if len(distinct) <= _MAX_LEVELS:
        return distinct, level
    _, level = np.unique(equal_mass_bins(scores, _MAX_LEVELS), return_inverse=True)
    counts = np.bincount(level)
    return np.bincount(level, scores) / counts, level


def isotonic_rows(total: FloatArray, weight: FloatArray, prior: FloatArray) -> FloatArray:
    """Isotonic regression of every row of (B, D) weighted sums on the level, all rows at once.

    A level without weight takes the value `prior` as far as its neighbours allow. For few levels
    by the min-max formula, f_i = max over a <= i of min over b >= i of the mean of levels a..b.
    """
    total_weight = weight.sum(axis=1, keepdims=True)
    tiny = 1e-7 * np.where(total_weight > 0, total_weight, 1.0)
    w = weight + tiny
    y = total + tiny * prior
    b, d = w.shape
    if d > _BATCH_LEVELS:
        return np.stack([isotonic_regression(y[i] / w[i], weights=w[i]).x for i in range(b)])
    sums, weights = np.zeros((d + 1, b)), np.zeros((d + 1, b))
    np.cumsum(y.T, axis=0, out=sums[1:])
    np.cumsum(w.T, axis=0, out=weights[1:])
    best = np.full((d, b), -np.inf)
    for a in range(d):
        mean = (sums[a + 1 :] - sums[a]) / (weights[a + 1 :] - weights[a])
        np.minimum.accumulate(mean[::-1], axis=0, out=mean[::-1])
        np.maximum(best[a:], mean, out=best[a:])
    return np.ascontiguousarray(best.T)


def _cell_totals(
    grid: IntArray, cluster: IntArray, weight: FloatArray, n_clusters: int
) -> tuple[IntArray, FloatArray]:
    """Occupied cells, and each cluster's total weight in them."""
    at, column = np.unique(grid, return_inverse=True)
    flat = np.bincount(cluster * len(at) + column, weight, minlength=n_clusters * len(at))
    return at, flat.reshape(n_clusters, len(at)).astype(np.float64)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """part / whole, zero where whole is."""
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole != 0))
