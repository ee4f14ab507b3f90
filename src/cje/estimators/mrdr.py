"""`mrdr`: the doubly robust value whose outcome model minimises the estimator's variance."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.calibration.reward_model import CrossFittedRewardModel
from cje.estimators.doubly_robust import direct_part, residual_part
from cje.estimators.offpolicy import Fit, OffPolicyEstimator, Problem
from cje.estimators.rewards import fit_weighted

__all__ = ["MRDREstimator"]

FloatArray = NDArray[np.float64]


class MRDREstimator(OffPolicyEstimator):
    r"""More robust doubly robust: q is fitted for each target with weights :math:`W^2`.

    The variance of the residual part is about :math:`E[W^2 (R - q)^2]/n`, so the calibration that
    minimises the :math:`W^2`-weighted squared error on the labelled rows makes it smallest even
    where the curve's shape is wrong. Weights above their 99th percentile are cut for the *fit of q*
    alone, which any q survives; the estimator's own weights are not touched.

    References
    ----------
    Farajtabar, Chow & Ghavamzadeh (2018), ICML.
    """

    name: ClassVar[str] = "mrdr"
    needs_fresh: ClassVar[bool] = True

    def fit(self, problem: Problem) -> Fit:
        logged, rewards = problem.logged, problem.rewards
        models = [self._model(problem, k) for k in range(len(logged.policies))]
        at_logged = np.column_stack(
            [m.predict_oof(logged.scores, logged.folds, logged.covariates) for m in models]
        )
        at_fresh = tuple(
            m.predict_oof(d.scores, d.folds, d.covariates)
            for m, d in zip(models, problem.fresh, strict=True)
        )
        direct, direct_influence = direct_part(problem, at_fresh)
        residual, residual_influence = residual_part(problem, rewards.full[:, None] - at_logged)
        return Fit(
            direct + residual, direct_influence + residual_influence, self._leave_out(problem)
        )

    def _model(
        self, problem: Problem, k: int, groups: NDArray[np.int64] | None = None
    ) -> CrossFittedRewardModel:
        logged = problem.logged
        rows = np.flatnonzero(logged.labelled)
        weight = logged.weights[rows, k]
        weight = np.minimum(weight, np.quantile(weight, 0.99)) ** 2
        # A label of weight zero would leave its stretch of the curve undefined.
        weight = np.maximum(weight, 1e-6 * max(float(weight.max()), 1e-300))
        mode = problem.rewards.model.mode
        return fit_weighted(logged, rows, weight, mode=mode, folds=groups)

    def _leave_out(self, problem: Problem) -> FloatArray | None:
        """mean q(fresh) + weighted mean (f - q), both refitted without each group of labels."""
        rewards, logged = problem.rewards, problem.logged
        if rewards.groups is None:
            return None
        columns = []
        for k, draws in enumerate(problem.fresh):
            refits = self._model(problem, k, rewards.groups).folds
            weight = logged.weights[:, k] / len(logged)
            columns.append(
                [
                    float(draws.weight @ q.predict(draws.scores, draws.covariates))
                    + float(
                        weight
                        @ (
                            f.predict(logged.scores, logged.covariates)
                            - q.predict(logged.scores, logged.covariates)
                        )
                    )
                    for q, f in zip(refits, rewards.jackknife, strict=True)
                ]
            )
        return np.array(columns).T
