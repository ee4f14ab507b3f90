"""The frame of every off-policy estimator: prepare once, fit a formula, gate, report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.data import Dataset, PrecomputedSampler
from cje.diagnostics import (
    GateThresholds,
    calibration_fit,
    effective_sample_size,
    rater_agreement,
    score_overlap,
    score_overlap_findings,
    weight_diagnostics,
    weight_findings,
)
from cje.errors import CJEError
from cje.estimators.logged import FreshDraws, LoggedRows, prepare_fresh, prepare_logged
from cje.estimators.result import EstimationResult
from cje.estimators.rewards import Rewards, fit_rewards
from cje.inference import Finding, InfluenceEstimate, Severity, fold_jackknife_covariance

__all__ = ["Fit", "OffPolicyEstimator", "Problem"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Everything a formula needs: logged rows, rewards, fresh draws, clusters."""

    logged: LoggedRows
    rewards: Rewards
    fresh: tuple[FreshDraws, ...]
    cluster_names: Sequence[str]

    @property
    def n_clusters(self) -> int:
        """Prompts, logged and fresh together."""
        return len(self.cluster_names)

    def fresh_means(self, reward: Callable[[FreshDraws], FloatArray]) -> FloatArray:
        """(K,) prompt-averaged reward of each target's fresh draws."""
        return np.array([float(draws.weight @ reward(draws)) for draws in self.fresh])


@dataclass(frozen=True)
class Fit:
    """What a formula returns.

    Attributes
    ----------
    values : array (K,)
    influence : array (G, K)
        Sum convention, one row a prompt.
    leave_out : array (J, K), optional
        Values recomputed without each group of labels: present exactly where the influence lacks
        the label term. A rectified estimator has it already.
    diagnostics : mapping
    """

    values: FloatArray
    influence: FloatArray
    leave_out: FloatArray | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


class OffPolicyEstimator(ABC):
    """Base of the estimators that weigh logged responses.

    Parameters
    ----------
    sampler : PrecomputedSampler
        Logged rows with log-probs and, on a slice, labels.
    fresh_draws : Dataset, optional
        Judged responses of the target policies; needed by the doubly robust family.
    oua_jackknife : bool
        Add the uncertainty of the calibration's labels by a delete-one-group jackknife, where the
        influence function lacks it.
    oua_groups : int
        Groups of that jackknife.
    calibration_mode : {"auto", "monotone", "two_stage"}
    covariates : sequence of str
        Columns that enter the calibration beside the score (two-stage mode).
    n_folds, seed : int
        Cross-fitting.
    same_as_logging : sequence of str
        Targets configured exactly like the logging policy (A/A checks): identical weights allowed.
    use_mar : bool
        Estimate the labelling propensity from the score where the data do not give it.
    level : float
        Of the intervals.
    thresholds : GateThresholds, optional
    """

    name: ClassVar[str]
    needs_fresh: ClassVar[bool] = False

    def __init__(
        self,
        sampler: PrecomputedSampler,
        fresh_draws: Dataset | None = None,
        *,
        oua_jackknife: bool = True,
        oua_groups: int = 20,
        calibration_mode: str = "auto",
        covariates: Sequence[str] = (),
        n_folds: int = 5,
        seed: int = 42,
        same_as_logging: Sequence[str] = (),
        use_mar: bool = False,
        level: float = 0.95,
        thresholds: GateThresholds | None = None,
    ) -> None:
        if self.needs_fresh and fresh_draws is None:
            raise CJEError(
                f"{self.name} needs fresh draws of the target policies",
                hint=f"{type(self).__name__}(sampler, fresh_draws), or use calibrated-ips",
            )
        if oua_groups < 2 or n_folds < 2:
            raise CJEError("n_folds and oua_groups must be at least 2", value=(n_folds, oua_groups))
        self.sampler = sampler
        self.fresh_draws = fresh_draws
        self.oua_jackknife = oua_jackknife
        self.oua_groups = oua_groups
        self.calibration_mode = calibration_mode
        self.covariates = tuple(covariates)
        self.n_folds = n_folds
        self.seed = seed
        self.same_as_logging = tuple(same_as_logging)
        self.use_mar = use_mar
        self.level = level
        self.thresholds = thresholds or GateThresholds()

    @abstractmethod
    def fit(self, problem: Problem) -> Fit:
        """The estimator's formula."""

    def gates(self, problem: Problem) -> list[Finding]:
        """Findings of this estimator's own, beside those all of them share."""
        return []

    def fit_and_estimate(self) -> EstimationResult:
        """Estimate every target policy's value."""
        problem = self.prepare()
        fit = self.fit(problem)
        scale = self.sampler.dataset.oracle_scale
        extra = None
        if fit.leave_out is not None and self.oua_jackknife and len(fit.leave_out) >= 2:
            extra = fold_jackknife_covariance(fit.leave_out)
        influence = InfluenceEstimate(
            problem.logged.policies,
            fit.values,
            fit.influence,
            problem.cluster_names,
            extra_covariance=extra,
            extra_df=None if extra is None or fit.leave_out is None else len(fit.leave_out) - 1.0,
            bounds=(0.0, 1.0),
        ).rescaled(scale.width, scale.low)
        diagnostics, findings = self._examine(problem)
        metadata = {
            "level": self.level,
            "quantity": "policy value",
            "n_rows": {name: len(problem.logged) for name in problem.logged.policies},
            "n_labels": {
                name: int(problem.logged.labelled.sum()) for name in problem.logged.policies
            },
            "calibration_mode": problem.rewards.model.mode,
            "label_uncertainty": "influence" if fit.leave_out is None else "jackknife",
            "off_policy": True,
        }
        return EstimationResult(
            self.name,
            influence,
            {**diagnostics, **fit.diagnostics},
            metadata,
            (*findings, *self.gates(problem)),
        )

    def prepare(self) -> Problem:
        """Collect arrays, calibrate rewards, align clusters."""
        logged = prepare_logged(
            self.sampler,
            n_folds=self.n_folds,
            seed=self.seed,
            covariates=self.covariates,
            same_as_logging=self.same_as_logging,
            use_mar=self.use_mar,
        )
        rewards = fit_rewards(
            logged,
            mode=self.calibration_mode,
            jackknife_folds=self.oua_groups,
            seed=self.seed,
        )
        if self.fresh_draws is None:
            return Problem(logged, rewards, (), logged.cluster_names)
        fresh, names = prepare_fresh(
            logged, self.fresh_draws, seed=self.seed, covariates=self.covariates
        )
        return Problem(logged, rewards, tuple(fresh), names)

    def _examine(self, problem: Problem) -> tuple[dict[str, Any], list[Finding]]:
        """Diagnostics and gates that every off-policy estimate shares."""
        logged, labelled = problem.logged, problem.logged.labelled
        findings: list[Finding] = []
        weights = {}
        for k, name in enumerate(logged.policies):
            clip = self.sampler.clipped[name]
            found = weight_diagnostics(name, logged.raw[:, k], n_clipped=clip.above + clip.below)
            weights[name] = {
                **found.to_dict(),
                "labelled_ess": effective_sample_size(logged.weights[labelled, k]),
            }
            findings += weight_findings(found, self.thresholds)
        quality = calibration_fit(
            logged.scores[labelled],
            logged.labels[labelled],
            problem.rewards.out_of_fold[labelled],
            1.0 / logged.propensity[labelled],
        )
        findings += quality.findings()
        overlaps = {}
        for draws, name in zip(problem.fresh, logged.policies, strict=bool(problem.fresh)):
            overlap = score_overlap(name, draws.scores, logged.scores[labelled])
            overlaps[name] = overlap.to_dict()
            findings += score_overlap_findings(overlap, self.thresholds)
        diagnostics: dict[str, Any] = {"weights": weights, "calibration": quality.to_dict()}
        if overlaps:
            diagnostics["score_overlap"] = overlaps
        raters = self.sampler.dataset.rater_labels
        agreement = None if raters is None else rater_agreement(raters)
        if agreement is not None:
            diagnostics["rater_agreement"] = agreement.to_dict()
            findings += agreement.findings()
        return diagnostics, findings

    def _label_gate(self, problem: Problem, name: str, k: int) -> list[Finding]:
        """A rectifier that rests on a handful of heavy labelled rows is refused."""
        logged = problem.logged
        rows = logged.labelled
        ess = effective_sample_size(logged.weights[rows, k] / logged.propensity[rows])
        if ess >= self.thresholds.labels_ess_refuse:
            return []
        return [
            Finding(
                "low-label-ess",
                f"the label correction rests on an effective {ess:.1f} of {int(rows.sum())} labels",
                Severity.REFUSE,
                "label more logged rows, preferring those with large weights (record their "
                "propensities), or label fresh draws of this policy and use the direct method",
                name,
                {"label_ess": ess},
            )
        ]
