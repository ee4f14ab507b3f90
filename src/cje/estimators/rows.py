"""What estimators need from the rows: checks, cells, weights of draws, covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.scale import Scale
from cje.errors import CJEError
from cje.hints import option_hint
from cje.kernels.arrays import FloatArray

__all__ = [
    "cells_of",
    "check_covariates",
    "check_propensities",
    "check_subgroup",
    "covariate_matrix",
    "draw_weights",
    "require_same_judge_scale",
    "require_scores",
]


def require_scores(data: Dataset, who: str) -> None:
    """Raise CJEError where a row has no judge score."""
    if len(data) == 0:
        raise CJEError(f"{who}: the data set has no rows")
    missing = np.isnan(data.judge_score)
    if missing.any():
        first = int(np.argmax(missing))
        prompt = data.prompt_id.vocabulary[int(data.prompt_id.codes[first])]
        raise CJEError(
            f"{who}: {int(missing.sum())} of {len(data)} rows have no judge_score",
            where=f"first at row {first + 1}, prompt {prompt}",
            hint="score them, or remove them before the analysis",
        )


def require_same_judge_scale(scale: Scale, other: Dataset, what: str, than: str) -> None:
    """Scores of two files are comparable only where both were put on [0, 1] by the same range."""
    if other.judge_scale != scale:
        raise CJEError(
            f"the judge scores of {what} were read on {other.judge_scale}, those of {than} on "
            f"{scale}, so one calibration cannot serve both",
            hint="state the range the judge scores on, for example "
            f"{option_hint('judge_scale', '1-5')}",
        )


def check_subgroup(groups: Mapping[str, Any], column: str) -> None:
    """Raise CJEError unless `column` is one of the subgroup columns."""
    if column not in groups:
        known = ", ".join(groups) or "none"
        raise CJEError("no such subgroup column", value=column, hint=f"available columns: {known}")


def check_covariates(covariates: Mapping[str, FloatArray], names: Sequence[str]) -> None:
    """Raise CJEError unless every name is a covariate without missing values."""
    for name in names:
        if name not in covariates:
            known = ", ".join(covariates) or "none"
            raise CJEError("no such covariate", value=name, hint=f"available covariates: {known}")
        if not np.isfinite(covariates[name]).all():
            raise CJEError("a covariate has missing values", value=name)


def check_propensities(labelled: FloatArray) -> None:
    """Raise CJEError where a labelled row has no propensity."""
    missing = int(np.count_nonzero(~np.isfinite(labelled)))
    if missing:
        raise CJEError(
            "a labelled row has no label_propensity",
            value=missing,
            hint="give the propensity of every labelled row, or drop the column",
        )


def cells_of(data: Dataset, column: str) -> Codes:
    """Policy x level of a subgroup column; combinations without rows are left out."""
    check_subgroup(data.groups, column)
    group, policy = data.groups[column], data.policy
    codes = policy.codes * group.n_names + group.codes
    names = [f"{p} | {g}" for p in policy.names for g in group.names]
    return Codes(codes, names).compact()


def draw_weights(data: Dataset, cells: Codes) -> FloatArray | None:
    """Row weights that sum to one in each cell and count each prompt once; None where equal.

    A prompt with five draws counts as much as a prompt with one: the estimand is a mean over
    prompts.
    """
    if not data.draw_idx.any():
        return None
    pair = cells.codes * data.prompt_id.n_names + data.prompt_id.codes
    distinct, inverse, counts = np.unique(pair, return_inverse=True, return_counts=True)
    weight = 1.0 / counts[inverse]
    if weight.min() == weight.max():
        return None
    # as many as the weights of a cell add up to, without the rounding of their sum
    prompts = np.bincount(distinct // data.prompt_id.n_names, minlength=cells.n_names)
    return np.asarray(weight / prompts[cells.codes])


def covariate_matrix(data: Dataset, names: Sequence[str]) -> FloatArray | None:
    """(n, p) covariates by name, finite; None where `names` is empty."""
    if not names:
        return None
    check_covariates(data.covariates, names)
    return np.column_stack([data.covariates[name] for name in names])
