"""The same analysis within each level of a column, for any estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cje.data.comparisons import Comparisons
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.direct.selection import refused_within
from cje.estimators.rows import check_subgroup
from cje.findings.labels import SUBGROUP_LEFT_OUT
from cje.inference import Finding, InfluenceEstimate, Severity
from cje.results.result import EstimationResult

__all__ = ["subgroup_results"]

MOST_LEVELS = 200
"""Levels of one subgroup column: each is a column of the influence matrix for every policy."""

Build = Callable[[Dataset | None, Dataset | None], Any]
Cell = dict[str, str]


def subgroup_results(
    estimator: Any,
    build: Build,
    fresh: Dataset | Comparisons | None,
    logged: Dataset | None,
    columns: Sequence[str],
) -> dict[str, EstimationResult]:
    """One result per column, quantities named ``"policy | level"``, their parts in ``cells``.

    An estimator with a method for subgroups (which shares one calibration) uses it; any other is
    run again on the rows of each level, and the results are joined on their clusters.
    """
    answers = {}
    for column in columns:
        _check_levels(column, [data for data in (fresh, logged) if data is not None])
        if isinstance(fresh, Comparisons):
            answers[column] = estimator.estimate_by(column)
            _check_distinct(list(answers[column].cells or ()))
        elif fresh is not None and hasattr(estimator, "estimate_by"):
            answers[column] = _by_itself(estimator, fresh, column)
        else:
            answers[column] = _by_level(build, fresh, logged, column)
    return answers


def _check_levels(column: str, found: Sequence[Dataset | Comparisons]) -> None:
    levels = {
        level for data in found if column in data.groups for level in data.groups[column].names
    }
    if len(levels) > MOST_LEVELS:
        raise CJEError(
            f"the subgroup column has more than {MOST_LEVELS} levels",
            where=f"field {column}",
            value=len(levels),
            hint="if it is an id or a number, add a column with a few categories and use that",
        )


def _by_itself(estimator: Any, fresh: Dataset, column: str) -> EstimationResult:
    """The estimator's own answer, with the parts of each quantity and the cells without rows."""
    cells: list[Cell] = []
    findings: list[Finding] = []
    if column in fresh.groups:
        group, policy = fresh.groups[column], fresh.policy.compact()
        seen = np.zeros((policy.n_names, group.n_names), dtype=bool)
        seen[policy.codes, group.codes] = True
        used = group.counts() > 0
        for p, name in enumerate(policy.names):
            for g, level in enumerate(group.names):
                if seen[p, g]:
                    cells.append({"policy": name, "column": column, "level": level})
                elif used[g]:
                    findings.append(_no_rows(column, level, f"of policy {name}"))
        _check_distinct(cells)
    # Without cells this raises the error about the missing column.
    result: EstimationResult = estimator.estimate_by(column)
    if [f"{cell['policy']} | {cell['level']}" for cell in cells] != list(result.policies):
        raise CJEError(
            "estimate_by must name its values 'policy | level', policies first, as cells_of does",
            value=result.policies,
        )
    found = result.with_(metadata={"cells": cells}, findings=findings)
    return found.with_(findings=refused_within(found, getattr(estimator, "selection_", {})))


def _by_level(
    build: Build, fresh: Dataset | None, logged: Dataset | None, column: str
) -> EstimationResult:
    given = [data for data in (fresh, logged) if data is not None]
    check_subgroup({name: None for data in given for name in data.groups}, column)
    guides = [data for data in given if column in data.groups]
    parts: list[EstimationResult] = []
    estimates: list[InfluenceEstimate] = []
    findings: list[Finding] = []
    cells: list[Cell] = []
    for level in dict.fromkeys(level for data in guides for level in data.groups[column].names):
        rows = [_rows_of(data, column, level) for data in (fresh, logged)]
        empty = [data is not None and len(data) == 0 for data in rows]
        if any(empty):
            if not all(data is None or len(data) == 0 for data in rows):
                where = "in the fresh draws" if empty[0] else "in the logged data"
                findings.append(_no_rows(column, level, where))
            continue
        try:
            result: EstimationResult = build(*rows).fit_and_estimate()
        except CJEError as error:  # a level that is too small must not stop the others
            findings.append(_left_out(column, level, error))
            continue
        parts.append(result)
        estimates.append(result.influence.renamed(_names(result, level)))
        findings += _tagged(result, column, level)
        cells += [{"policy": name, "column": column, "level": level} for name in result.policies]
    if not parts:
        reason = f": {findings[0].message}" if findings else ""
        raise CJEError(f"no level of the subgroup column can be estimated{reason}", value=column)
    _check_distinct(cells)
    levels = [cell["level"] for cell in cells]
    return EstimationResult(
        parts[0].estimator,
        InfluenceEstimate.join(estimates),
        metadata=_together(parts, list(dict.fromkeys(levels))) | {"cells": cells},
        findings=tuple(findings),
    )


def _names(result: EstimationResult, level: str) -> list[str]:
    return [f"{policy} | {level}" for policy in result.policies]


def _together(parts: list[EstimationResult], levels: list[str]) -> dict[str, Any]:
    """The metadata of all levels together: counts and marks by the names of the values."""
    first = parts[0].metadata
    shared = {
        key: first[key] for key in ("level", "quantity", "scale", "off_policy") if key in first
    }
    counts: dict[str, dict[str, Any]] = {"n_rows": {}, "n_labels": {}}
    borrowed: list[str] = []
    for part, level in zip(parts, levels, strict=True):
        for policy, name in zip(part.policies, _names(part, level), strict=True):
            for key, found in counts.items():
                if policy in part.metadata.get(key, {}):
                    found[name] = part.metadata[key][policy]
            if policy in part.metadata.get("borrowed", ()):
                borrowed.append(name)
    return {"quantity": "mean label", **shared, **counts, "borrowed": borrowed}


def _check_distinct(cells: list[Cell]) -> None:
    """Raise if two pairs of policy and level give the same name."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(f"{cell['policy']} | {cell['level']}", cell)
        if other is not cell:
            raise CJEError(
                "two subgroups have the same name",
                value=[(c["policy"], c["level"]) for c in (other, cell)],
                hint="rename a policy or a level so that it has no ' | ' in it",
            )


def _tagged(result: EstimationResult, column: str, level: str) -> list[Finding]:
    """Findings of one level, with the names of its values as subjects."""
    found = []
    for finding in result.findings:
        if finding.subject in result.policies:
            found.append(replace(finding, subject=f"{finding.subject} | {level}"))
        elif finding.severity is Severity.REFUSE:  # concerns every policy
            found += [replace(finding, subject=name) for name in _names(result, level)]
        else:
            found.append(replace(finding, subject=f"{column}={level}"))
    return found


def _left_out(column: str, level: str, error: CJEError) -> Finding:
    hint = error.hint or "add rows and labels of this level"
    return SUBGROUP_LEFT_OUT.finding(f"{column}={level}", where="", reason=error.what, hint=hint)


def _no_rows(column: str, level: str, where: str) -> Finding:
    hint = "add rows of this level, or compare within the levels that both have"
    return SUBGROUP_LEFT_OUT.finding(
        f"{column}={level}", where=f" {where}", reason="it has no rows", hint=hint
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
