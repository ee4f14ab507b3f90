"""Learned outcome models for `dr-cpo`: a regression of the reward on score and covariates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cje.estimators.offpolicy.logged import FreshDraws, LoggedRows
from cje.estimators.offpolicy.problem import Problem
from cje.kernels.arrays import FloatArray

__all__ = ["Outcome", "Regressor", "learned_outcome"]


class Regressor(Protocol):
    """Anything with `fit(X, y)` and `predict(X)`; X holds the score and the covariates."""

    def fit(self, X: FloatArray, y: FloatArray) -> Any: ...

    def predict(self, X: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Outcome:
    """Cross-fitted predictions q: of each logged row, and of each target's fresh draws."""

    logged: FloatArray
    fresh: tuple[FloatArray, ...]


def learned_outcome(problem: Problem, make: Callable[[], Regressor]) -> Outcome:
    """Regress the reward on (score, covariates), one model per fold of prompts."""
    logged = problem.logged
    features = _features(logged)
    fresh = [_features(draws) for draws in problem.fresh]
    at_logged = np.empty(len(logged))
    at_fresh = [np.empty(len(draws.scores)) for draws in problem.fresh]
    for fold in range(logged.n_folds):
        inside = logged.folds == fold
        model = make()
        model.fit(features[~inside], problem.rewards.out_of_fold[~inside])
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
