"""Findings of `direct` about its own estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cje.findings import Finding
from cje.findings.labels import BORROWED_CALIBRATION, COPIED_LABELS, FEW_LABELS, IDENTICAL_LABELS

__all__ = ["cell_findings", "copy_findings"]


def cell_findings(
    names: Sequence[str],
    n_labels: Mapping[str, int],
    borrowed: Sequence[str],
    min_labels: int,
    constant: Sequence[bool],
) -> tuple[Finding, ...]:
    """Borrowed calibration, few labels, labels that are all the same."""
    findings = []
    for name, same in zip(names, constant, strict=True):
        count = n_labels[name]
        enough = FEW_LABELS["enough"]
        if name in borrowed:
            own = "no labels" if count == 0 else f"only {count} labels"
            findings.append(
                BORROWED_CALIBRATION.finding(
                    name, own=own, enough=max(min_labels, enough), details={"n_labels": count}
                )
            )
        elif count < enough:
            findings.append(
                FEW_LABELS.finding(name, n_labels=count, enough=enough, details={"n_labels": count})
            )
        if same:
            which = "all labels it borrows" if name in borrowed else f"all {count} labels"
            findings.append(
                IDENTICAL_LABELS.finding(name, which=which, details={"n_labels": count})
            )
    return tuple(findings)


def copy_findings(n_copies: int) -> tuple[Finding, ...]:
    """Calibration labels that were left out because the data have them already."""
    return (COPIED_LABELS.finding(n_copies=n_copies),) if n_copies else ()
