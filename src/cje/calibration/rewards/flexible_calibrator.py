"""`FlexibleCalibrator`: isotonic, or g(S, X) -> isotonic, on fully labelled rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from cje.calibration.rewards.score_calibrator import ScoreCalibrator
from cje.kernels.arrays import FloatArray

__all__ = ["FlexibleCalibrator"]


class FlexibleCalibrator(ScoreCalibrator):
    """Calibrate a score to a label, monotone or not.

    The first stage learns a smooth index T = g(S, X): a restricted cubic spline with at least five
    knots in the score's rank, plus three-knot splines of the covariates' ranks; ranks come from the
    training rows alone. The second stage is the isotonic regression of the label on T, so rewards
    stay calibrated whatever the shape of g. ``mode="auto"`` keeps the plain isotonic fit unless
    two stages do demonstrably better out of fold (`cje.calibration.rewards.selection`).

    Parameters
    ----------
    mode : {"auto", "monotone", "two_stage"}
    cv : int or iterable of (train, test)
        Folds for the comparison of modes and for out-of-fold predictions.
    random_seed : int
        Seed of the fold assignment.

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

    _mode_parameter = "mode"

    def __init__(
        self, mode: str = "auto", cv: int | Iterable[Any] = 5, random_seed: int = 42
    ) -> None:
        self.mode = mode
        self.cv = cv
        self.random_seed = random_seed

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
