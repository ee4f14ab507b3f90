"""The result of the estimator: values, intervals, sources of variance, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cje.diagnostics.judge_variance import Gamma
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.weights import JUDGE_TOO_SURE
from cje.inference import SAMPLING, InfluenceEstimate
from cje.kernels.arrays import FloatArray
from cje.kernels.weights import effective_sample_size
from cje.report.parts import Part
from cje.results.result import EstimationResult
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.estimate import (
    PolicyUncertaintyResult,
    UncertaintyAwareEstimate,
    VarianceDecomposition,
)
from cje.uncertainty.inputs import Inputs
from cje.uncertainty.parts import result_parts
from cje.uncertainty.report import create_uncertainty_report

__all__ = ["MultiPolicyUncertaintyResult", "result_view"]


@dataclass(frozen=True)
class MultiPolicyUncertaintyResult:
    """A view of an `EstimationResult` under the founding document's names."""

    result: EstimationResult
    policies: tuple[PolicyUncertaintyResult, ...]
    estimator_type: str
    n_samples: int
    global_metadata: dict[str, Any]

    @property
    def influence(self) -> InfluenceEstimate:
        """The joint estimate of all policies."""
        return self.result.influence

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Gates and warnings of the estimate."""
        return self.result.findings

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
        """``a - b`` on shared rows.

        Returns
        -------
        dict
            ``difference``, ``se_difference``, ``ci_lower``, ``ci_upper``, ``p_value`` (two-sided),
            ``significant``, ``correlation`` of the two estimates, ``policy_a``, ``policy_b``.
        """
        if a == b:
            self.influence.index(a)  # raises for an unknown name
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
        """A short table, and findings."""
        width = max(len(policy.name) for policy in self.policies)
        lines = [f"{self.estimator_type}: {len(self.policies)} policies, {self.n_samples} rows, "
                 f"{self.global_metadata['n_labels']} labels"]  # fmt: skip
        refused = self.result.refused()
        lines += [
            f"  {policy.name:<{width}}  {policy.estimate.summary()}"
            for policy in self.rank_policies()
            if policy.name not in refused
        ]
        lines += [f"  {name:<{width}}  refused: {reason}" for name, reason in refused.items()]
        gamma: Gamma = self.global_metadata["gamma"]
        lines.append(f"  gamma {float(gamma):.3g}: {gamma.verdict}")
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)

    def report_parts(self) -> tuple[Part, ...]:
        """Neutral parts for `cje.report.Report`."""
        return result_parts(self.policies, self.findings)

    def __str__(self) -> str:
        return self.summary()


def result_view(
    config: UncertaintyEstimatorConfig,
    estimator_type: str,
    inputs: Inputs,
    result: EstimationResult,
    gamma: Gamma,
    weights: FloatArray,
    variances: FloatArray,
) -> MultiPolicyUncertaintyResult:
    """The result policy by policy; `weights` (n, K) are those used, `variances` scaled by gamma."""
    errors = result.robust_standard_errors
    sampling = np.zeros(len(inputs.names))
    for part in result.influence.components:
        if part.kind == SAMPLING:
            sampling = np.asarray((part.matrix**2).sum(axis=0))
    policies = []
    for k, name in enumerate(inputs.names):
        noise = weights[:, k] * np.sqrt(variances) / float(weights[:, k].sum())
        reported, total = float(noise @ noise), float(errors[k] ** 2)
        judge = reported if config.standard_error == "twice" else total - float(sampling[k])
        judge = min(max(judge, 0.0), total)
        parts = VarianceDecomposition(total - judge, judge, reported)
        estimate = _estimate(config, result, k, parts, inputs)
        report = None
        if config.compute_diagnostics:
            report = create_uncertainty_report(
                weights=weights[:, k],
                rewards=inputs.scores.mean,
                variances=variances,
                estimate=estimate.value,
                se_with_uncertainty=estimate.se,
                se_without_uncertainty=float(np.sqrt(parts.eif)),
                gamma=gamma,
                shrinkage_applied=estimate.shrinkage_applied,
                shrinkage_lambda=estimate.shrinkage_lambda,
            )
        policies.append(PolicyUncertaintyResult(name, estimate, report))
    found = [*result.findings, *_gamma_findings(gamma)]
    return MultiPolicyUncertaintyResult(
        replace(result, findings=tuple(found)),
        tuple(policies),
        estimator_type,
        len(inputs),
        _metadata(config, inputs, gamma, policies),
    )


def _estimate(
    config: UncertaintyEstimatorConfig,
    result: EstimationResult,
    k: int,
    parts: VarianceDecomposition,
    inputs: Inputs,
) -> UncertaintyAwareEstimate:
    name = result.policies[k]
    low, high = result.influence.intervals(config.confidence_level)[k]
    raw = effective_sample_size(inputs.weights[:, k])
    shrunk = result.diagnostics.get("shrinkage", {}).get(name, {})
    lam = float(shrunk.get("lambda", 0.0))
    return UncertaintyAwareEstimate(
        value=float(result.estimates[k]),
        se=float(result.robust_standard_errors[k]),
        ci_lower=float(low),
        ci_upper=float(high),
        confidence_level=config.confidence_level,
        variance_decomposition=parts,
        effective_sample_size=float(shrunk.get("ess_after", raw)),
        raw_effective_sample_size=raw,
        shrinkage_applied=lam > 0.0,
        shrinkage_lambda=lam,
        shrinkage_bias=float(shrunk.get("bias", 0.0)),
    )


def _gamma_findings(gamma: Gamma) -> Iterator[Finding]:
    if not gamma.believable:
        yield JUDGE_TOO_SURE.finding(verdict=gamma.verdict, details={"gamma": float(gamma)})


def _metadata(
    config: UncertaintyEstimatorConfig,
    inputs: Inputs,
    gamma: Gamma,
    policies: Sequence[PolicyUncertaintyResult],
) -> dict[str, Any]:
    n = len(inputs)
    return {
        "n_labels": inputs.logged.n_labelled,
        "label_share": inputs.logged.n_labelled / n,
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
