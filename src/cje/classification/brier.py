r"""Brier score and its CORP decomposition: miscalibration - discrimination + uncertainty.

Let :math:`\hat m` be the isotonic fit of the outcomes on the scores and :math:`\bar y` the base
rate. With :math:`B(\cdot)` the Brier score, :math:`\mathrm{MCB} = B(p) - B(\hat m)`,
:math:`\mathrm{DSC} = B(\bar y) - B(\hat m)`, :math:`\mathrm{UNC} = B(\bar y)`. All three are
non-negative, and no bins are chosen.

References
----------
Dimitriadis, Gneiting and Jordan (2021), "Stable reliability diagrams for probabilistic
classifiers", PNAS 118.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri, stdtrit

from cje.classification._arrays import check_binary, row_shares
from cje.classification.bins import BinSums, binner, cell_sums
from cje.classification.folded import skewed_quantile, standard_errors
from cje.classification.proportions import simultaneous_limits
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_fitted

__all__ = [
    "CorpDecomposition",
    "brier_score",
    "corp_decomposition",
    "corp_discrimination",
    "corp_miscalibration",
]


class CorpDecomposition(NamedTuple):
    """Parts of the Brier score; ``score = miscalibration - discrimination + uncertainty``."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_score(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean squared difference of probability and outcome. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 0.5])
    0.25
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight)
    return float(np.average((p - y) ** 2, weights=w))


def corp_decomposition(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> CorpDecomposition:
    """CORP decomposition of the Brier score. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> corp_decomposition([0, 1, 0, 1], [0.25, 0.75, 0.25, 0.75])
    CorpDecomposition(score=0.0625, miscalibration=0.0625, discrimination=0.25, uncertainty=0.25)
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight)
    fitted = isotonic_fitted(p, y, w)
    score = float(np.average((p - y) ** 2, weights=w))
    recalibrated = float(np.average((fitted - y) ** 2, weights=w))
    rate = float(np.average(y, weights=w))
    uncertainty = float(np.average((y - rate) ** 2, weights=w))
    # Both differences are non-negative; rounding must not say otherwise.
    return CorpDecomposition(
        score,
        max(score - recalibrated, 0.0),
        max(uncertainty - recalibrated, 0.0),
        uncertainty,
    )


def corp_miscalibration(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """The miscalibration part of the Brier score. Parameters as in `smooth_ece`."""
    return corp_decomposition(y_true, y_prob, sample_weight=sample_weight).miscalibration


def corp_discrimination(
    y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """The discrimination part of the Brier score. Parameters as in `smooth_ece`."""
    return corp_decomposition(y_true, y_prob, sample_weight=sample_weight).discrimination


def brier_limits(
    y: FloatArray, p: FloatArray, w: FloatArray | None, level: float
) -> tuple[float, float]:
    """t limits for the mean loss, cut to [0, 1]."""
    share = row_shares(len(p), w)
    loss = (p - y) ** 2
    value = float(share @ loss)
    rows = 1.0 / float(share @ share)
    # Two pseudo-rows' worth of variance: losses that all agree are not noiseless.
    variance = float(share**2 @ (loss - value) ** 2) + 2.0 / rows**2
    reach = float(stdtrit(max(rows - 1.0, 1.0), 0.5 + level / 2.0)) * np.sqrt(variance)
    return max(value - reach, 0.0), min(value + reach, 1.0)


def _isotonic_band(
    y: FloatArray, p: FloatArray, w: FloatArray | None, error: float
) -> tuple[FloatArray, FloatArray]:
    """A band that holds an increasing regression function at every row's score at once.

    In equal-mass bins the mean outcome has simultaneous limits. An increasing function is, in a
    bin, at least its mean in the bin below and at most its mean in the bin above.
    """
    cells, bins = _band_cells(y, p, w)
    low, high = simultaneous_limits(cells, error)
    low = np.maximum.accumulate(low)
    high = np.minimum.accumulate(high[::-1])[::-1]
    from_below = np.concatenate(([0.0], low[:-1]))
    from_above = np.concatenate((high[1:], [1.0]))
    # A row of weight zero may sit in an empty bin; any neighbour will do, as it counts for nothing.
    at = np.minimum(np.searchsorted(cells.cell, bins), len(cells.cell) - 1)
    return from_below[at], from_above[at]


def miscalibration_limits(
    y: FloatArray, p: FloatArray, w: FloatArray | None, level: float
) -> tuple[float, float]:
    """Limits for the mean squared distance of scores and increasing regression function.

    Above: the farthest function in the band. Below: within a bin the mean square is at least the
    squared mean, so the binned sum of squared gaps is a lower bound, and has a lower limit.
    """
    error = (1.0 - level) / 2.0
    low, high = _isotonic_band(y, p, w, error)
    farthest = np.maximum(np.abs(p - low), np.abs(high - p))
    return _squares_lower(_band_cells(y, p, w)[0], error), float(np.average(farthest**2, weights=w))


def _band_cells(y: FloatArray, p: FloatArray, w: FloatArray | None) -> tuple[BinSums, IntArray]:
    """The band's equal-mass bins, whose width and noise shrink together; and each row's bin."""
    n_bins = max(2, int(np.rint(np.cbrt(len(p)))))
    bins = binner(p, n_bins, "quantile", w)(p)
    return cell_sums(y, p, w, bins, n_bins), bins


def _squares_lower(cells: BinSums, error: float) -> float:
    r"""Lower limit for :math:`Q = \sum_b \pi_b \delta_b^2` from the observed gaps.

    The observed sum has mean :math:`Q + \sum a_b` and variance at most
    :math:`2\sum a_b^2 + 4 Q \max a_b` with :math:`a_b` the variance of a gap times its share; at
    :math:`Q = 0` it is a weighted chi-square, whose quantile is a gamma's of its three moments.
    """
    share = cells.weight / cells.weight.sum()
    noise = standard_errors(cells, share) ** 2 / share
    excess = float(share @ cells.gap**2 - noise.sum())
    squares = float(2.0 * (noise**2).sum())
    skewness = float(8.0 * (noise**3).sum()) / squares**1.5
    null_reach = np.sqrt(squares) * skewed_quantile(error, skewness)
    z, slope = -float(ndtri(error)), float(4.0 * noise.max())

    def surplus(target: float) -> float:
        reach = max(null_reach, z * np.sqrt(squares + slope * target))
        return float(excess - target - reach)

    if surplus(0.0) <= 0.0:
        return 0.0
    return float(brentq(surplus, 0.0, excess))


def discrimination_limits(
    y: FloatArray, p: FloatArray, w: FloatArray | None, level: float
) -> tuple[float, float]:
    """Limits for the variance of the increasing regression function, from its band."""
    low, high = _isotonic_band(y, p, w, (1.0 - level) / 2.0)

    def nearest(centre: float) -> float:
        apart = np.maximum(np.maximum(low - centre, centre - high), 0.0)
        return float(np.average(apart**2, weights=w))

    def farthest(centre: float) -> float:
        apart = np.maximum(np.abs(centre - low), np.abs(high - centre))
        return float(np.average(apart**2, weights=w))

    # A variance is the least mean square about any centre; both functions are convex in it.
    least = (minimize_scalar(f, bounds=(0.0, 1.0), method="bounded") for f in (nearest, farthest))
    below, above = (float(result.fun) for result in least)
    return below, min(above, 0.25)
