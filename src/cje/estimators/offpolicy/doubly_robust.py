"""`dr-cpo`: the direct mean of an outcome model on fresh draws plus its weighted residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.label_term import LabelTerm
from cje.estimators.offpolicy.outcome import Outcome, Regressor, learned_outcome
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.kernels.arrays import FloatArray

__all__ = ["DRCPOEstimator", "fresh_influence", "fresh_means"]


def fresh_means(problem: Problem) -> FloatArray:
    """(V, K) means over prompts of every fold model on every target's fresh draws."""
    pairs = zip(problem.fresh, problem.fresh_rewards, strict=True)
    return np.column_stack([draws.weight @ each for draws, each in pairs])


def fresh_influence(problem: Problem, rewards: list[FloatArray]) -> FloatArray:
    """Influence (G, K) of the mean over prompts of the rewards of fresh draws.

    Prompts are the clusters, so the spread between prompts already contains the Monte Carlo
    variance of the finite number of draws on each.
    """
    return np.column_stack(
        [
            draws.cluster_influence(reward, problem.n_clusters)
            for draws, reward in zip(problem.fresh, rewards, strict=True)
        ]
    )


class DRCPOEstimator(OffPolicyEstimator):
    r"""Doubly robust value with an outcome model q and fresh draws.

    .. math:: \hat V = \frac1m \sum_j \bar q(\text{fresh}_j)
              + \frac{\sum_i W_i (R_i - q_i)}{\sum_i W_i} + \hat c

    The reward R = f(S) is a function of the score, which fresh draws have too; so the best q is f
    itself and the middle term vanishes (the default). With a learned q the value is right where
    either q predicts the reward of the target's responses or the weights are right. The label part
    c removes the first-order error of f (see `label_term`) and, weighted by W, the difference of
    E[Y | S] at the target; its uncertainty is added by jackknife, or is in the influence function
    where every row is labelled.

    Parameters
    ----------
    outcome_model : callable, optional
        Makes a regressor with `fit` and `predict` on (score, covariates).

    Notes
    -----
    Other parameters as in `OffPolicyEstimator`.

    References
    ----------
    Robins, Rotnitzky & Zhao (1994), JASA 89, 846-866; Dudik, Langford & Li (2011), ICML;
    Chernozhukov et al. (2018), Econometrics Journal 21, C1-C68.
    """

    name: ClassVar[str] = "dr-cpo"
    needs_fresh: ClassVar[bool] = True
    heavy_tail_refuses: bool = False

    def __init__(
        self, *args: Any, outcome_model: Callable[[], Regressor] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.outcome_model = outcome_model
        if outcome_model is not None:  # averages W (R - q), not m(S) alone
            self.heavy_tail_refuses = True

    def fit(self, problem: Problem) -> Fit:
        label_weights, _ = self.label_weights(problem)
        term = problem.term(label_weights)
        draws = {
            name: d.draws_per_prompt
            for name, d in zip(problem.logged.policies, problem.fresh, strict=True)
        }
        if self.outcome_model is not None:
            outcome = learned_outcome(problem, self.outcome_model)
            means, influence = self._learned(problem, term, outcome)
            sensitivities = problem.sensitivity_logged(problem.logged.weights / len(problem.logged))
        else:
            means = fresh_means(problem)
            rewards = [f @ term.shares[:, k] for k, f in enumerate(problem.fresh_rewards)]
            influence = fresh_influence(problem, rewards)
            sensitivities = problem.sensitivity_fresh
        found = {"draws_per_prompt": draws}
        return self.assemble(problem, means, influence, term, sensitivities, found)

    def weighted_outcome(self, problem: Problem) -> FloatArray:
        if self.outcome_model is None:
            return super().weighted_outcome(problem)
        outcome = learned_outcome(problem, self.outcome_model)
        left = problem.rewards.out_of_fold - outcome.logged
        return np.tile(left[:, None], len(problem.logged.policies))

    def _learned(
        self, problem: Problem, term: LabelTerm, outcome: Outcome
    ) -> tuple[FloatArray, FloatArray]:
        """Fold means and influence with a learned outcome model."""
        logged, each, n = problem.logged, problem.rewards.each, len(problem.logged)
        direct = [float(d.weight @ q) for d, q in zip(problem.fresh, outcome.fresh, strict=True)]
        weighted = outcome.logged @ logged.weights / n
        residual = each @ term.shares - outcome.logged[:, None]
        rows = logged.weights * (residual - (logged.weights * residual).mean(axis=0)) / n
        influence = logged.cluster_influence(rows, problem.n_clusters)
        influence += fresh_influence(problem, list(outcome.fresh))
        return each.T @ logged.weights / n + (np.array(direct) - weighted), influence
