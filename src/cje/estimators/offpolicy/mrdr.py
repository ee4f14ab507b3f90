"""`mrdr`: the doubly robust value whose outcome model minimises the estimator's variance."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.doubly_robust import fresh_influence
from cje.estimators.offpolicy.label_term import CalibrationSensitivity
from cje.estimators.offpolicy.logged import FreshDraws, LoggedRows
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.estimators.offpolicy.rewards import Rewards, fit_model
from cje.kernels.arrays import FloatArray

__all__ = ["MRDREstimator"]


class MRDREstimator(OffPolicyEstimator):
    r"""More robust doubly robust: f is fitted for each target with weights :math:`(M/\pi)^2`.

    The variance of the label part is about :math:`E[(L/\pi)^2 M^2 (Y - f)^2]/n`, so the
    calibration that minimises the squared error of the labels with weights :math:`(M/\pi)^2` makes
    it smallest even where the curve's shape is wrong: it is best where the target scores.

    References
    ----------
    Farajtabar, Chow & Ghavamzadeh (2018), ICML.
    """

    name: ClassVar[str] = "mrdr"
    needs_fresh: ClassVar[bool] = True
    heavy_tail_refuses: bool = False

    def fit(self, problem: Problem) -> Fit:
        weights, _ = self.label_weights(problem)
        models = problem.target_models or self.fit_target_models(problem)
        fits = [Rewards.of(models[name], problem.logged) for name in problem.logged.policies]
        term = problem.term(weights, np.column_stack([r.out_of_fold for r in fits]))
        each = [r.fresh(draws) for r, draws in zip(fits, problem.fresh, strict=True)]
        means = [draws.weight @ f for draws, f in zip(problem.fresh, each, strict=True)]
        rewards = [f @ term.shares[:, k] for k, f in enumerate(each)]
        influence = fresh_influence(problem, rewards)
        sensitivities = [
            self._sensitivity(problem, r, draws, weights[:, k])
            for k, (r, draws) in enumerate(zip(fits, problem.fresh, strict=True))
        ]
        return self.assemble(problem, np.column_stack(means), influence, term, sensitivities)

    def fit_target_models(self, problem: Problem) -> dict[str, CrossFittedRewardModel]:
        weights, _ = self.label_weights(problem)
        mode = problem.rewards.model.mode
        return {
            # The extra weight is multiplied by 1 / propensity in the fit.
            name: fit_model(
                problem.logged, mode=mode, extra_weight=_squared(problem.logged, weight)
            )
            for name, weight in zip(problem.logged.policies, weights.T, strict=True)
        }

    @staticmethod
    def _sensitivity(
        problem: Problem, rewards: Rewards, draws: FreshDraws, weight: FloatArray
    ) -> CalibrationSensitivity:
        logged, rows = problem.logged, problem.logged.labelled
        predict = rewards.model.predict
        x = None if logged.covariates is None else logged.covariates[rows]
        return CalibrationSensitivity(
            predict(draws.scores, draws.covariates),
            draws.weight,
            predict(logged.scores[rows], x),
            _squared(logged, weight) / logged.propensity[rows],
        )


def _squared(logged: LoggedRows, weight: FloatArray) -> FloatArray:
    """M squared over the propensity at the labelled rows; zero would leave a gap in the curve."""
    squared = weight[logged.labelled] ** 2 / logged.propensity[logged.labelled]
    return np.maximum(squared, 1e-6 * max(float(squared.max()), 1e-300))
