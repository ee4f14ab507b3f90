"""What the estimator returns: values, intervals, where the variance comes from, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.errors import CJEError
from cje.inference import Finding, InfluenceEstimate, Severity
from cje.kernels.arrays import FloatArray
from cje.report.parts import Part
from cje.uncertainty.calibration import Gamma
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.estimate import (
    PolicyUncertaintyResult,
    UncertaintyAwareEstimate,
    VarianceDecomposition,
)
from cje.uncertainty.inputs import Inputs
from cje.uncertainty.parts import result_parts
from cje.uncertainty.report import UncertaintyReport, create_uncertainty_report

if TYPE_CHECKING:
    from cje.uncertainty.estimator import PolicyFit

__all__ = ["MultiPolicyUncertaintyResult", "build_result"]


@dataclass(frozen=True)
class MultiPolicyUncertaintyResult:
    """All policies, their joint influence, and what was noticed on the way."""

    policies: tuple[PolicyUncertaintyResult, ...]
    influence: InfluenceEstimate
    estimator_type: str
    n_samples: int
    global_metadata: dict[str, Any]
    findings: tuple[Finding, ...] = field(default=())

    def get_policy(self, name: str) -> PolicyUncertaintyResult:
        """A policy by name."""
        return self.policies[self.influence.index(name)]

    def get_estimates(self) -> FloatArray:
        """Values (K,), in the order of `policies`."""
        return np.array([policy.value for policy in self.policies])

    def get_standard_errors(self) -> FloatArray:
        """Standard errors (K,)."""
        return np.array([policy.se for policy in self.policies])

    def get_confidence_intervals(self, level: float = 0.95) -> FloatArray:
        """Limits (K, 2)."""
        return np.array([tuple(interval) for interval in self.influence.intervals(level)])

    def rank_policies(self) -> list[PolicyUncertaintyResult]:
        """Policies from the highest value to the lowest (a ranking, not a test)."""
        return sorted(self.policies, key=lambda policy: -policy.value)

    def pairwise_comparison(self, a: str, b: str, *, level: float = 0.95) -> dict[str, Any]:
        """``a - b`` on the rows both share.

        Returns
        -------
        dict
            ``difference``, ``se_difference``, ``ci_lower``, ``ci_upper``, ``p_value`` (two-sided),
            ``significant``, ``correlation`` of the two estimates, ``policy_a``, ``policy_b``.
        """
        if a == b:
            self.influence.index(a)  # an unknown name is an error here as well
            raise CJEError("a policy cannot be compared with itself", value=a)
        pair = self.influence.difference(a, b)
        (low, high), p = tuple(pair.intervals(level)[0]), float(pair.p_values()[0])
        i, j = self.influence.index(a), self.influence.index(b)
        covariance = self.influence.select([a, b]).covariance()
        scale = float(np.sqrt(covariance[0, 0] * covariance[1, 1]))
        return {
            "policy_a": a,
            "policy_b": b,
            "difference": float(self.influence.values[i] - self.influence.values[j]),
            "se_difference": float(pair.standard_errors()[0]),
            "ci_lower": float(low),
            "ci_upper": float(high),
            "p_value": p,
            "significant": bool(p < 1.0 - level),
            "correlation": float(covariance[0, 1]) / scale if scale > 0.0 else 0.0,
        }

    def summary(self) -> str:
        """A short table and what to watch."""
        width = max(len(policy.name) for policy in self.policies)
        lines = [f"{self.estimator_type}: {len(self.policies)} policies, {self.n_samples} rows, "
                 f"{self.global_metadata['n_labels']} labels"]  # fmt: skip
        lines += [
            f"  {policy.name:<{width}}  {policy.estimate.summary()}"
            for policy in self.rank_policies()
        ]
        gamma: Gamma = self.global_metadata["gamma"]
        lines.append(f"  gamma {float(gamma):.3g}: {gamma.verdict}")
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)

    def report_parts(self) -> tuple[Part, ...]:
        """Neutral parts for `cje.report.Report`."""
        return result_parts(self.policies, self.findings)

    def __str__(self) -> str:
        return self.summary()


def build_result(
    config: UncertaintyEstimatorConfig,
    estimator_type: str,
    inputs: Inputs,
    gamma: Gamma,
    variances: FloatArray,
    fits: Sequence[PolicyFit],
    influence: InfluenceEstimate,
) -> MultiPolicyUncertaintyResult:
    """Inference on the joint influence, policy by policy."""
    errors = influence.standard_errors()
    intervals = influence.intervals(config.confidence_level)
    policies = []
    for k, fit in enumerate(fits):
        low, high = intervals[k]
        parts = _decompose(config, fit, float(errors[k]))
        estimate = UncertaintyAwareEstimate(
            value=float(influence.values[k]),
            se=float(errors[k]),
            ci_lower=float(low),
            ci_upper=float(high),
            confidence_level=config.confidence_level,
            variance_decomposition=parts,
            effective_sample_size=fit.shrinkage.ess_after,
            raw_effective_sample_size=fit.shrinkage.ess_before,
            shrinkage_applied=fit.shrinkage.lam > 0.0,
            shrinkage_lambda=fit.shrinkage.lam,
            shrinkage_bias=fit.shrinkage.bias,
        )
        report = _report(estimate, fit, variances, gamma) if config.compute_diagnostics else None
        policies.append(PolicyUncertaintyResult(inputs.names[k], estimate, report))
    return MultiPolicyUncertaintyResult(
        policies=tuple(policies),
        influence=influence,
        estimator_type=estimator_type,
        n_samples=len(inputs),
        global_metadata=_metadata(config, inputs, gamma, policies),
        findings=tuple(_findings(config, gamma, policies, fits, inputs)),
    )


def _report(
    estimate: UncertaintyAwareEstimate, fit: PolicyFit, variances: FloatArray, gamma: Gamma
) -> UncertaintyReport:
    """The diagnostics of one policy: of the very standard error the result states."""
    return create_uncertainty_report(
        weights=fit.weights,
        rewards=fit.rewards,
        variances=variances,
        estimate=estimate.value,
        se_with_uncertainty=estimate.se,
        se_without_uncertainty=float(np.sqrt(estimate.variance_decomposition.eif)),
        gamma=gamma,
        shrinkage_applied=estimate.shrinkage_applied,
        shrinkage_lambda=estimate.shrinkage_lambda,
    )


def _decompose(
    config: UncertaintyEstimatorConfig, fit: PolicyFit, se: float
) -> VarianceDecomposition:
    reported = float(fit.reported_noise @ fit.reported_noise)
    total = se**2
    judge = reported if config.standard_error == "twice" else total - float((fit.sampling**2).sum())
    judge = min(max(judge, 0.0), total)
    return VarianceDecomposition(total - judge, judge, reported)


def _metadata(
    config: UncertaintyEstimatorConfig,
    inputs: Inputs,
    gamma: Gamma,
    policies: Sequence[PolicyUncertaintyResult],
) -> dict[str, Any]:
    n = len(inputs)
    return {
        "n_labels": len(inputs.labelled),
        "label_share": len(inputs.labelled) / n,
        "gamma": gamma,
        "gamma_identified": gamma.identified,
        "gamma_verdict": gamma.verdict,
        "ess_percentage": {p.name: 100.0 * p.estimate.effective_sample_size / n for p in policies},
        "raw_ess_percentage": {
            p.name: 100.0 * p.estimate.raw_effective_sample_size / n for p in policies
        },
        "shrinkage_bias": {p.name: p.estimate.shrinkage_bias for p in policies},
        "shrinkage_method": config.shrinkage_method if config.use_variance_shrinkage else "none",
        "standard_error": config.standard_error,
        "direct_term": inputs.fresh is not None,
        "k_folds": config.k_folds,
        "random_state": config.random_state,
    }


def _findings(
    config: UncertaintyEstimatorConfig,
    gamma: Gamma,
    policies: Sequence[PolicyUncertaintyResult],
    fits: Sequence[PolicyFit],
    inputs: Inputs,
) -> Iterator[Finding]:
    if gamma > 1.0 and not gamma.believable:
        yield Finding(
            "judge-too-sure",
            gamma.verdict,
            Severity.INFO,
            "trust the intervals here, not the judge's own variances",
            details={"gamma": float(gamma)},
        )
    for policy, fit in zip(policies, fits, strict=True):
        yield from _policy_findings(config, policy, fit, inputs)


def _policy_findings(
    config: UncertaintyEstimatorConfig,
    policy: PolicyUncertaintyResult,
    fit: PolicyFit,
    inputs: Inputs,
) -> Iterator[Finding]:
    estimate, n = policy.estimate, len(inputs)
    ess = estimate.raw_effective_sample_size
    if ess < 0.1 * n:
        yield Finding(
            "low-ess",
            f"the raw effective sample size is {ess:.0f} of {n} rows",
            Severity.WARNING if ess >= 0.01 * n else Severity.REFUSE,
            "use fresh draws from this policy"
            if inputs.fresh is None
            else "the label correction rests on few rows: label some of this policy's own draws",
            policy.name,
        )
    if not fit.shrinkage.reached:
        yield Finding(
            "ess-not-reached",
            f"no shrinkage brings the effective sample size to "
            f"{100 * config.min_ess_ratio:g}% of the rows",
            Severity.WARNING,
            "the judge's variances do not single out the heavy rows: use fresh draws",
            policy.name,
        )
    if abs(estimate.shrinkage_bias) > 0.5 * estimate.se > 0.0:
        yield Finding(
            "shrinkage-bias",
            f"shrinkage moved the value by {estimate.shrinkage_bias:+.4f}, more than half "
            f"its standard error {estimate.se:.4f}: the interval leaves that out",
            Severity.WARNING,
            "use shrinkage_method='optimal', or none",
            policy.name,
        )
