"""The tables of an `EstimationResult` as plain rows: values, differences, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cje.inference import Finding

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["NUMBERS", "gathered_findings", "pair_rows", "value_rows", "without_refused"]

# The numbers of one row that a refused value does not have.
NUMBERS = (
    "estimate", "low", "high", "single_low", "single_high", "joint_low", "joint_high",
    "standard_error", "robust_standard_error",
)  # fmt: skip

Limits = Sequence[tuple[float, float]]


def value_rows(
    result: EstimationResult, shown: Limits, single: Limits, joint: Limits
) -> list[dict[str, Any]]:
    """One row per quantity with every number, refused or not, in the order of `policies`."""
    refused = result.refused()
    borrowed = set(result.metadata.get("borrowed", ()))
    n_rows, n_labels = (result.metadata.get(key, {}) for key in ("n_rows", "n_labels"))
    errors = zip(result.standard_errors, result.robust_standard_errors, strict=True)
    limits = zip(shown, single, joint, strict=True)
    table = zip(result.policies, _parts(result), result.estimates, limits, errors, strict=True)
    return [
        {
            "name": name,
            **parts,
            "estimate": float(value),
            "low": own[0],
            "high": own[1],
            "single_low": alone[0],
            "single_high": alone[1],
            "joint_low": together[0],
            "joint_high": together[1],
            "standard_error": float(sampling),
            "robust_standard_error": float(full),
            "n_rows": n_rows.get(name),
            "n_labels": n_labels.get(name),
            "borrowed_calibration": name in borrowed,
            "refused": name in refused,
            "reason": refused.get(name),
        }
        for name, parts, value, (own, alone, together), (sampling, full) in table
    ]


def without_refused(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, with None in place of every number where its value was refused."""
    return {**row, **dict.fromkeys(NUMBERS)} if row["refused"] else dict(row)


def _parts(result: EstimationResult) -> list[dict[str, str | None]]:
    """Policy, subgroup column and level of each quantity."""
    if result.cells is None:
        return [{"policy": name, "column": None, "group": None} for name in result.policies]
    return [
        {"policy": cell["policy"], "column": cell["column"], "group": cell["level"]}
        for cell in result.cells
    ]


def pair_rows(result: EstimationResult) -> list[dict[str, Any]]:
    """Every comparison with the policies and the subgroup of its pair."""
    parts = dict(zip(result.policies, _parts(result), strict=True))
    found = []
    for pair, _ in result.compare_all():
        a, b = parts[pair.a], parts[pair.b]
        who = {"policy_a": a["policy"], "policy_b": b["policy"]}
        found.append({**pair.to_dict(), **who, "column": a["column"], "group": a["group"]})
    return found


def gathered_findings(result: EstimationResult) -> tuple[Finding, ...]:
    """The findings of the result and of its subgroups; subjects name column and level."""
    found = list(result.findings)
    for column, part in result.subgroups.items():
        names = {
            name: f"{cell['policy']}, {column}={cell['level']}"
            for name, cell in zip(part.policies, part.cells or (), strict=False)
        }
        for finding in part.findings:
            subject = finding.subject
            subject = f"by {column}" if subject is None else names.get(subject, subject)
            found.append(replace(finding, subject=subject))
    return tuple(found)
