"""`calibrated-ips`: weights projected on the judge score (SIMCal), calibrated rewards."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cje.calibration.weights.oracle_slice import OracleSliceConfig
from cje.calibration.weights.simcal import SimcalConfig, SIMCalibrator
from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.kernels.arrays import FloatArray

__all__ = ["CalibratedIPS"]


class CalibratedIPS(OffPolicyEstimator):
    r"""Self-normalised IPS with weights projected on the score, :math:`m(S) \approx E[W | S]`.

    Because the reward is a function of S, :math:`E[W f(S)] = E[m(S) f(S)]`: the projection keeps
    the estimand and evens the weights. It removes none of the sampling uncertainty of the mean of
    W f(S), so standard errors come from the *raw* weights' influence,
    :math:`\psi_i = \tilde W_i (R_i - \hat V)/n`; from the projected weights alone they would be far
    too short. The projection is cross-fitted over folds of prompts. The labels' uncertainty is
    added by jackknife (``robust_standard_errors``).

    Parameters
    ----------
    oracle_slice_config : OracleSliceConfig, optional
        With ``enable_augmentation=True`` the label part, the mean of ``(L / pi) W (Y - f(S))``
        (``use_projected_weights``: m(S) in place of W), belongs to the influence function; no
        jackknife is added. Rewards are cross-fitted whatever
        ``enable_cross_fit`` says: in-sample residuals would be too small.
    simcal_config : SimcalConfig, optional

    Notes
    -----
    Other parameters as in `OffPolicyEstimator`.
    """

    name: ClassVar[str] = "calibrated-ips"

    def __init__(
        self,
        *args: Any,
        oracle_slice_config: OracleSliceConfig | None = None,
        simcal_config: SimcalConfig | None = None,
        **options: Any,
    ) -> None:
        if oracle_slice_config is not None:
            options.setdefault("use_mar", oracle_slice_config.use_mar)
            options.setdefault("min_pi", oracle_slice_config.min_pi)
        super().__init__(*args, **options)
        self.oracle_slice_config = oracle_slice_config
        self.simcal_config = simcal_config

    def label_weights(self, problem: Problem) -> tuple[FloatArray, bool]:
        config = self.oracle_slice_config
        if config is None or not config.enable_augmentation:
            return super().label_weights(problem)
        if config.use_projected_weights:
            return problem.projected, True
        return problem.logged.weights, True

    def fit(self, problem: Problem) -> Fit:
        logged, each, n = problem.logged, problem.rewards.each, len(problem.logged)
        weights, info = self._projected(problem)
        label_weights, _ = self.label_weights(problem)
        term = problem.term(label_weights)
        shared = each @ term.shares
        rows = logged.weights * (shared - (logged.weights * shared).mean(axis=0)) / n
        return self.assemble(
            problem,
            each.T @ weights / n,
            logged.cluster_influence(rows, problem.n_clusters),
            term,
            problem.sensitivity_logged(weights / n),
            {"simcal": _plain(info), "calibrated_ess_fraction": _ess_fraction(problem, weights)},
        )

    def weighted_outcome(self, problem: Problem) -> FloatArray:
        return np.tile(problem.rewards.out_of_fold[:, None], len(problem.logged.policies))

    def _projected(self, problem: Problem) -> tuple[FloatArray, dict[str, Any]]:
        """Cross-fitted m(S), mean one: each fold's from a projection that never saw its weights.

        The second value describes the projection on all rows.
        """
        logged, reward = problem.logged, problem.rewards.out_of_fold
        config = self.simcal_config or SimcalConfig(n_folds=self.n_folds, include_baseline=False)
        _, info = SIMCalibrator(config).transform(
            logged.weights, logged.scores, rewards=reward, fold_ids=logged.folds
        )
        weights = np.empty_like(logged.weights)
        for fold in range(logged.n_folds):
            held = logged.folds == fold
            others = np.unique(logged.folds[~held], return_inverse=True)[1]
            if not held.any():
                continue
            if others.max(initial=0) == 0:
                raise CJEError(
                    "the logged prompts fill too few folds to project weights out of fold",
                    hint="log more prompts, or lower n_folds",
                )
            fitted = SIMCalibrator(config).fit(
                logged.weights[~held], logged.scores[~held], rewards=reward[~held], fold_ids=others
            )
            weights[held] = fitted.predict(logged.weights[held], logged.scores[held])
        return weights / weights.mean(axis=0), info


def _ess_fraction(problem: Problem, weights: FloatArray) -> dict[str, float]:
    fractions = 1.0 / np.mean(weights**2, axis=0)
    return dict(zip(problem.logged.policies, fractions.tolist(), strict=True))


def _plain(info: Any) -> Any:
    """Plain JSON types."""
    if isinstance(info, dict):
        return {str(key): _plain(value) for key, value in info.items()}
    if isinstance(info, list | tuple):
        return [_plain(value) for value in info]
    return info.tolist() if isinstance(info, np.ndarray | np.generic) else info
