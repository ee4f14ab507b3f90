"""`FlexibleCalibrator`: isotonic, or g(S, X) -> isotonic, on fully labelled rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, column_or_1d

from cje.calibration.reward_model import fit_reward_model
from cje.calibration.score_calibrator import (
    FloatArray,
    IntArray,
    ScoreCalibrator,
    as_floats,
    combine_weights,
    enough_to_cross_fit,
    folds_from_cv,
    is_one_dimensional,
)
from cje.errors import CJEError

__all__ = ["FlexibleCalibrator"]


class FlexibleCalibrator(ScoreCalibrator):
    """Calibrate a score to a label, monotone or not.

    The first stage learns a smooth index T = g(S, X): a restricted cubic spline with at least five
    knots in the score's rank, plus three-knot splines of the covariates' ranks; ranks come from the
    training rows alone. The second stage is the isotonic regression of the label on T, so rewards
    stay calibrated whatever the shape of g. ``mode="auto"`` keeps the plain isotonic fit unless
    two stages do demonstrably better out of fold (`cje.calibration.selection`).

    Parameters
    ----------
    mode : {"auto", "monotone", "two_stage"}
    cv : int or iterable of (train, test)
        Folds for the comparison of modes and for out-of-fold predictions.
    random_seed : int
        Of the fold assignment.

    Attributes
    ----------
    model_ : CrossFittedRewardModel
    selected_mode : str

    Examples
    --------
    >>> import numpy as np
    >>> s = np.linspace(0, 1, 200)
    >>> FlexibleCalibrator().fit(s, 4 * s * (1 - s)).selected_mode
    'two_stage'
    """

    def __init__(
        self, mode: str = "auto", cv: int | Iterable[Any] = 5, random_seed: int = 42
    ) -> None:
        self.mode = mode
        self.cv = cv
        self.random_seed = random_seed

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        folds: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inclusion_probability: ArrayLike | None = None,
    ) -> Self:
        """Fit on labelled rows.

        Parameters
        ----------
        X : array (n,) of scores, or (n, 1 + p) with covariates in the further columns
        y : array (n,)
            Labels. NaN marks a row without one; it takes no part.
        folds : array (n,) of int, optional
            Fold of every row; hashed from the row number by default.
        covariates : array (n, p), optional
        sample_weight, inclusion_probability : array (n,), optional
            Rows count with weight ``sample_weight / inclusion_probability``.
        """
        scores, extra, labels = self._read_training(X, y, covariates)
        weights = combine_weights(len(scores), sample_weight, inclusion_probability)
        fold_ids, n_folds = self._training_folds(folds, len(scores))
        rows = labelled_rows(labels)
        crossed = enough_to_cross_fit(len(rows)) or folds is not None
        self.model_ = fit_reward_model(
            scores[rows],
            labels[rows],
            folds=fold_ids[rows] if crossed else None,
            n_folds=n_folds if crossed else None,
            weights=None if weights is None else weights[rows],
            covariates=None if extra is None else extra[rows],
            mode=self.mode,
        )
        return self

    def predict(
        self,
        X: ArrayLike,
        covariates: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> FloatArray:
        """Reward of every row; with `folds`, out of fold."""
        if folds is not None:
            return self.predict_oof(X, folds, covariates)
        return super().predict(X, covariates)

    def _training_folds(self, folds: ArrayLike | None, n: int) -> tuple[IntArray, int]:
        if folds is None:
            return folds_from_cv(self.cv, n, self.random_seed)
        fold_ids = np.asarray(folds)
        if fold_ids.shape != (n,) or fold_ids.dtype.kind not in "iu":
            raise CJEError("folds must hold one integer a row", value=fold_ids.shape)
        return fold_ids.astype(np.int64), int(fold_ids.max()) + 1

    def _read_training(
        self, X: ArrayLike, y: ArrayLike, covariates: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        strict = is_one_dimensional(X)
        scores, extra = self._read(X, covariates, fitting=True)
        labels = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
        check_consistent_length(scores, labels)
        check_labels(labels, strict=strict)
        return scores, extra, labels


def labelled_rows(labels: FloatArray) -> IntArray:
    """Rows whose label is not NaN; at least one."""
    rows = np.flatnonzero(~np.isnan(labels))
    if len(rows) == 0:
        raise CJEError(
            "No oracle labels to calibrate on", hint="label some rows, at least 20 of them"
        )
    return rows


def check_labels(labels: FloatArray, *, strict: bool) -> None:
    """Labels are NaN (missing) or finite; outside [0, 1] an error, or a warning if not strict."""
    present = labels[~np.isnan(labels)]
    as_floats("oracle_labels", present)
    outside = (present < 0) | (present > 1)
    if not outside.any():
        return
    if strict:
        raise CJEError(
            "Oracle labels must lie in [0, 1]",
            value=float(present[outside][0]),
            hint="map them first: (label - low) / (high - low)",
        )
    warnings.warn(
        f"{int(outside.sum())} labels lie outside [0, 1]; predictions are clipped to [0, 1]",
        stacklevel=4,
    )
