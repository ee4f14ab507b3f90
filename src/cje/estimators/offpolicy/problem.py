"""`Problem`: what every off-policy formula needs; `Fit`: what a formula returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.calibration.weights.simcal import SimcalConfig, SIMCalibrator
from cje.diagnostics.judge_variance import Gamma, calibrate_variance_gamma
from cje.estimators.offpolicy.label_term import (
    CalibrationSensitivity,
    LabelTerm,
    label_term,
)
from cje.estimators.offpolicy.logged import FreshDraws, LoggedRows
from cje.estimators.offpolicy.rewards import Rewards
from cje.inference import LABELS, Component
from cje.kernels.arrays import FloatArray

__all__ = ["Fit", "Problem"]


@dataclass(frozen=True)
class Problem:
    """Everything a formula needs: logged rows, rewards, fresh draws, clusters."""

    logged: LoggedRows
    rewards: Rewards
    fresh: tuple[FreshDraws, ...]
    cluster_names: Sequence[str]
    target_models: Mapping[str, CrossFittedRewardModel] = field(default_factory=dict)
    judge_variance: FloatArray | None = None
    label_noise: float | None = None

    @cached_property
    def gamma(self) -> Gamma | None:
        """The judge's errors beside its stated variances; None where it states none."""
        if self.judge_variance is None:
            return None
        rows = self.logged.labelled
        return calibrate_variance_gamma(
            self.logged.labels[rows],
            self.rewards.out_of_fold[rows],
            self.judge_variance[rows],
            1.0 / self.logged.propensity[rows],
            label_noise=self.label_noise,
        )

    @property
    def n_clusters(self) -> int:
        """Prompts, logged and fresh together."""
        return len(self.cluster_names)

    @cached_property
    def projected(self) -> FloatArray:
        """(n, K) estimates of m(S) = E[W | S], mean one."""
        weights, _ = SIMCalibrator(SimcalConfig(include_baseline=False)).fit_transform(
            self.logged.weights, self.logged.scores, fold_ids=self.logged.folds
        )
        return np.asarray(weights)

    @cached_property
    def fresh_rewards(self) -> tuple[FloatArray, ...]:
        """Every fold model on every target's fresh draws, (n', V) each."""
        return tuple(self.rewards.fresh(draws) for draws in self.fresh)

    @cached_property
    def pooled(self) -> FloatArray:
        """(n,) f fitted on all labels, of every logged row."""
        return self.rewards.model.predict(self.logged.scores, self.logged.covariates)

    def sensitivity(self, predicted: FloatArray, target: FloatArray) -> CalibrationSensitivity:
        """How labels move a target of rows `predicted` and weights `target`."""
        logged, rows = self.logged, self.logged.labelled
        return CalibrationSensitivity(
            predicted, target, self.pooled[rows], 1.0 / logged.propensity[rows]
        )

    def sensitivity_logged(self, weights: FloatArray) -> list[CalibrationSensitivity]:
        """Targets made of logged rows with weights (n, K)."""
        return [self.sensitivity(self.pooled, column) for column in weights.T]

    @cached_property
    def sensitivity_fresh(self) -> list[CalibrationSensitivity]:
        """Targets made of fresh draws."""
        predict = self.rewards.model.predict
        return [self.sensitivity(predict(d.scores, d.covariates), d.weight) for d in self.fresh]

    @property
    def all_labelled(self) -> bool:
        """Every logged row has a label."""
        return bool(self.logged.labelled.all())

    def term(self, weights: FloatArray, out_of_fold: FloatArray | None = None) -> LabelTerm:
        """The labels' part with label weights M (n, K)."""
        fitted = self.rewards.out_of_fold if out_of_fold is None else out_of_fold
        return label_term(self.logged, fitted, weights, self.n_clusters)


@dataclass(frozen=True)
class Fit:
    """What a formula returns.

    Attributes
    ----------
    values : array (K,)
    components : tuple of Component
        Sampling, and the labels: as oracle uncertainty (``"labels"``) or, of a rectified
        estimator, as part of its sample (``"sample labels"``).
    diagnostics : mapping
    """

    values: FloatArray
    components: tuple[Component, ...]
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labels_apart(self) -> bool:
        """Whether the labels are oracle uncertainty."""
        return any(part.kind == LABELS for part in self.components)
