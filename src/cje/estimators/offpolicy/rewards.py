"""Rewards of judged responses: one calibration, cross-fitted over folds of prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.errors import CJEError
from cje.estimators.offpolicy.logged import FreshDraws, LoggedRows
from cje.kernels.arrays import FloatArray

__all__ = ["MIN_LABELS", "Rewards", "fit_rewards"]


MIN_LABELS = 10


@dataclass(frozen=True)
class Rewards:
    """A cross-fitted calibration on the logged rows.

    Attributes
    ----------
    model : CrossFittedRewardModel
    each : array (n, V)
        f by every fold model: column v never saw a label of fold v.
    out_of_fold : array (n,)
        f by the model that saw no label of the row's own fold.
    """

    model: CrossFittedRewardModel
    each: FloatArray
    out_of_fold: FloatArray

    def fresh(self, draws: FreshDraws) -> FloatArray:
        """f of fresh draws by every fold model, (n', V)."""
        return self.model.predict_each_fold(draws.scores, draws.covariates)


def fit_rewards(
    logged: LoggedRows, *, mode: str, extra_weight: FloatArray | None = None
) -> Rewards:
    """Calibrate judge -> label on the labelled logged rows.

    Labels are weighted by 1 / propensity, so that the fit describes the logged population whatever
    rule chose the rows to label; `extra_weight` (one per labelled row) multiplies that.
    """
    rows = np.flatnonzero(logged.labelled)
    if len(rows) < MIN_LABELS:
        raise CJEError(
            f"off-policy estimation calibrates the judge on labelled logged rows; "
            f"{len(rows)} have a label, at least {MIN_LABELS} are needed",
            hint="label a random slice of the logged responses, or use the naive estimator on "
            "fresh draws and say that the result is uncalibrated",
        )
    weights = 1.0 / logged.propensity[rows]
    if extra_weight is not None:
        weights = weights * extra_weight
    model = fit_reward_model(
        logged.scores[rows],
        logged.labels[rows],
        folds=logged.folds[rows],
        n_folds=logged.n_folds,
        weights=weights,
        covariates=None if logged.covariates is None else logged.covariates[rows],
        mode=mode,
    )
    each = model.predict_each_fold(logged.scores, logged.covariates)
    return Rewards(model, each, np.take_along_axis(each, logged.folds[:, None], axis=1)[:, 0])
