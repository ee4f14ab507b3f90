"""The judge's calibration curve, drawn from the cross-fitted reward model of any estimator."""

from __future__ import annotations

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.data.scale import Scale
from cje.inference import CalibrationCurve, interval_limits
from cje.kernels.arrays import FloatArray

__all__ = ["judge_curve"]

_CURVE_POINTS = 40


def judge_curve(
    model: CrossFittedRewardModel,
    scores: FloatArray,
    x: FloatArray | None,
    occupied: np.ndarray,
    judge: Scale,
    oracle: Scale,
) -> CalibrationCurve:
    """Judge score -> calibrated label, band from the delete-one-fold jackknife (pointwise).

    `scores` and `x` are the labelled rows' scores and covariates, `occupied` the folds that hold
    labels. The curve is drawn at the mean covariates.
    """
    grid = np.unique(scores)
    if len(grid) > _CURVE_POINTS:
        grid = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, _CURVE_POINTS)))
    counts = np.bincount(_nearest(grid, scores), minlength=len(grid)).astype(float)
    covariates = None
    if x is not None:
        covariates = np.tile(x.mean(axis=0), (len(grid), 1))
    observed = model.predict(grid, covariates)
    each = np.stack([model.folds[k].predict(grid, covariates) for k in occupied])
    f = len(each)
    se = np.sqrt((f - 1) / f * ((each - each.mean(axis=0)) ** 2).sum(axis=0))
    low, high = interval_limits(observed, se, df=f - 1, bounds=(0.0, 1.0), method="t")
    return CalibrationCurve(
        judge.from_unit(grid),
        oracle.from_unit(observed),
        oracle.from_unit(low),
        oracle.from_unit(high),
        counts,
        band="pointwise",
        x_label="judge score",
        y_label="mean label",
        title="Judge calibration",
        reference=judge == oracle,
    )


def _nearest(grid: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Position of the grid point closest to each score."""
    middle = 0.5 * (grid[1:] + grid[:-1])
    return np.searchsorted(middle, scores)
