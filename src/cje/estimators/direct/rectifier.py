"""The power-tuned rectified mean: pure functions on the rows of one policy (or one cell).

theta = sum_i u_i lambda f_i + sum_L w_i (y_i - lambda f_i), with row weights u, and label weights
w proportional to u / pi on the labelled rows, both summing to one. lambda = 0 is the mean of
the labels, lambda = 1 is AIPW with prediction f, and the least-squares lambda is PPI++ (whose
factor for disjoint samples vanishes: the labelled rows are among the rows).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = [
    "LabelledCell",
    "Rectified",
    "Slope",
    "effective_trials",
    "own_slope",
    "rectified_mean",
    "shrunken_slopes",
]


# How far, in prior standard deviations of one, policies' slopes lie from the common one. The slope
# is free of units (prediction and label share a scale); 0.15 was the best of 0.1-0.3 on the Arena.
_SLOPE_SPREAD = 0.15
_MAX_LEVERAGE = 0.9


class LabelledCell(NamedTuple):
    """The labelled rows of one cell."""

    prediction: FloatArray
    label: FloatArray
    weight: FloatArray  # sums to one
    slope_weight: FloatArray  # variance each squared residual carries
    cluster: IntArray  # 0 .. m - 1: the labelled cluster of each label

    @property
    def n_clusters(self) -> int:
        """Labelled clusters: those from which the labels' part of the variance is estimated."""
        return int(self.cluster.max(initial=-1)) + 1

    def by_cluster(self, values: FloatArray) -> FloatArray:
        """Sums of `values` over the labels of each cluster."""
        return cluster_sums(values, self.cluster, self.n_clusters)


class Rectified(NamedTuple):
    """A rectified mean and the two parts of its influence."""

    value: float
    labels: FloatArray  # the labels' part of the influence, of every label
    slope: float
    centre: float  # mean prediction: a row of weight u and prediction f adds slope u (f - centre)

    def of_rows(self, prediction: FloatArray) -> FloatArray:
        """The rows' part of the influence, per unit of their weight."""
        return self.slope * (prediction - self.centre)


class Slope(NamedTuple):
    """Least-squares slope of label on prediction, with what pooling it needs."""

    value: float
    variance: float
    sxx: float
    sxy: float


def own_slope(cell: LabelledCell) -> Slope:
    """The slope that minimises the estimator's variance in this cell, heteroscedastic variance."""
    z, r = _centred(cell)
    c = cell.slope_weight
    sxx, sxy = float(c @ z**2), float(c @ (z * r))
    m = cell.n_clusters
    if m < 3 or sxx <= 1e-12 * max(float(c.sum()), 1e-300):
        return Slope(0.0, np.inf, 0.0, 0.0)
    value = sxy / sxx
    score = cell.by_cluster(c * z * (r - value * z))
    return Slope(value, m / (m - 2.0) * float(score @ score) / sxx**2, sxx, sxy)


def shrunken_slopes(slopes: list[Slope]) -> FloatArray:
    """Each cell's slope, shrunk to the pooled one according to its variance.

    ``(s^2 b + v b_pool) / (s^2 + v)`` with v the variance of b and s = 0.15: with many labels a
    cell keeps its own slope, with few it gets nearly the pooled one.
    """
    sxx, sxy = sum(s.sxx for s in slopes), sum(s.sxy for s in slopes)
    pooled = sxy / sxx if sxx > 0 else 0.0
    prior = _SLOPE_SPREAD**2
    return np.array(
        [
            (prior * s.value + s.variance * pooled) / (prior + s.variance)
            if np.isfinite(s.variance)
            else pooled
            for s in slopes
        ]
    )


def rectified_mean(
    centre: float, cell: LabelledCell, slope: float, *, fitted_here: bool = True
) -> Rectified:
    r"""Estimate and influence of one cell whose rows have the mean prediction `centre`.

    .. math:: \psi_i = u_i \lambda (f_i - \bar f) + L_i w_i (e_i - \bar e) / \sqrt{1 - h_{g(i)}},
              \quad e = y - \lambda f

    The leverage :math:`h_g` of the labelled cluster of row i, for an error that its labels share
    (in the weighted mean, and in the slope where that was `fitted_here`), makes the sum of squares
    unbiased with few labelled clusters (HC2; MacKinnon & White 1985; Bell & McCaffrey 2002).
    """
    error = cell.label - slope * cell.prediction
    error_mean = float(cell.weight @ error)
    z, _ = _centred(cell)
    spread = float(cell.slope_weight @ z**2)
    leverage = cell.by_cluster(cell.weight)
    if fitted_here and spread > 0:
        c = cell.by_cluster(cell.slope_weight)
        pull = cell.by_cluster(cell.slope_weight * z)
        leverage += pull**2 / np.where(c > 0, c, 1.0) / spread
    inflation = (1.0 / np.sqrt(1.0 - np.minimum(leverage, _MAX_LEVERAGE)))[cell.cluster]
    labels = cell.weight * (error - error_mean) * inflation
    return Rectified(slope * centre + error_mean, labels, slope, centre)


def effective_trials(
    whole: FloatArray, rest: float, rows_per_label: float, cell: LabelledCell
) -> float:
    r"""Number of independent binary labels with the same variance; NaN where labels are not binary.

    :math:`n^* = \frac{\bar y (1 - \bar y)}{V_0} \cdot \frac{V_0}{V}`: the effective number of
    labels under their design (at most their number; where all are equal, Kish's number of
    clusters), times the gain of the prediction, at most the rows over the labels.

    Parameters
    ----------
    whole : array (m,)
        Influence of every labelled row.
    rest : float
        Sum of the squared influences of the other rows.
    rows_per_label : float
    cell : LabelledCell
    """
    if not ((cell.label == 0.0) | (cell.label == 1.0)).all():
        return float("nan")
    mean = float(cell.weight @ cell.label)
    shares = cell.by_cluster(cell.weight)
    if np.ptp(cell.label) == 0.0:
        return 1.0 / float(shares @ shares)
    alone = cell.by_cluster(cell.weight * (cell.label - mean)) / np.sqrt(1.0 - shares)
    variance = float(alone @ alone)
    labels = min(mean * (1.0 - mean) / variance + 1.0, float(len(cell.label)))
    pieces = cell.by_cluster(whole)
    saved = variance / (float(pieces @ pieces) + rest)
    return labels * min(saved, rows_per_label)


def _centred(cell: LabelledCell) -> tuple[FloatArray, FloatArray]:
    return (
        cell.prediction - float(cell.weight @ cell.prediction),
        cell.label - float(cell.weight @ cell.label),
    )
