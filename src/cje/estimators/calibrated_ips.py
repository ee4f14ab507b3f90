"""`calibrated-ips`: weights projected on the judge score (SIMCal), calibrated rewards."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cje.calibration.oracle_slice import OracleSliceConfig, augmentation, weight_given_score
from cje.calibration.simcal import SimcalConfig, SIMCalibrator
from cje.estimators.importance import weighted_leave_out
from cje.estimators.offpolicy import Fit, OffPolicyEstimator, Problem

__all__ = ["CalibratedIPS"]


class CalibratedIPS(OffPolicyEstimator):
    r"""Self-normalised IPS with weights projected on the score, :math:`m(S) \approx E[W | S]`.

    Because the reward is a function of S, :math:`E[W f(S)] = E[m(S) f(S)]`: the projection keeps
    the estimand and evens the weights. It removes none of the sampling uncertainty of the mean of
    W f(S), so standard errors come from the *raw* weights' influence,
    :math:`\psi_i = \tilde W_i (R_i - \hat V)/n`; from the projected weights alone they would be far
    too short. The labels' uncertainty is added by jackknife (``robust_standard_errors``).

    Parameters
    ----------
    sampler : PrecomputedSampler
    oua_jackknife : bool
        Add the labels' uncertainty by jackknife.
    oracle_slice_config : OracleSliceConfig, optional
        With ``enable_augmentation=True`` adds the mean of ``(L / pi) W (Y - f(S))``: the label term
        is then part of the influence function, and no jackknife is added.
    simcal_config : SimcalConfig, optional
    augmentation_weight : {"raw", "projected"}
        W itself, or m(S) in its place: the smaller variance, but unbiased only if W and Y are
        uncorrelated given S.

    Other parameters as in `OffPolicyEstimator`.
    """

    name: ClassVar[str] = "calibrated-ips"

    def __init__(
        self,
        *args: Any,
        oracle_slice_config: OracleSliceConfig | None = None,
        simcal_config: SimcalConfig | None = None,
        augmentation_weight: str = "raw",
        **options: Any,
    ) -> None:
        if oracle_slice_config is not None:
            options.setdefault("use_mar", oracle_slice_config.use_mar)
        super().__init__(*args, **options)
        self.oracle_slice_config = oracle_slice_config
        self.simcal_config = simcal_config
        self.augmentation_weight = augmentation_weight

    def fit(self, problem: Problem) -> Fit:
        logged, n = problem.logged, len(problem.logged)
        reward = problem.rewards.full
        calibrator = SIMCalibrator(self.simcal_config or SimcalConfig(n_folds=self.n_folds))
        weights, info = calibrator.transform(
            logged.weights, logged.scores, rewards=reward, fold_ids=logged.folds
        )
        weights = weights / weights.mean(axis=0)
        values = reward @ weights / n
        rows = logged.weights * (reward[:, None] - values) / n
        leave_out = weighted_leave_out(problem, weights)
        config = self.oracle_slice_config
        if config is not None and config.enable_augmentation:
            values, rows = self._augmented(problem, values, rows)
            leave_out = None
        return Fit(
            values,
            logged.cluster_influence(rows, problem.n_clusters),
            leave_out,
            {"simcal": info, "calibrated_ess_fraction": _ess_fraction(weights)},
        )

    def _augmented(
        self, problem: Problem, values: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Add the mean label correction of each policy, and its influence."""
        logged, n = problem.logged, len(problem.logged)
        config = self.oracle_slice_config
        assert config is not None
        fitted = problem.rewards.out_of_fold if config.enable_cross_fit else problem.rewards.full
        propensity = np.maximum(logged.propensity, config.min_pi)
        values, rows = values.copy(), rows.copy()
        for k in range(len(logged.policies)):
            weight = logged.weights[:, k]
            if self.augmentation_weight == "projected":
                weight = weight_given_score(weight, logged.scores, logged.folds)
            term = augmentation(logged.labels, logged.labelled, fitted, weight, propensity)
            values[k] += term.mean()
            rows[:, k] += (term - term.mean()) / n
        return values, rows


def _ess_fraction(weights: np.ndarray[Any, Any]) -> list[float]:
    return [float(x) for x in 1.0 / np.mean(weights**2, axis=0)]
