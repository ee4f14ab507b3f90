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

__all__ = ["LabelledCell", "Slope", "own_slope", "rectified_mean", "shrunken_slopes"]


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
    if len(z) < 3 or sxx <= 1e-12 * max(float(c.sum()), 1e-300):
        return Slope(0.0, np.inf, 0.0, 0.0)
    value = sxy / sxx
    residual = r - value * z
    correction = len(z) / (len(z) - 2.0)
    return Slope(
        value, correction * float((c * z * residual) @ (c * z * residual)) / sxx**2, sxx, sxy
    )


def shrunken_slopes(slopes: list[Slope]) -> FloatArray:
    """Each cell's slope shrunk to the pooled one, by how well it is known.

    ``(s^2 b + v b_pool) / (s^2 + v)`` with v the variance of b and s = 0.15: with many labels a
    cell keeps its own slope, with few it shares.
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
    prediction: FloatArray,
    row_weight: FloatArray | None,
    labelled: IntArray,
    cell: LabelledCell,
    slope: float,
) -> tuple[float, FloatArray]:
    r"""Estimate and per-row influence of one cell.

    .. math:: \psi_i = u_i \lambda (f_i - \bar f) + L_i w_i (e_i - \bar e) / \sqrt{1 - h_i},
              \quad e = y - \lambda f

    The leverage :math:`h_i` (of the row in the weighted mean and in the slope) makes the sum of
    squares unbiased with few labels (HC2; MacKinnon & White 1985).
    """
    n = len(prediction)
    f_mean = float(prediction.mean()) if row_weight is None else float(row_weight @ prediction)
    influence = prediction - f_mean
    influence *= slope / n if row_weight is None else slope * row_weight
    error = cell.label - slope * cell.prediction
    error_mean = float(cell.weight @ error)
    z, _ = _centred(cell)
    spread = float(cell.slope_weight @ z**2)
    leverage = cell.weight + (cell.slope_weight * z**2 / spread if spread > 0 else 0.0)
    inflation = 1.0 / np.sqrt(1.0 - np.minimum(leverage, _MAX_LEVERAGE))
    influence[labelled] += cell.weight * (error - error_mean) * inflation
    return slope * f_mean + error_mean, influence


def _centred(cell: LabelledCell) -> tuple[FloatArray, FloatArray]:
    return (
        cell.prediction - float(cell.weight @ cell.prediction),
        cell.label - float(cell.weight @ cell.label),
    )
