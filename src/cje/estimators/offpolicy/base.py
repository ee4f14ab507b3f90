"""The frame of every off-policy estimator: prepare once, fit a formula, gate, report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.checks import check_choice
from cje.data import Dataset, PrecomputedSampler
from cje.diagnostics import GateThresholds, effective_sample_size
from cje.diagnostics.judge_variance import Gamma, check_label_noise, label_noise_of
from cje.errors import CJEError
from cje.estimators.identical_labels import unseen_variance
from cje.estimators.offpolicy.findings import (
    carry_over,
    examine,
    fresh_findings,
    label_gate,
    tail_may_be_heavy,
)
from cje.estimators.offpolicy.label_term import (
    CalibrationSensitivity,
    LabelTerm,
    through_calibration,
)
from cje.estimators.offpolicy.logged import FreshDraws, prepare_fresh, prepare_logged
from cje.estimators.offpolicy.options import check_logprob_noise, known_targets
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.estimators.offpolicy.reporting import evidence, metadata, shared_judge_curve
from cje.estimators.offpolicy.rewards import RewardModels, Rewards, fit_model
from cje.estimators.offpolicy.weight_bias import support_bias
from cje.estimators.offpolicy.weight_check import weight_check_findings
from cje.estimators.offpolicy.weight_shrinkage import (
    Shrunk,
    WeightShrinkage,
    shrink_weights,
    shrinkage_findings,
)
from cje.findings.weights import LABEL_UNCERTAINTY_LEFT_OUT
from cje.inference import (
    LABELS,
    SAMPLE_LABELS,
    SAMPLING,
    Component,
    Finding,
    InfluenceEstimate,
)
from cje.kernels.arrays import FloatArray
from cje.results.result import EstimationResult

__all__ = ["LABEL_WEIGHTS", "OffPolicyEstimator"]

LABEL_WEIGHTS = ("raw", "projected")


class OffPolicyEstimator(ABC):
    """Base of the estimators that weigh logged responses.

    Parameters
    ----------
    sampler : PrecomputedSampler
        Logged rows with log-probs and, on a slice, labels.
    fresh_draws : Dataset, optional
        Judged responses of the target policies; needed by the doubly robust family.
    oua_jackknife : bool
        Add the uncertainty of the calibration's labels by a jackknife over labelled prompts, where
        the influence function lacks it.
    calibration_mode : {"auto", "monotone", "two_stage"}
    covariates : sequence of str
        Columns that enter the calibration beside the score (two-stage mode).
    n_folds, seed : int
        Cross-fitting.
    same_as_logging : sequence of str
        Targets configured exactly like the logging policy (A/A checks): identical weights allowed.
    use_mar : bool
        Estimate the labelling propensity from the score where the data do not give it.
    min_pi : float, optional
        Least such estimate; a tenth of the labelled share by default. Recorded propensities are
        used as they are.
    level : float
        Confidence level of the intervals.
    thresholds : GateThresholds, optional
    shrinkage : WeightShrinkage, optional
        Reduce the weights of rows where the judge's variance is large (needs `judge_variance`). The
        gates read the weights as they were.
    label_weight : {"raw", "projected"}
        Weights of the label part: W, or m(S) = E[W | S]. The latter assumes that E[Y | S] is the
        same under the target: less variance, but biased where it is not, which `carry_over` detects
        only where the bias is large.
    logprob_noise : float
        Standard deviation of one log-prob between repeated scorings. The ratio of two has twice
        that variance, so weights are divided by exp(logprob_noise ** 2), their mean factor.
    label_noise : float, optional
        Variance of a label around the mean label of its response, on [0, 1]: it is not the judge's
        (`Gamma`). By default that of several raters, where there are.
    """

    name: ClassVar[str]
    needs_fresh: ClassVar[bool] = False
    # Whether the labels are part of the sample (rectified) or oracle uncertainty (jackknife).
    labels_in_sample: ClassVar[bool] = False
    # Estimators that average W times something unbounded in W need a finite variance of
    # W; the others use W through its projection m(S) only, and a heavy tail is a warning there.
    # With labels weighted by W it refuses as well.
    heavy_tail_refuses: bool = True
    # Self-normalised estimates stay near [0, 1]; an unnormalised one may be anywhere.
    bounded: ClassVar[bool] = True

    def __init__(
        self,
        sampler: PrecomputedSampler,
        fresh_draws: Dataset | None = None,
        *,
        oua_jackknife: bool = True,
        calibration_mode: str = "auto",
        covariates: Sequence[str] = (),
        n_folds: int = 5,
        seed: int = 42,
        same_as_logging: Sequence[str] = (),
        use_mar: bool = False,
        min_pi: float | None = None,
        level: float = 0.95,
        thresholds: GateThresholds | None = None,
        shrinkage: WeightShrinkage | None = None,
        label_weight: str = "raw",
        logprob_noise: float = 0.0,
        label_noise: float | None = None,
    ) -> None:
        if self.needs_fresh and fresh_draws is None:
            raise CJEError(
                f"{self.name} needs fresh draws of the target policies",
                hint=f"{type(self).__name__}(sampler, fresh_draws), or use calibrated-ips",
            )
        if n_folds < 2:
            raise CJEError("n_folds must be at least 2", value=n_folds)
        check_choice("label_weight", label_weight, LABEL_WEIGHTS)
        self.sampler = sampler
        self.fresh_draws = fresh_draws
        self.oua_jackknife = oua_jackknife
        self.calibration_mode = calibration_mode
        self.covariates = tuple(covariates)
        self.n_folds = n_folds
        self.seed = seed
        self.same_as_logging = known_targets(sampler, same_as_logging)
        self.use_mar = use_mar
        self.min_pi = min_pi
        self.level = level
        self.thresholds = thresholds or GateThresholds()
        self.shrinkage = shrinkage
        self.label_weight = label_weight
        self.logprob_noise = check_logprob_noise(logprob_noise)
        check_label_noise(label_noise)
        self.label_noise = label_noise

    @abstractmethod
    def fit(self, problem: Problem) -> Fit:
        """The estimator's formula."""

    def label_weights(self, problem: Problem) -> tuple[FloatArray, bool]:
        """Weights M (n, K) of the label part, and whether it belongs to the influence function.

        With every row labelled the labels are the sample: W, in the influence. Otherwise they are
        kept apart as oracle uncertainty (jackknife), unless `labels_in_sample`.
        """
        if problem.all_labelled:
            return problem.logged.weights, True
        if self.label_weight == "projected":
            return problem.projected, self.labels_in_sample
        return problem.logged.weights, self.labels_in_sample

    def assemble(
        self,
        problem: Problem,
        fold_means: FloatArray,
        influence: FloatArray,
        term: LabelTerm,
        sensitivities: Sequence[CalibrationSensitivity],
        diagnostics: Mapping[str, Any] | None = None,
    ) -> Fit:
        """A fit from the target's means (V, K) of the fold models and the label part."""
        named = dict(zip(problem.logged.policies, term.correction.tolist(), strict=True))
        pseudo = term.pseudo_labels(fold_means)
        return Fit(
            term.mean(pseudo),
            (
                Component(SAMPLING, influence),
                self.label_component(problem, term, pseudo, sensitivities),
            ),
            {"label_correction": named, **(diagnostics or {})},
        )

    def label_component(
        self,
        problem: Problem,
        term: LabelTerm,
        pseudo: FloatArray,
        sensitivities: Sequence[CalibrationSensitivity],
        slopes: FloatArray | None = None,
    ) -> Component:
        """The labels' uncertainty: the jackknife, and what passes through the calibration.

        `slopes` (K,) is how far a unit of weighted residual moves the value, where that is not one.
        """
        _, rectified = self.label_weights(problem)
        own = term.weight if slopes is None else term.weight * slopes
        labels = problem.logged.labels[problem.logged.labelled]
        moved = term.by_prompt(through_calibration(term, labels, sensitivities))
        return Component(
            SAMPLE_LABELS if rectified else LABELS,
            term.jackknife(pseudo) + moved,
            df=self._label_df(problem),
            spread=term.spread(own),
        )

    def fit_and_estimate(self, models: RewardModels | None = None) -> EstimationResult:
        """Estimate every target policy's value, with reward models of `calibrate` where given."""
        return self.estimate(self.prepare(models))

    def calibrate(self) -> RewardModels:
        """The cross-fitted reward models that `fit_and_estimate` uses."""
        problem = self.prepare()
        return RewardModels(problem.rewards.model, self.fit_target_models(problem))

    def fit_target_models(self, problem: Problem) -> dict[str, CrossFittedRewardModel]:
        """Calibrations of one target each, by policy; none by default."""
        return {}

    def estimate(self, problem: Problem) -> EstimationResult:
        """The result on a prepared problem, which several estimators may share."""
        used, shrunk = self._shrink(problem)
        fit = self.fit(used)
        data = self.sampler.dataset
        scale = data.oracle_scale
        kept = [part for part in fit.components if self.oua_jackknife or part.kind != LABELS]
        influence = InfluenceEstimate(
            problem.logged.policies,
            # The label part can move a value near the end of the range beyond it.
            np.clip(fit.values, 0.0, 1.0) if self.bounded else fit.values,
            (*kept, *self._unseen(used, fit), *self.weight_bias(problem, fit)),
            problem.cluster_names,
            # An unnormalised estimate may lie outside the range: cutting would empty its interval.
            bounds=(0.0, 1.0) if self.bounded or _within(fit.values) else None,
        ).rescaled(scale.width, scale.low)
        diagnostics, findings = self._findings(problem, fit)
        if problem.gamma is not None:
            diagnostics["gamma"] = problem.gamma.to_dict()
        if self.shrinkage is not None:
            if used is not problem:
                moved = (fit.values - self.fit(problem).values).tolist()
                shrunk = tuple(replace(s, bias=b) for s, b in zip(shrunk, moved, strict=True))
            errors = influence.standard_errors() / scale.width
            for name, item, se in zip(influence.names, shrunk, errors, strict=True):
                findings += shrinkage_findings(name, item, float(se), self.shrinkage)
            diagnostics["shrinkage"] = {
                name: item.to_dict() for name, item in zip(influence.names, shrunk, strict=True)
            }
        return EstimationResult(
            self.name,
            influence,
            {**diagnostics, **fit.diagnostics},
            metadata(problem, fit, data, level=self.level, counted=self.oua_jackknife),
            tuple(findings),
            curves={"judge": shared_judge_curve(problem, data)},
            evidence=evidence(problem, data),
        )

    def weighted_outcome(self, problem: Problem) -> FloatArray:
        """(n, K) factor of a row's weight besides its label residual: zero here."""
        return np.zeros((len(problem.logged), len(problem.logged.policies)))

    def weight_bias(self, problem: Problem, fit: Fit) -> list[Component]:
        """Bias that the mean weight shows, of a value that rests on the log alone."""
        if self.needs_fresh:
            return []
        return support_bias(problem.logged)

    def _shrink(self, problem: Problem) -> tuple[Problem, tuple[Shrunk, ...]]:
        if self.shrinkage is None:
            return problem, ()
        return shrink_weights(
            problem,
            self.shrinkage,
            problem.judge_variance,
            problem.gamma or Gamma(1.0, identified=False),
            self.weighted_outcome(problem),
        )

    @staticmethod
    def _label_df(problem: Problem) -> float:
        """One fewer than the labelled prompts."""
        clusters = problem.logged.clusters[problem.logged.labelled]
        return max(len(np.unique(clusters)) - 1.0, 1.0)

    def _unseen(self, problem: Problem, fit: Fit) -> list[Component]:
        """Where every label is the same: the variance that labels not seen may have."""
        if float(np.ptp(problem.logged.labels[problem.logged.labelled])) > 0.0:
            return []
        sizes = [effective_sample_size(column) for column in self._inverse_weights(problem).T]
        variance = np.diag([unseen_variance(size) for size in sizes])
        kind = LABELS if fit.labels_apart else SAMPLE_LABELS
        return [Component(kind, covariance=variance, df=self._label_df(problem))]

    def _inverse_weights(self, problem: Problem) -> FloatArray:
        """Label weights M / pi of the labelled rows, (m, K)."""
        rows = problem.logged.labelled
        weights, _ = self.label_weights(problem)
        return weights[rows] / problem.logged.propensity[rows][:, None]

    def audit(self) -> tuple[dict[str, Any], list[Finding]]:
        """Diagnostics and findings, without a result."""
        problem = self.prepare()
        return self._findings(problem, self.fit(problem))

    def _findings(self, problem: Problem, fit: Fit) -> tuple[dict[str, Any], list[Finding]]:
        """Diagnostics, and findings of all gates."""
        thresholds = self.thresholds
        label_weights, _ = self.label_weights(problem)
        if not self.heavy_tail_refuses and label_weights is not problem.logged.weights:
            thresholds = tail_may_be_heavy(thresholds)
        if not self.needs_fresh or label_weights is problem.logged.weights:
            thresholds = replace(thresholds, mean_weight_refuses=True)
        diagnostics, findings = examine(
            problem, self.sampler, thresholds, propensity_estimated=self.use_mar
        )
        findings += label_gate(problem, label_weights, thresholds)
        clusters = problem.cluster_names
        spread = InfluenceEstimate(problem.logged.policies, fit.values, fit.components, clusters)
        errors = spread.standard_errors()
        if self.fresh_draws is not None and self.needs_fresh:
            findings += fresh_findings(problem, self.fresh_draws.n_labelled)
            findings += weight_check_findings(
                problem,
                self.sampler.dataset,
                self.fresh_draws,
                errors,
                covariates=self.covariates,
                weighs_labels=label_weights is problem.logged.weights,
            )
        width = self.sampler.dataset.oracle_scale.width
        findings += carry_over(problem, label_weights, thresholds, errors, width)
        if fit.labels_apart and not self.oua_jackknife:
            findings.append(LABEL_UNCERTAINTY_LEFT_OUT.finding())
        return diagnostics, findings

    def prepare(self, models: RewardModels | None = None) -> Problem:
        """Collect arrays, calibrate rewards (or take `models`), align clusters."""
        logged = prepare_logged(
            self.sampler,
            n_folds=self.n_folds,
            seed=self.seed,
            covariates=self.covariates,
            same_as_logging=self.same_as_logging,
            use_mar=self.use_mar,
            min_pi=self.min_pi,
            logprob_noise=self.logprob_noise,
        )
        if models is None:
            models = RewardModels(fit_model(logged, mode=self.calibration_mode))
        rewards = Rewards.of(models.shared, logged)
        fresh: Sequence[FreshDraws] = ()
        names = logged.cluster_names
        if self.fresh_draws is not None:
            fresh, names = prepare_fresh(
                logged, self.fresh_draws, seed=self.seed, covariates=self.covariates
            )
        variance = self.sampler.dataset.judge_variance
        if variance is not None and not np.isfinite(variance).all():
            variance = None
        noise = self.label_noise
        if noise is None:
            noise = label_noise_of(self.sampler.dataset.rater_labels)
        return Problem(logged, rewards, tuple(fresh), names, models.by_target, variance, noise)


def _within(values: FloatArray) -> bool:
    return bool(((values >= 0.0) & (values <= 1.0)).all())
