r"""`UncertaintyAwareDRCPO`: policy values from a noisy judge, a few labels and importance weights.

For target k with weights w (shrunk to :math:`w^*` where the judge is unsure), calibrated reward
R = f(S) and labels Y on a random slice L of known propensity :math:`\pi`,

.. math:: \hat V = \underbrace{\frac{\sum w^* R}{\sum w^*}}_{\text{or } \bar q(\text{fresh})
          + \sum w^*(R - q)/\sum w^*} + \frac{\sum (L/\pi) w^* (Y - f)}{\sum (L/\pi) w^*}.

The last term is always there: while labels are a random sample, a wrong f does no harm. With the
target's own draws (`fresh_judge_scores`) the first term is doubly robust. Without them nothing
saves wrong weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cje.data.judge_score import JudgeScore, JudgeScores
from cje.diagnostics.overlap import effective_sample_size
from cje.inference import SAMPLING, Component, InfluenceEstimate
from cje.kernels.arrays import FloatArray
from cje.uncertainty.calibration import Gamma, apply_variance_scaling, calibrate_variance_gamma
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.crossfit import CrossFit, Located, fit_calibration
from cje.uncertainty.inputs import FreshIds, FreshScores, Inputs, check_inputs
from cje.uncertainty.results import MultiPolicyUncertaintyResult, build_result
from cje.uncertainty.shrinkage import (
    Shrinkage,
    adaptive_shrinkage,
    apply_shrinkage,
    covariance_shrinkage,
    optimal_lambda,
)
from cje.uncertainty.weighted_value import WeightedValue

__all__ = ["UncertaintyAwareDRCPO"]


@dataclass(frozen=True)
class PolicyFit:
    """One policy's estimate before inference: its value and the two parts of its influence."""

    value: float
    sampling: FloatArray  # by cluster: what the rows (and fresh draws) contribute
    judging: FloatArray  # by cluster: what the labels' residuals contribute
    reported_noise: FloatArray  # by row: w* sqrt(v) / sum w*
    weights: FloatArray  # by row: w*
    rewards: FloatArray  # by row: calibrated
    shrinkage: Shrinkage


class UncertaintyAwareDRCPO:
    """Estimate the values of several policies with honest uncertainty.

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
            Covariates of the prompt, for a better calibration. Values stay right without it.
        judge_scores : JudgeScores or iterable of JudgeScore
            One a logged response.
        oracle_rewards : array (n,)
            Labels on [0, 1]; NaN where there is none.
        importance_weights : array (n,) or (n, K)
            target / logging probability of every logged response.
        policy_names : sequence of str, optional
        fresh_judge_scores : one `JudgeScores` a policy (mapping or sequence), optional
            Scores of the target's own responses. Without any ids, a set of n draws is taken to
            answer the logged prompts in their order.
        label_propensity : array (n,) or number, optional
            Probability that each row was labelled (default: the share of labelled rows).
        prompt_ids : sequence of str, optional
            Rows with one id are one cluster; folds then follow the ids, not the row order.
        fresh_prompt_ids : one sequence of str a policy, optional
            Prompts of the fresh draws; used together with `prompt_ids`.
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
        model, gamma = self._calibrate(inputs)
        variances = apply_variance_scaling(inputs.scores.variance, gamma)
        located = model.locate(inputs.scores.mean)
        fits = [
            self._fit_policy(inputs, model, located, variances, k) for k in range(len(inputs.names))
        ]
        influence = _join(self.config, inputs.names, fits)
        return build_result(
            self.config, self.estimator_type, inputs, gamma, variances, fits, influence
        )

    def _calibrate(self, inputs: Inputs) -> tuple[CrossFit, Gamma]:
        rows, propensity = inputs.labelled, inputs.propensity
        weights = None if np.ptp(propensity) == 0.0 else 1.0 / propensity
        model = fit_calibration(
            inputs.scores.mean[rows],
            inputs.labels,
            inputs.label_folds,
            inputs.n_folds,
            weights=weights,
            covariates=None if inputs.covariates is None else inputs.covariates[rows],
        )
        if not self.config.calibrate_variance:
            return model, Gamma(1.0, identified=False)
        stated = inputs.scores.variance[rows]
        return model, calibrate_variance_gamma(inputs.labels, model.held_out, stated, weights)

    def _fit_policy(
        self,
        inputs: Inputs,
        model: CrossFit,
        located: Located,
        variances: FloatArray,
        k: int,
    ) -> PolicyFit:
        raw = _mean_one(inputs.weights[:, k])
        plain = WeightedValue(self.config, inputs, model, located, raw, k)
        shrinkage, weights = self._shrink(plain, raw, variances)
        final = plain if shrinkage.lam == 0.0 else plain.with_weights(weights)
        shrinkage = replace(shrinkage, bias=final.value - plain.value)
        sampling, judging = final.influence()
        noise = weights * np.sqrt(variances) / float(weights.sum())
        return PolicyFit(final.value, sampling, judging, noise, weights, final.rewards, shrinkage)

    def _shrink(
        self, plain: WeightedValue, raw: FloatArray, variances: FloatArray
    ) -> tuple[Shrinkage, FloatArray]:
        config, before = self.config, effective_sample_size(raw)
        lam, reached = 0.0, True
        if config.use_variance_shrinkage:
            if config.shrinkage_method == "fixed":
                lam = config.fixed_shrinkage_lambda
            elif config.shrinkage_method == "covariance":
                lam = covariance_shrinkage(raw, plain.rewards, variances)
            else:
                lam = optimal_lambda(raw, plain.deviations(), variances)
                if config.shrinkage_method == "adaptive":
                    lam, reached = adaptive_shrinkage(
                        raw, variances, config.min_ess_ratio, start=lam
                    )
        if lam == 0.0:
            return Shrinkage(0.0, before, before, 0.0, reached), raw
        weights = apply_shrinkage(raw, variances, lam)
        return Shrinkage(lam, before, effective_sample_size(weights), 0.0, reached), weights


def _mean_one(column: FloatArray) -> FloatArray:
    """Weights scaled to mean one: the estimate does not change, and no square can overflow."""
    weights: FloatArray = column / column.max()
    weights /= weights.mean()
    return weights


def _join(
    config: UncertaintyEstimatorConfig, names: tuple[str, ...], fits: Sequence[PolicyFit]
) -> InfluenceEstimate:
    """All policies as one estimate, so that shared rows cancel in differences."""
    influence = np.stack([fit.sampling + fit.judging for fit in fits], axis=1)
    components = [Component(SAMPLING, influence)]
    if config.standard_error == "twice":
        noise = np.stack([fit.reported_noise for fit in fits], axis=1)
        components.append(Component("judge", covariance=noise.T @ noise))
    values = np.clip([fit.value for fit in fits], 0.0, 1.0)
    return InfluenceEstimate(names, values, tuple(components), bounds=(0.0, 1.0))
