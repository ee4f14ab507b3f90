"""The same question within each level of a column, for any estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.result import EstimationResult
from cje.inference import Finding, InfluenceEstimate, Severity

__all__ = ["subgroup_results"]

Build = Callable[[Dataset | None, Dataset | None], Any]


def subgroup_results(
    estimator: Any,
    build: Build,
    fresh: Dataset | None,
    logged: Dataset | None,
    columns: Sequence[str],
) -> dict[str, EstimationResult]:
    """One result per column, quantities named ``"policy | level"``.

    An estimator that can answer within subgroups itself (sharing one calibration) does; any other
    is run again on the rows of each level, and the answers are joined on their clusters.
    """
    answers = {}
    for column in columns:
        if hasattr(estimator, "estimate_by"):
            answers[column] = estimator.estimate_by(column)
        else:
            answers[column] = _by_level(build, fresh, logged, column)
    return answers


def _by_level(
    build: Build, fresh: Dataset | None, logged: Dataset | None, column: str
) -> EstimationResult:
    guide = fresh if fresh is not None and column in fresh.groups else logged
    if guide is None or column not in guide.groups:
        raise CJEError("no such subgroup column", value=column)
    parts: list[EstimationResult] = []
    estimates: list[InfluenceEstimate] = []
    findings: list[Finding] = []
    for level in guide.groups[column].names:
        rows = [_rows_of(data, column, level) for data in (fresh, logged)]
        if any(data is not None and len(data) == 0 for data in rows):
            continue
        try:
            result: EstimationResult = build(*rows).fit_and_estimate()
        except CJEError as error:  # a level too small to estimate must not cost the others
            findings.append(_left_out(column, level, error))
            continue
        names = [f"{policy} | {level}" for policy in result.policies]
        parts.append(result)
        estimates.append(result.influence.renamed(names))
        findings += _tagged(result, column, level)
    if not parts:
        reason = f": {findings[0].message}" if findings else ""
        raise CJEError(f"no level of the subgroup column can be estimated{reason}", value=column)
    first = parts[0]
    return EstimationResult(
        first.estimator,
        InfluenceEstimate.join(estimates),
        metadata={"level": first.level, "quantity": first.metadata.get("quantity", "mean label")},
        findings=tuple(findings),
    )


def _tagged(result: EstimationResult, column: str, level: str) -> list[Finding]:
    """The findings of one level under the names its values go by, so that refusals stay on them."""
    found = []
    for finding in result.findings:
        if finding.subject in result.policies:
            found.append(replace(finding, subject=f"{finding.subject} | {level}"))
        elif finding.severity is Severity.REFUSE:  # concerns every policy
            found += [replace(finding, subject=f"{policy} | {level}") for policy in result.policies]
        else:
            found.append(replace(finding, subject=f"{column}={level}"))
    return found


def _left_out(column: str, level: str, error: CJEError) -> Finding:
    return Finding(
        "subgroup-left-out",
        f"could not be estimated: {error.what}",
        Severity.WARNING,
        error.hint or "add rows and labels of this level",
        f"{column}={level}",
    )


def _rows_of(data: Dataset | None, column: str, level: str) -> Dataset | None:
    if data is None:
        return None
    if column not in data.groups:
        raise CJEError(
            "the subgroup column is missing in one of the data sets",
            value=column,
            hint="logged data and fresh draws must both have it",
        )
    group = data.groups[column]
    if level not in group.names:
        return data.select(np.zeros(len(data), dtype=bool))
    return data.select(group.mask(level))
