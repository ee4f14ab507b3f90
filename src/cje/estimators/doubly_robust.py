"""`dr-cpo`: the direct mean of an outcome model on fresh draws plus its weighted residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.estimators.importance import weighted_leave_out
from cje.estimators.offpolicy import Fit, OffPolicyEstimator, Problem
from cje.estimators.outcome import Outcome, Regressor, calibration_outcome, learned_outcome

__all__ = ["DRCPOEstimator", "direct_part", "residual_part"]

FloatArray = NDArray[np.float64]


def direct_part(
    problem: Problem, fresh_rewards: tuple[FloatArray, ...]
) -> tuple[FloatArray, FloatArray]:
    """Mean over prompts of the predicted reward of fresh draws: values (K,), influence (G, K).

    Prompts are the clusters, so the spread between prompts already contains the Monte Carlo
    variance of the finite number of draws on each.
    """
    pairs = list(zip(problem.fresh, fresh_rewards, strict=True))
    values = np.array([float(draws.weight @ reward) for draws, reward in pairs])
    influence = np.column_stack(
        [draws.cluster_influence(reward, problem.n_clusters) for draws, reward in pairs]
    )
    return values, influence


def residual_part(problem: Problem, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Self-normalised weighted mean of a residual, (n,) or (n, K), on the logged rows."""
    logged = problem.logged
    column = residual[:, None] if residual.ndim == 1 else residual
    values = (logged.weights * column).mean(axis=0)
    rows = logged.weights * (column - values) / len(logged)
    return values, logged.cluster_influence(rows, problem.n_clusters)


class DRCPOEstimator(OffPolicyEstimator):
    r"""Doubly robust value with a cross-fitted outcome model q and fresh draws.

    .. math:: \hat V = \frac1m \sum_j \bar q(\text{fresh}_j)
              + \frac{\sum_i W_i (R_i - q(S_i))}{\sum_i W_i}

    Right where either q predicts the reward of the target's responses or the weights are right;
    both rest on E[Y | S] carrying over from the labelled rows (see `tr-cpo` for labels that check
    it). R = f(S) is a plug-in, so the labels' uncertainty is added by jackknife; with every row
    labelled R = Y and the influence has it already.

    Parameters
    ----------
    outcome_model : callable, optional
        Makes a regressor with `fit` and `predict` on (score, covariates). By default q is the
        calibration itself, cross-fitted.

    Other parameters as in `OffPolicyEstimator`.

    References
    ----------
    Robins, Rotnitzky & Zhao (1994), JASA 89, 846-866; Dudik, Langford & Li (2011), ICML;
    Chernozhukov et al. (2018), Econometrics Journal 21, C1-C68.
    """

    name: ClassVar[str] = "dr-cpo"
    needs_fresh: ClassVar[bool] = True

    def __init__(
        self, *args: Any, outcome_model: Callable[[], Regressor] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.outcome_model = outcome_model

    def outcome(self, problem: Problem) -> Outcome:
        """Cross-fitted predictions of the chosen outcome model."""
        if self.outcome_model is None:
            return calibration_outcome(problem)
        return learned_outcome(problem, self.outcome_model)

    def fit(self, problem: Problem) -> Fit:
        outcome = self.outcome(problem)
        direct, direct_influence = direct_part(problem, outcome.fresh)
        residual, residual_influence = residual_part(problem, problem.rewards.full - outcome.logged)
        return Fit(
            direct + residual,
            direct_influence + residual_influence,
            self.leave_out(problem, direct - residual_offset(problem, outcome)),
            {
                "direct_part": dict(zip(problem.logged.policies, direct.tolist(), strict=True)),
                "residual_part": dict(zip(problem.logged.policies, residual.tolist(), strict=True)),
                "draws_per_prompt": {
                    name: draws.draws_per_prompt
                    for name, draws in zip(problem.logged.policies, problem.fresh, strict=True)
                },
            },
        )

    def leave_out(self, problem: Problem, fixed: FloatArray) -> FloatArray | None:
        """Values without each group of labels.

        Where q is the calibration, leaving labels out changes q and R alike and their difference
        vanishes; a learned q stays as it is (`fixed` is its part of the value) and R changes.
        """
        if problem.rewards.kind == "labels":
            return None
        if self.outcome_model is not None:
            weighted = weighted_leave_out(problem, problem.logged.weights)
            return None if weighted is None else weighted + fixed
        return np.stack(
            [
                problem.fresh_means(lambda d, m=model: m.predict(d.scores, d.covariates))  # type: ignore[misc]
                for model in problem.rewards.jackknife
            ]
        )


def residual_offset(problem: Problem, outcome: Outcome) -> FloatArray:
    """(K,) weighted mean of q on the logged rows."""
    return np.asarray(outcome.logged @ problem.logged.weights / len(problem.logged))
