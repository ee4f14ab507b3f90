"""Binary calibrators without a formula: isotonic, centred isotonic and uniform-mass histogram.

Weights count as repeated rows.

References
----------
Zadrozny and Elkan (2001, 2002): histogram binning and isotonic regression.
Oron and Flournoy (2017), "Centered isotonic regression".
Gupta and Ramdas (2021), "Distribution-free calibration guarantees for histogram binning".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cje.checks import check_whole_number, finite_array
from cje.classification._arrays import check_binary
from cje.kernels.arrays import FloatArray
from cje.kernels.binning import mass_bins
from cje.kernels.isotonic import (
    isotonic_centered_fit,
    isotonic_fit,
    isotonic_predict,
    pool_ties,
)

__all__ = ["CenteredIsotonicCalibrator", "HistogramCalibrator", "IsotonicCalibrator"]


class IsotonicCalibrator(BaseEstimator):  # type: ignore[misc]
    """Least-squares increasing fit; linear between knots, constant outside the data.

    Attributes
    ----------
    x_knots_, y_knots_ : ndarray

    Examples
    --------
    >>> IsotonicCalibrator().fit([0.25, 0.5, 0.75], [0, 1, 1]).predict([0.375, 0.7]).tolist()
    [0.5, 1.0]
    """

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> IsotonicCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        self.x_knots_, self.y_knots_ = isotonic_fit(p, outcome, w)
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        check_is_fitted(self)
        return isotonic_predict(
            self.x_knots_, self.y_knots_, finite_array("scores", scores, ndim=None)
        )


class CenteredIsotonicCalibrator(BaseEstimator):  # type: ignore[misc]
    """Isotonic fit whose flat stretches become slopes, so that the ranking stays strict.

    Attributes
    ----------
    x_knots_, y_knots_ : ndarray

    Examples
    --------
    >>> fit = CenteredIsotonicCalibrator().fit([0.1, 0.3, 0.5, 0.9], [0, 1, 0, 1])
    >>> fit.predict([0.1, 0.4, 0.9]).tolist()
    [0.0, 0.5, 1.0]
    """

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> CenteredIsotonicCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        self.x_knots_, self.y_knots_ = isotonic_centered_fit(p, outcome, w)
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        check_is_fitted(self)
        return isotonic_predict(
            self.x_knots_, self.y_knots_, finite_array("scores", scores, ndim=None)
        )


class HistogramCalibrator(BaseEstimator):  # type: ignore[misc]
    """Uniform-mass histogram binning: the mean outcome of the score's bin.

    Parameters
    ----------
    n_bins : int
        Largest number of bins.
    min_bin_count : int
        Rows (or weight) a bin should hold; with fewer data there are fewer bins, at least one.

    Attributes
    ----------
    cuts_ : ndarray
        Boundaries between the bins, halfway between the neighbouring scores.
    values_ : ndarray
        Mean outcome of each bin.

    Examples
    --------
    >>> fit = HistogramCalibrator(n_bins=2, min_bin_count=1).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 1])
    >>> fit.predict([0.0, 1.0]).tolist()
    [0.0, 0.5]
    """

    def __init__(self, n_bins: int = 10, min_bin_count: int = 20) -> None:
        self.n_bins = n_bins
        self.min_bin_count = min_bin_count

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> HistogramCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        most = check_whole_number("n_bins", self.n_bins)
        least = check_whole_number("min_bin_count", self.min_bin_count)
        if w is not None:
            kept = w > 0.0
            outcome, p, w = outcome[kept], p[kept], w[kept]
        x, mean, weight, _ = pool_ties(p, outcome, w)
        n_bins = max(1, min(most, int(weight.sum() // least)))
        first = np.flatnonzero(np.diff(mass_bins(weight, n_bins), prepend=-1))
        self.cuts_ = 0.5 * (x[first[1:] - 1] + x[first[1:]])
        self.values_ = np.add.reduceat(mean * weight, first) / np.add.reduceat(weight, first)
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Mean outcome of the bin that holds each score."""
        check_is_fitted(self)
        p = finite_array("scores", scores, ndim=None)
        return np.asarray(self.values_[np.searchsorted(self.cuts_, p, side="right")])
