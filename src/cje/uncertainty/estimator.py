r"""`UncertaintyAwareDRCPO`: off-policy estimation under the names of the founding document.

The estimate is that of `cje.estimators`: self-normalised weighting of the calibrated rewards, or
the triply robust value if the targets' own draws are given, both with labels weighted by the
importance weights W and with the option `WeightShrinkage`, and with the same gates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data import PrecomputedSampler
from cje.data.judge_score import JudgeScore, JudgeScores
from cje.diagnostics.judge_variance import Gamma, apply_variance_scaling
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.importance import SNIPSEstimator
from cje.estimators.offpolicy.shrinkage import apply_shrinkage
from cje.estimators.offpolicy.triply_robust import TRCPOEstimator
from cje.estimators.offpolicy.weight_shrinkage import WeightShrinkage
from cje.inference import Component
from cje.kernels.arrays import FloatArray
from cje.results.result import EstimationResult
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.inputs import FreshIds, FreshScores, Inputs, check_inputs
from cje.uncertainty.results import MultiPolicyUncertaintyResult, result_view

__all__ = ["UncertaintyAwareDRCPO"]


class UncertaintyAwareDRCPO:
    """Estimate the values of several policies from a noisy judge, a few labels and weights.

    Parameters
    ----------
    config : UncertaintyEstimatorConfig, optional

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(500)
    >>> scores = JudgeScores(np.clip(truth + rng.normal(0, 0.1, 500), 0, 1), 0.01)
    >>> labels = np.where(rng.random(500) < 0.3, truth, np.nan)
    >>> result = UncertaintyAwareDRCPO().fit(
    ...     judge_scores=scores, oracle_rewards=labels,
    ...     importance_weights=np.stack([np.ones(500), 2 * truth], axis=1),
    ...     policy_names=["same", "better"],
    ... )
    >>> result.rank_policies()[0].name
    'better'
    """

    estimator_type = "UncertaintyAwareDRCPO"

    def __init__(self, config: UncertaintyEstimatorConfig | None = None) -> None:
        self.config = UncertaintyEstimatorConfig() if config is None else config

    def fit(
        self,
        X: ArrayLike | None = None,
        judge_scores: JudgeScores | Iterable[JudgeScore] = (),
        oracle_rewards: ArrayLike = (),
        importance_weights: ArrayLike = (),
        policy_names: Sequence[str] | None = None,
        *,
        fresh_judge_scores: FreshScores | None = None,
        label_propensity: ArrayLike | None = None,
        prompt_ids: Sequence[str] | None = None,
        fresh_prompt_ids: FreshIds | None = None,
    ) -> MultiPolicyUncertaintyResult:
        """Fit all policies.

        Parameters
        ----------
        X : array (n, p), optional
            Covariates of the prompt, for a better calibration. Values are right without it.
        judge_scores : JudgeScores or iterable of JudgeScore
            One per logged response.
        oracle_rewards : array (n,)
            Labels on [0, 1]; NaN where there is none.
        importance_weights : array (n,) or (n, K)
            target / logging probability of every logged response.
        policy_names : sequence of str, optional
        fresh_judge_scores : one `JudgeScores` per policy (mapping or sequence), optional
            Scores of the target's own responses. Without ids, a set of n draws is assumed to answer
            the logged prompts in their order.
        label_propensity : array (n,) or number, optional
            Probability that each row was labelled (default: the share of labelled rows).
        prompt_ids : sequence of str, optional
            Rows with the same id are one cluster, and each prompt counts once.
        fresh_prompt_ids : one sequence of str per policy, optional
            Prompts of the fresh draws; used together with `prompt_ids`.

        Raises
        ------
        CJEError
            Where an argument has the wrong shape or a number out of range, or there are fewer
            than 10 labels.
        """
        inputs = check_inputs(
            self.config,
            covariates=X,
            judge_scores=judge_scores,
            oracle_rewards=oracle_rewards,
            importance_weights=importance_weights,
            policy_names=policy_names,
            label_propensity=label_propensity,
            fresh_judge_scores=fresh_judge_scores,
            prompt_ids=prompt_ids,
            fresh_prompt_ids=fresh_prompt_ids,
        )
        result = self._estimator(inputs).fit_and_estimate()
        gamma = self._gamma(result)
        variances = apply_variance_scaling(inputs.scores.variance, gamma)
        weights = _used_weights(inputs, result, variances)
        if self.config.standard_error == "twice":
            result = _counted_twice(result, weights, variances)
        return result_view(
            self.config,
            self.estimator_type,
            inputs,
            result,
            self._gamma(result),
            weights,
            variances,
        )

    def _estimator(self, inputs: Inputs) -> OffPolicyEstimator:
        config = self.config
        options: dict[str, Any] = {
            "n_folds": config.k_folds,
            "seed": config.random_state,
            "level": config.confidence_level,
            "covariates": tuple(inputs.logged.covariates),
            "label_noise": config.label_noise,
            # Equal weights are declared here, so they are not a sign of skipped scoring.
            "same_as_logging": inputs.unweighted,
        }
        if config.use_variance_shrinkage:
            options["shrinkage"] = WeightShrinkage(
                config.shrinkage_method,
                config.fixed_shrinkage_lambda,
                config.min_ess_ratio,
                config.calibrate_variance,
            )
        sampler = PrecomputedSampler(inputs.logged, log_ratio_clip=np.inf)
        if inputs.fresh is None:
            return SNIPSEstimator(sampler, **options)
        outcome = _OUTCOMES[config.outcome_model]
        return TRCPOEstimator(sampler, inputs.fresh, outcome_model=outcome, **options)

    def _gamma(self, result: EstimationResult) -> Gamma:
        if not self.config.calibrate_variance:
            return Gamma(1.0, identified=False)
        return Gamma.from_dict(result.diagnostics["gamma"])


def _used_weights(inputs: Inputs, result: EstimationResult, variances: FloatArray) -> FloatArray:
    """(n, K) weights after shrinkage."""
    if "shrinkage" not in result.diagnostics:
        return inputs.weights
    lambdas = [result.diagnostics["shrinkage"][name]["lambda"] for name in result.policies]
    columns = zip(inputs.weights.T, lambdas, strict=True)
    return np.column_stack([apply_shrinkage(w, variances, lam) for w, lam in columns])


def _counted_twice(
    result: EstimationResult, weights: FloatArray, variances: FloatArray
) -> EstimationResult:
    """The published standard error, which adds ``E[w^2 v] / n`` to the influence function's."""
    noise = weights * np.sqrt(variances)[:, None] / weights.sum(axis=0)
    part = Component("judge", covariance=noise.T @ noise)
    influence = result.influence
    return replace(result, influence=replace(influence, components=(*influence.components, part)))


class _Line:
    """Least squares of the reward on the score."""

    def fit(self, X: FloatArray, y: FloatArray) -> _Line:
        design = np.column_stack([np.ones(len(X)), X[:, 0]])
        self.coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.coefficients[0] + self.coefficients[1] * X[:, 0])


class _Constant:
    """The mean reward."""

    def fit(self, X: FloatArray, y: FloatArray) -> _Constant:
        self.mean = float(y.mean())
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return np.full(len(X), self.mean)


_OUTCOMES: dict[str, Callable[[], Any] | None] = {
    "calibrated": None,
    "linear": _Line,
    "constant": _Constant,
}
