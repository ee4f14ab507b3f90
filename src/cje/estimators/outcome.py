"""Outcome models of the doubly robust family: predictions of the reward of any judged response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cje.estimators.logged import FreshDraws, LoggedRows
from cje.estimators.offpolicy import Problem

__all__ = ["Outcome", "Regressor", "calibration_outcome", "learned_outcome"]

FloatArray = NDArray[np.float64]


class Regressor(Protocol):
    """Anything with `fit(X, y)` and `predict(X)`; X holds the score and the covariates."""

    def fit(self, X: FloatArray, y: FloatArray) -> Any: ...

    def predict(self, X: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Outcome:
    """Cross-fitted predictions q: of each logged row, and of each target's fresh draws."""

    logged: FloatArray
    fresh: tuple[FloatArray, ...]


def calibration_outcome(problem: Problem) -> Outcome:
    """The calibration itself, cross-fitted: the reward is a function of the judged score, so the
    best prediction of the reward is the calibration that has not seen the row."""
    return Outcome(
        problem.rewards.out_of_fold,
        tuple(problem.rewards.fresh_out_of_fold(draws) for draws in problem.fresh),
    )


def learned_outcome(problem: Problem, make: Callable[[], Regressor]) -> Outcome:
    """A regression of the reward on (score, covariates), one model per fold of prompts."""
    logged = problem.logged
    features = _features(logged)
    fresh = [_features(draws) for draws in problem.fresh]
    at_logged = np.empty(len(logged))
    at_fresh = [np.empty(len(draws.scores)) for draws in problem.fresh]
    for fold in range(logged.n_folds):
        inside = logged.folds == fold
        model = make()
        model.fit(features[~inside], problem.rewards.full[~inside])
        if inside.any():
            at_logged[inside] = model.predict(features[inside])
        for draws, x, out in zip(problem.fresh, fresh, at_fresh, strict=True):
            rows = draws.folds == fold
            if rows.any():
                out[rows] = model.predict(x[rows])
    return Outcome(at_logged, tuple(at_fresh))


def _features(rows: LoggedRows | FreshDraws) -> FloatArray:
    columns = [rows.scores[:, None]]
    if rows.covariates is not None:
        columns.append(rows.covariates)
    return np.hstack(columns)
