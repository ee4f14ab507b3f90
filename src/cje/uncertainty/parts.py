"""A result as neutral parts for a report: values, sources of variance, findings."""

from __future__ import annotations

from collections.abc import Sequence

from cje.inference import Finding
from cje.report.parts import FindingsPart, Forest, ForestRow, Part, Table
from cje.uncertainty.estimate import PolicyUncertaintyResult

__all__ = ["result_parts"]


def result_parts(
    policies: Sequence[PolicyUncertaintyResult], findings: tuple[Finding, ...]
) -> tuple[Part, ...]:
    """A forest of the values, a table of their uncertainty, and findings."""
    forest = Forest(
        "Policy values",
        tuple(
            ForestRow(p.name, p.value, p.estimate.ci_lower, p.estimate.ci_upper) for p in policies
        ),
    )
    table = Table(
        "Where the uncertainty comes from",
        ("policy", "standard error", "sampling", "judge", "ESS", "raw ESS", "lambda", "bias"),
        tuple(_line(policy) for policy in policies),
        numeric=frozenset(range(1, 8)),
        note="Bias: estimated move of the value by shrinkage.",
    )
    noticed = (FindingsPart("What to watch", findings),) if findings else ()
    return (forest, table, *noticed)


def _line(policy: PolicyUncertaintyResult) -> tuple[str, ...]:
    e = policy.estimate
    return (
        policy.name,
        f"{e.se:.4f}",
        f"{e.variance_decomposition.eif_pct:.0f}%",
        f"{e.variance_decomposition.judge_pct:.0f}%",
        f"{e.effective_sample_size:.0f}",
        f"{e.raw_effective_sample_size:.0f}",
        f"{e.shrinkage_lambda:.3g}",
        f"{e.shrinkage_bias:+.4f}",
    )
