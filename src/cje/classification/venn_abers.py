r"""Venn-Abers calibration: two isotonic fits for each score, one with it added as 0, one as 1.

Adding one row to the calibration data at score :math:`s` and fitting again would cost one fit per
prediction. The fitted value at the added row is the slope of a bridge between two convex minorants
of the cumulative-sum diagram, and one sweep of a stack finds it for every position (Vovk, Petej and
Fedorova 2015): fitting costs one sort and one pass over the distinct scores.

References
----------
Vovk, Petej and Fedorova (2015), "Large-scale probabilistic predictors with and without guarantees
of validity", NeurIPS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cje.checks import finite_array
from cje.classification._arrays import check_binary
from cje.kernels.arrays import FloatArray
from cje.kernels.isotonic import pool_ties

__all__ = ["VennAbersCalibrator"]

_Point = tuple[float, float]


def _slope(a: _Point, b: _Point) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def _turns_left(a: _Point, b: _Point, c: _Point) -> bool:
    """Whether the path a -> b -> c bends upwards at b, so that b is a corner of the minorant."""
    return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])


def _value_with_one_added(weight: FloatArray, total: FloatArray) -> FloatArray:
    """Isotonic value at each position when a row with outcome 1 is added there.

    `weight` and `total` are the weight and the summed outcome at each distinct score, increasing.
    The path of the augmented diagram runs through the points so far moved back by (1, 1), then the
    remaining points; `corners` holds its minorant from the added row on, leftmost on top.
    """
    right = [(0.0, 0.0), *zip(np.cumsum(weight).tolist(), np.cumsum(total).tolist(), strict=True)]
    start = (-1.0, -1.0)
    hull = [start, right[0]]
    for point in right[1:]:
        while len(hull) > 1 and not _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    corners = hull[::-1]
    values = np.empty(len(weight))
    for position in range(len(weight)):
        values[position] = _slope(corners[-1], corners[-2])
        after = right[position + 1]
        moved = (after[0] - 1.0, after[1] - 1.0)
        a, b = corners[-1], corners[-2]
        if (b[0] - a[0]) * (moved[1] - a[1]) >= (b[1] - a[1]) * (moved[0] - a[0]):
            continue  # on or above the bridge: the bridge stays
        corners.pop()
        while len(corners) > 1 and not _turns_left(moved, corners[-1], corners[-2]):
            corners.pop()
        corners.append(moved)
    return values


class VennAbersCalibrator(BaseEstimator):  # type: ignore[misc]
    r"""Inductive Venn-Abers predictor; `predict` merges the pair to :math:`p_1/(1-p_0+p_1)`.

    One of the two probabilities of `predict_pair` is calibrated without any assumption beyond
    exchangeability. The merged value minimises the larger log-loss regret of the two.

    Attributes
    ----------
    scores_ : ndarray
        Distinct calibration scores.
    with_zero_, with_one_ : ndarray
        Isotonic value at each when a row with outcome 0, or 1, is added there.

    Examples
    --------
    >>> fit = VennAbersCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    >>> p0, p1 = fit.predict_pair([0.8])
    >>> round(float(p0[0]), 4), round(float(p1[0]), 4)
    (0.6667, 1.0)
    """

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> VennAbersCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        if w is not None:
            kept = w > 0.0
            outcome, p, w = outcome[kept], p[kept], w[kept]
        x, mean, weight, _ = pool_ties(p, outcome, w)
        self.scores_ = x
        self.with_one_ = _value_with_one_added(weight, weight * mean)
        # Exchanging the outcomes and reversing the order turns the one problem into the other.
        flipped = _value_with_one_added(weight[::-1], (weight * (1.0 - mean))[::-1])
        self.with_zero_ = 1.0 - flipped[::-1]
        return self

    def predict_pair(self, scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The two probabilities (p0, p1) of each score."""
        check_is_fitted(self)
        p = finite_array("scores", scores, ndim=None)
        # Between two calibration scores the added 0 behaves as at the lower, the added 1 as at the
        # upper; beyond the data the added row is a block of its own.
        below = np.searchsorted(self.scores_, p, side="right")
        above = np.searchsorted(self.scores_, p, side="left")
        return (
            np.concatenate(([0.0], self.with_zero_))[below],
            np.concatenate((self.with_one_, [1.0]))[above],
        )

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        p0, p1 = self.predict_pair(scores)
        return p1 / (1.0 - p0 + p1)
