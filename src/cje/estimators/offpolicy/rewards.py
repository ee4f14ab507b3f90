"""Rewards of judged responses: calibrations cross-fitted over folds of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.errors import CJEError
from cje.estimators.offpolicy.logged import FreshDraws, LoggedRows
from cje.kernels.arrays import FloatArray

__all__ = ["MIN_LABELS", "RewardModels", "Rewards", "fit_model"]


MIN_LABELS = 10


@dataclass(frozen=True)
class RewardModels:
    """The cross-fitted calibrations of an estimator family; a file can hold them.

    Attributes
    ----------
    shared : CrossFittedRewardModel
        Fitted on the labels alone; every off-policy estimator uses it.
    by_target : mapping policy -> CrossFittedRewardModel
        Calibrations fitted for one target each (`mrdr`); empty for other estimators.
    """

    shared: CrossFittedRewardModel
    by_target: Mapping[str, CrossFittedRewardModel] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; floats survive the trip exactly."""
        return {
            "shared": self.shared.to_dict(),
            "by_target": {name: model.to_dict() for name, model in self.by_target.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RewardModels:
        """The inverse of `to_dict`."""
        by_target = {
            str(name): CrossFittedRewardModel.from_dict(model)
            for name, model in data["by_target"].items()
        }
        return cls(CrossFittedRewardModel.from_dict(data["shared"]), by_target)


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

    @classmethod
    def of(cls, model: CrossFittedRewardModel, logged: LoggedRows) -> Rewards:
        """The rewards of the logged rows under a fitted model.

        Raises
        ------
        CJEError
            Where the model was fitted with another number of folds.
        """
        if model.n_folds != logged.n_folds:
            raise CJEError(
                f"the reward model has {model.n_folds} folds, the logged rows {logged.n_folds}",
                hint="calibrate again with the same n_folds",
            )
        each = model.predict_each_fold(logged.scores, logged.covariates)
        return cls(model, each, np.take_along_axis(each, logged.folds[:, None], axis=1)[:, 0])

    def fresh(self, draws: FreshDraws) -> FloatArray:
        """f of fresh draws by every fold model, (n', V)."""
        return self.model.predict_each_fold(draws.scores, draws.covariates)


def fit_model(
    logged: LoggedRows, *, mode: str, extra_weight: FloatArray | None = None
) -> CrossFittedRewardModel:
    """Calibrate judge -> label on the labelled logged rows.

    Labels are weighted by 1 / propensity, so that the fit describes the logged population whatever
    rule chose the rows to label; `extra_weight` (one per labelled row) multiplies that.

    Raises
    ------
    CJEError
        With fewer than `MIN_LABELS` labelled rows.
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
    return fit_reward_model(
        logged.scores[rows],
        logged.labels[rows],
        folds=logged.folds[rows],
        n_folds=logged.n_folds,
        weights=weights,
        covariates=None if logged.covariates is None else logged.covariates[rows],
        mode=mode,
    )
