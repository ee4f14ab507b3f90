"""Findings of `direct` about its own estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.diagnostics import LabelledRows, propensity_findings
from cje.estimators.direct.own_labels import ENTER_FROM
from cje.findings import Finding, Severity
from cje.findings.labels import (
    BORROWED_CALIBRATION,
    COPIED_LABELS,
    FEW_LABELS,
    IDENTICAL_LABELS,
    SKEWED_LABELS,
)

_OF_OTHERS = (
    "its value rests on the calibration learnt from other labels and is right only if the judge's "
    "errors on it are like those on the others"
)
_FEW_OF_ITS_OWN = (
    "its value is the calibration learnt from other labels, corrected as far as its own show an "
    "offset; the interval is that of its own labels"
)

__all__ = ["cell_findings", "copy_findings", "weighting_findings"]


def cell_findings(
    names: Sequence[str],
    n_labels: Mapping[str, tuple[int, int]],
    unit: str,
    borrowed: Sequence[str],
    min_labels: int,
    constant: Sequence[bool],
    skewness: float,
) -> tuple[Finding, ...]:
    """Borrowed calibration, few labels, labels that are all the same.

    `n_labels` holds labels and labelled clusters (named `unit`), which are what counts; `skewness`
    is that of the residuals of all labels.
    """
    findings = []
    for name, same in zip(names, constant, strict=True):
        count, clusters = n_labels[name]
        details = {"n_labels": count, "n_labelled_clusters": clusters}
        have = _counted(count, "label")
        if clusters != count:
            have += f" on {_counted(clusters, unit)}"
        enough = FEW_LABELS["enough"]
        if name in borrowed:
            own = "no labels" if count == 0 else f"only {have}"
            rests = _FEW_OF_ITS_OWN if clusters >= ENTER_FROM else _OF_OTHERS
            findings.append(
                BORROWED_CALIBRATION.finding(
                    name, own=own, rests=rests, enough=max(min_labels, enough), details=details
                )
            )
        elif clusters < enough:
            findings.append(FEW_LABELS.finding(name, have=have, enough=enough, details=details))
        elif abs(skewness) > SKEWED_LABELS["of_the_mean"] * clusters**0.5:
            needed = (skewness / SKEWED_LABELS["of_the_mean"]) ** 2
            shown = {**details, "skewness": skewness}
            findings.append(
                SKEWED_LABELS.finding(
                    name, have=have, enough=needed, skewness=skewness, details=shown
                )
            )
        if same:
            which = "all labels it borrows" if name in borrowed else f"all {have}"
            findings.append(IDENTICAL_LABELS.finding(name, which=which, details=details))
    return tuple(findings)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def copy_findings(n_copies: int) -> tuple[Finding, ...]:
    """Calibration labels that were left out because the data have them already."""
    return (COPIED_LABELS.finding(n_copies=n_copies),) if n_copies else ()


def weighting_findings(
    data: Dataset, others: Sequence[Dataset], cells: Codes, borrowed: Sequence[str]
) -> list[Finding]:
    """Findings on the recorded propensities of each cell, and on those a borrowed value uses.

    A cell with labels of its own rests on its own rows. A borrowed one rests on all labels: a
    refusal of any part of them (a policy, a calibration file) refuses its value.
    """
    against = _against_pool(data, others) if borrowed else []
    found: list[Finding] = []
    for k, name in enumerate(cells.names):
        if name in borrowed:
            found += [replace(finding, subject=name) for finding in against[:1]]
            continue
        rows = LabelledRows.of(data, cells.codes == k)
        found += [] if rows is None else propensity_findings(rows, name)
    return found


def _against_pool(data: Dataset, others: Sequence[Dataset]) -> list[Finding]:
    """Refusals of the weights of the calibration's labels, by policy and file."""
    masks = [data.policy.codes == code for code in np.unique(data.policy.codes)]
    parts = [LabelledRows.of(data, mask) for mask in masks]
    # A file of labelled rows alone does not show the rows they were drawn from.
    wider = [other for other in others if not other.is_labelled.all()]
    parts += [LabelledRows.of(other, np.ones(len(other), dtype=bool)) for other in wider]
    found = [f for rows in parts if rows is not None for f in propensity_findings(rows, None)]
    return [finding for finding in found if finding.severity is Severity.REFUSE]
