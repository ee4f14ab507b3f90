"""`ips` and `snips`: importance weighting, unnormalised and self-normalised."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.estimators.offpolicy.weight_bias import factor_bias
from cje.inference import SAMPLING, Component
from cje.kernels.arrays import FloatArray

__all__ = ["IPSEstimator", "SNIPSEstimator"]


class IPSEstimator(OffPolicyEstimator):
    r"""Inverse propensity scoring, :math:`\hat V = \frac1n \sum_i W_i R_i` plus the label part.

    Unbiased for the mean reward where the log-probs are exact; a constant factor in the weights
    multiplies the estimate, so no shift of the log-ratios is ever applied.

    Influence: :math:`\psi_i = (W_i R_i - \hat V)/n`. Assumption: the target's support lies within
    the logging policy's. A factor that the mean weight shows enters the variance.

    References
    ----------
    Horvitz & Thompson (1952), JASA 47, 663-685.
    """

    name: ClassVar[str] = "ips"
    bounded: ClassVar[bool] = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.shrinkage is not None:
            raise CJEError(
                "ips does not shrink weights: a factor common to them moves the estimate",
                hint="use snips, or leave shrinkage out",
            )

    def weight_bias(self, problem: Problem, fit: Fit) -> list[Component]:
        """Of the part of the value that a factor common to the weights would multiply."""
        logged = problem.logged
        if problem.all_labelled:
            return factor_bias(logged, fit.values)
        weights, _ = self.label_weights(problem)
        return factor_bias(logged, fit.values - problem.term(weights).correction)

    def fit(self, problem: Problem) -> Fit:
        logged, each, n = problem.logged, problem.rewards.each, len(problem.logged)
        if problem.all_labelled:
            terms = logged.raw * logged.labels[:, None]
            rows = (terms - terms.mean(axis=0)) / n
            influence = logged.cluster_influence(rows, problem.n_clusters)
            return Fit(terms.mean(axis=0), (Component(SAMPLING, influence),))
        weights, _ = self.label_weights(problem)
        term = problem.term(weights)
        terms = logged.raw * (each @ term.shares)
        rows = (terms - terms.mean(axis=0)) / n
        influence = logged.cluster_influence(rows, problem.n_clusters)
        sensitivities = problem.sensitivity_logged(logged.raw / n)
        return self.assemble(problem, each.T @ logged.raw / n, influence, term, sensitivities)


class SNIPSEstimator(OffPolicyEstimator):
    r"""Self-normalised IPS, :math:`\hat V = \sum_i W_i R_i / \sum_i W_i` plus the label part.

    A constant factor in the weights cancels. `log_ratio_shift` subtracts the 75th percentile of the
    log-ratios before the hard clip, so that the clip acts on the largest ratios relative to the
    bulk; only self-normalisation makes such a shift harmless.

    Influence of the ratio: :math:`\psi_i = \tilde W_i (R_i - \hat V)/n` with mean-one
    :math:`\tilde W`; a bootstrap with the normaliser frozen would be several times too wide.

    Parameters
    ----------
    log_ratio_shift : bool

    Notes
    -----
    Other parameters as in `OffPolicyEstimator`.

    References
    ----------
    Hajek (1971); Swaminathan & Joachims (2015), NeurIPS.
    """

    name: ClassVar[str] = "snips"

    def __init__(
        self,
        *args: Any,
        log_ratio_shift: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.log_ratio_shift = log_ratio_shift

    def weighted_outcome(self, problem: Problem) -> FloatArray:
        return np.tile(problem.rewards.out_of_fold[:, None], len(problem.logged.policies))

    def fit(self, problem: Problem) -> Fit:
        logged, each, n = problem.logged, problem.rewards.each, len(problem.logged)
        weights = self._shifted() if self.log_ratio_shift else logged.weights
        if problem.all_labelled:
            values = logged.labels @ weights / n
            rows = weights * (logged.labels[:, None] - values) / n
            influence = logged.cluster_influence(rows, problem.n_clusters)
            return Fit(values, (Component(SAMPLING, influence),))
        label_weights, _ = self.label_weights(problem)
        term = problem.term(label_weights)
        reward = each @ term.shares
        rows = weights * (reward - (weights * reward).mean(axis=0)) / n
        influence = logged.cluster_influence(rows, problem.n_clusters)
        sensitivities = problem.sensitivity_logged(weights / n)
        return self.assemble(problem, each.T @ weights / n, influence, term, sensitivities)

    def _shifted(self) -> FloatArray:
        ratios = self.sampler.log_ratios(clipped=False)
        shifted = ratios - np.quantile(ratios, 0.75, axis=0)
        clip = self.sampler.log_ratio_clip
        weights = np.exp(np.clip(shifted, -clip, clip))
        total = weights.mean(axis=0)
        if not (total > 0).all():
            raise CJEError("all importance weights vanish", hint="check the log-probs")
        return np.asarray(weights / total)
