"""`tmle`: the outcome model is shifted until its weighted residual vanishes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.estimators.doubly_robust import DRCPOEstimator, direct_part, residual_part
from cje.estimators.offpolicy import Fit, Problem

__all__ = ["TMLEEstimator", "fluctuation"]

FloatArray = NDArray[np.float64]

_EDGE = 1e-6


def fluctuation(reward: FloatArray, predicted: FloatArray, weights: FloatArray) -> float:
    r"""The shift :math:`\epsilon` with :math:`\sum_i W_i (R_i - expit(logit(q_i) + \epsilon)) = 0`.

    The left side falls in :math:`\epsilon`, so bisection on [-20, 20] always finds it; where even
    that range does not suffice (all rewards 0 or all 1) the end of the range is returned.
    """
    from scipy.special import expit, logit

    base = logit(np.clip(predicted, _EDGE, 1.0 - _EDGE))
    target = float(weights @ reward)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(weights @ expit(base + middle)) < target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


class TMLEEstimator(DRCPOEstimator):
    r"""Targeted estimate: :math:`\hat V_k = \frac1m \sum_j \bar q^*_k(\text{fresh}_j)`.

    :math:`q^* = expit(logit\,q + \epsilon_k)` with the weights in the fit of :math:`\epsilon_k`
    (the weighted form of the clever covariate, which needs no weight of a fresh draw). The value
    stays within [0, 1] and the weighted residual is zero, so the influence is that of the doubly
    robust estimator with :math:`q^*`.

    References
    ----------
    van der Laan & Rubin (2006), Int. J. Biostatistics 2(1).
    """

    name: ClassVar[str] = "tmle"

    def fit(self, problem: Problem) -> Fit:
        from scipy.special import expit, logit

        outcome = self.outcome(problem)
        logged, reward = problem.logged, problem.rewards.full
        shifts = np.array(
            [
                fluctuation(reward, outcome.logged, logged.weights[:, k])
                for k in range(len(logged.policies))
            ]
        )

        def shifted(q: FloatArray, by: FloatArray | float) -> FloatArray:
            return np.asarray(expit(logit(np.clip(q, _EDGE, 1.0 - _EDGE)) + by))

        at_fresh = tuple(shifted(q, e) for q, e in zip(outcome.fresh, shifts, strict=True))
        at_logged = shifted(outcome.logged[:, None], shifts)
        direct, direct_influence = direct_part(problem, at_fresh)
        _, residual_influence = residual_part(problem, reward[:, None] - at_logged)
        plain, _ = direct_part(problem, outcome.fresh)
        offset = outcome.logged @ logged.weights / len(logged)
        return Fit(
            direct,
            direct_influence + residual_influence,
            self.leave_out(problem, plain - offset),
            {"fluctuation": dict(zip(logged.policies, shifts.tolist(), strict=True))},
        )
