"""Linear algebra of estimates: contrasts, selection, scale, and sums of two estimates.

The methods of `InfluenceEstimate` of the same names; everything here stays clustered.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.errors import CJEError
from cje.inference.components import cancelled
from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from cje.inference.estimate import InfluenceEstimate

__all__ = ["all_pairs", "combined", "contrasted", "rescaled", "selected"]


def contrasted(estimate: InfluenceEstimate, matrix: Any, names: Sequence[str]) -> InfluenceEstimate:
    """See `InfluenceEstimate.contrast`."""
    c = np.atleast_2d(np.asarray(matrix, float))
    if c.shape != (len(names), len(estimate)):
        raise CJEError(
            "a contrast needs one row per new name and one column per quantity", value=c.shape
        )
    bounds = None
    if estimate.bounds is not None:
        lower, upper = np.asarray(estimate.bounds).T
        up, down = np.maximum(c, 0.0), np.minimum(c, 0.0)
        bounds = np.column_stack([up @ lower + down @ upper, up @ upper + down @ lower])
    return replace(
        estimate,
        names=tuple(names),
        values=cancelled(c @ estimate.values, np.abs(c) @ np.abs(estimate.values)),
        components=tuple(part.mapped(c) for part in estimate.components),
        bounds=bounds,
        trials=_kept_trials(estimate.trials, c),
        shrinkage=None if estimate.shrinkage is None else c @ estimate.shrinkage,
    )


def _kept_trials(trials: FloatArray | None, matrix: FloatArray) -> FloatArray | None:
    """Trials of the rows that select one value; a difference is not a proportion."""
    if trials is None:
        return None
    column = matrix.argmax(axis=1)
    alone = (matrix != 0).sum(axis=1) == 1
    alone &= matrix[np.arange(len(matrix)), column] == 1.0
    return np.where(alone, trials[column], np.nan)


def selected(estimate: InfluenceEstimate, names: Sequence[str]) -> InfluenceEstimate:
    """See `InfluenceEstimate.select`."""
    columns = [estimate.index(name) for name in names]
    return replace(
        estimate,
        names=tuple(names),
        values=estimate.values[columns],
        components=tuple(part.selected(columns) for part in estimate.components),
        bounds=None if estimate.bounds is None else np.asarray(estimate.bounds)[columns],
        trials=None if estimate.trials is None else estimate.trials[columns],
        shrinkage=None if estimate.shrinkage is None else estimate.shrinkage[columns],
    )


def all_pairs(estimate: InfluenceEstimate) -> InfluenceEstimate:
    """See `InfluenceEstimate.all_pairs`."""
    k, names = len(estimate), estimate.names
    if k < 2:
        raise CJEError("differences need at least two quantities", value=names)
    pairs = list(itertools.combinations(range(k), 2))
    matrix = np.zeros((len(pairs), k))
    for row, (i, j) in enumerate(pairs):
        matrix[row, i], matrix[row, j] = -1.0, 1.0
    return contrasted(estimate, matrix, [f"{names[j]} - {names[i]}" for i, j in pairs])


def rescaled(estimate: InfluenceEstimate, factor: float, offset: float) -> InfluenceEstimate:
    """See `InfluenceEstimate.rescaled`."""
    if factor == 1.0 and offset == 0.0:
        return estimate
    bounds = estimate.bounds
    return replace(
        estimate,
        values=offset + factor * estimate.values,
        components=tuple(part.scaled(factor) for part in estimate.components),
        bounds=None if bounds is None else np.sort(offset + factor * np.asarray(bounds)),
        shrinkage=None if estimate.shrinkage is None else factor * estimate.shrinkage,
    )


def combined(left: InfluenceEstimate, right: InfluenceEstimate, sign: float) -> InfluenceEstimate:
    """``left + sign * right``, aligned on their cluster names."""
    if len(right) != len(left):
        raise CJEError("arithmetic needs as many quantities on both sides", value=len(right))
    k = len(left)
    both = type(left).join(
        [
            left.renamed([f"left {i}" for i in range(k)]),
            right.renamed([f"right {i}" for i in range(k)]),
        ]
    )
    word = "+" if sign > 0 else "-"
    names = [f"{a} {word} {b}" for a, b in zip(left.names, right.names, strict=True)]
    return contrasted(both, np.hstack([np.eye(k), sign * np.eye(k)]), names)
