"""The same question within each level of a column, for any estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.result import EstimationResult
from cje.inference import InfluenceEstimate

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
    parts = []
    for level in guide.groups[column].names:
        rows = [_rows_of(data, column, level) for data in (fresh, logged)]
        if any(data is not None and len(data) == 0 for data in rows):
            continue
        result: EstimationResult = build(*rows).fit_and_estimate()
        names = [f"{policy} | {level}" for policy in result.policies]
        parts.append((result, result.influence.renamed(names)))
    if not parts:
        raise CJEError("no level of the subgroup column has rows", value=column)
    first = parts[0][0]
    return EstimationResult(
        first.estimator,
        InfluenceEstimate.join([estimate for _, estimate in parts]),
        metadata={"level": first.level, "quantity": first.metadata.get("quantity", "mean label")},
        findings=tuple(f for result, _ in parts for f in result.findings),
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
