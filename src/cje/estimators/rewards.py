"""Rewards of logged rows and fresh draws: one calibration, cross-fitted and jackknifed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cje.calibration.reward_model import CrossFittedRewardModel, RewardModel, fit_reward_model
from cje.data import Codes
from cje.data.folds import get_folds
from cje.errors import CJEError
from cje.estimators.logged import FreshDraws, LoggedRows

__all__ = ["MIN_LABELS", "Rewards", "fit_rewards", "fit_weighted"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIN_LABELS = 10


@dataclass(frozen=True)
class Rewards:
    """The reward of every logged row, and the models behind it.

    Attributes
    ----------
    kind : str
        ``"calibrated"``: f(S); ``"labels"``: every row has a label, which is its reward.
    full : array (n,)
        Reward by the all-data model (or the label).
    out_of_fold : array (n,)
        f(S) by the model that saw no label of the row's fold.
    model : CrossFittedRewardModel
    jackknife : tuple of RewardModel
        Models without each of J balanced groups of labelled prompts, for the oracle uncertainty.
    groups : int array, optional
        That group of each labelled row.
    """

    kind: Literal["calibrated", "labels"]
    full: FloatArray
    out_of_fold: FloatArray
    model: CrossFittedRewardModel
    jackknife: tuple[RewardModel, ...]
    groups: IntArray | None = None

    def fresh_full(self, draws: FreshDraws) -> FloatArray:
        """Reward of fresh draws by the all-data model."""
        return self.model.predict(draws.scores, draws.covariates)

    def fresh_out_of_fold(self, draws: FreshDraws) -> FloatArray:
        """Reward of fresh draws by the model that saw no label on their prompt's fold."""
        return self.model.predict_oof(draws.scores, draws.folds, draws.covariates)


def fit_rewards(logged: LoggedRows, *, mode: str, jackknife_folds: int, seed: int) -> Rewards:
    """Calibrate judge -> label on the labelled logged rows.

    Labels are weighted by 1 / propensity, so that the fit describes the logged population whatever
    rule chose the rows to label.
    """
    rows = np.flatnonzero(logged.labelled)
    if len(rows) < MIN_LABELS:
        raise CJEError(
            f"off-policy estimation calibrates the judge on labelled logged rows; "
            f"{len(rows)} have a label, at least {MIN_LABELS} are needed",
            hint="label a random slice of the logged responses, or use the naive estimator on "
            "fresh draws and say that the result is uncalibrated",
        )
    model = fit_weighted(logged, rows, None, mode=mode)
    out_of_fold = model.predict_oof(logged.scores, logged.folds, logged.covariates)
    if len(rows) == len(logged):
        return Rewards("labels", logged.labels, out_of_fold, model, ())
    groups = _balanced_groups(logged, rows, jackknife_folds, seed)
    jackknife = fit_weighted(logged, rows, None, mode=model.mode, folds=groups).folds
    full = model.predict(logged.scores, logged.covariates)
    return Rewards("calibrated", full, out_of_fold, model, jackknife, groups)


def fit_weighted(
    logged: LoggedRows,
    rows: IntArray,
    extra_weight: FloatArray | None,
    *,
    mode: str,
    folds: IntArray | None = None,
) -> CrossFittedRewardModel:
    """Calibration on labelled `rows`, with a further weight for each and one model per fold.

    `folds` are the cross-fitting folds of the rows by default.
    """
    weights = 1.0 / logged.propensity[rows]
    if extra_weight is not None:
        weights = weights * extra_weight
    return fit_reward_model(
        logged.scores[rows],
        logged.labels[rows],
        folds=logged.folds[rows] if folds is None else folds,
        n_folds=logged.n_folds if folds is None else int(folds.max()) + 1,
        weights=weights,
        covariates=None if logged.covariates is None else logged.covariates[rows],
        mode=mode,
    )


def _balanced_groups(logged: LoggedRows, rows: IntArray, n_groups: int, seed: int) -> IntArray:
    """Labelled prompts dealt into equal groups in the order of their hash.

    Hashing straight into few groups would leave them uneven, which makes a jackknife noisier.
    """
    prompts = np.unique(logged.clusters[rows])
    names = tuple(logged.cluster_names[i] for i in prompts.tolist())
    hashed = get_folds(Codes(np.arange(len(names)), names), 1 << 30, seed + 1)
    group = np.empty(len(names), dtype=np.int64)
    group[np.lexsort((np.array(names), hashed))] = np.arange(len(names))
    group %= min(n_groups, len(names))
    return np.asarray(group[np.searchsorted(prompts, logged.clusters[rows])])
