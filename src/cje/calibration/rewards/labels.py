"""Labelled rows in a canonical order, aggregated to distinct scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cje.checks import LARGEST, finite_array, float_array, fold_column
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["LabelTable", "Rows", "no_labels"]

_PROBE = 256
_MOST_FOLDS = 10**6


def no_labels() -> CJEError:
    """The error of a calibration without labels."""
    return CJEError("No oracle labels to calibrate on", hint="label some rows, at least 20 of them")


class Rows(NamedTuple):
    """Parallel columns: single rows, or cells with a mean label and a total weight."""

    scores: FloatArray
    labels: FloatArray
    weights: FloatArray
    covariates: FloatArray | None


@dataclass(frozen=True)
class LabelTable:
    """Labels sorted by (score, label, weight, ...), with per-cell, per-fold sums.

    The sort makes every later sum independent of the order the rows arrived in, to the last bit.
    A cell is a distinct score; with covariates each row is its own cell.
    """

    scores: FloatArray  # (n,) sorted
    labels: FloatArray
    weights: FloatArray
    covariates: FloatArray | None
    folds: IntArray | None
    n_folds: int
    order: IntArray  # table row -> row of the caller
    cell: IntArray  # (n,) cell of each row
    cell_scores: FloatArray  # (d,)
    sum_w: FloatArray  # (d,)
    sum_wy: FloatArray  # (d,)

    @classmethod
    def build(
        cls,
        scores: FloatArray,
        labels: FloatArray,
        weights: FloatArray | None,
        folds: IntArray | None,
        n_folds: int | None,
        covariates: FloatArray | None,
    ) -> LabelTable:
        """Sort and aggregate the labelled rows."""
        n = len(scores)
        if n == 0:
            raise no_labels()
        w = (
            np.ones(n)
            if weights is None
            else finite_array("weights", weights, n=n, largest=LARGEST)
        )
        if (w < 0).any() or not w.sum() > 0:
            raise CJEError("Sample weights must be non-negative and not all zero")
        covariates = None if covariates is None else _read_covariates(covariates, n)
        folds = None if folds is None else fold_column("folds", folds, n)
        keys = None if weights is None else w
        order = _canonical_order(scores, labels, keys, covariates, folds)
        scores = scores[order]
        if covariates is None:
            cell = np.cumsum(np.diff(scores, prepend=scores[0]) != 0)
        else:
            cell = np.arange(n)
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        table = cls(
            scores=scores,
            labels=labels[order],
            weights=w[order],
            covariates=None if covariates is None else covariates[order],
            folds=None if folds is None else folds[order],
            n_folds=_count_folds(folds, n_folds),
            order=order,
            cell=cell,
            cell_scores=scores[first],
            sum_w=np.empty(0),
            sum_wy=np.empty(0),
        )
        return table._with_weights(table.weights)

    @property
    def n_labels(self) -> int:
        """Rows with a positive weight."""
        return int(np.count_nonzero(self.weights))

    def rows(self) -> Rows:
        """The single rows, in table order."""
        return Rows(self.scores, self.labels, self.weights, self.covariates)

    def cells(self) -> Rows:
        """Cells of positive weight: score, mean label, total weight."""
        live = self.sum_w > 0
        w = self.sum_w[live]
        covariates = None if self.covariates is None else self.covariates[live]
        return Rows(self.cell_scores[live], self.sum_wy[live] / w, w, covariates)

    def reweighted(self, factors: FloatArray) -> LabelTable:
        """Row weights multiplied by `factors`, given in the caller's row order."""
        given = finite_array("weights", factors, n=len(self.scores), largest=LARGEST)
        if given.min() < 0.0:
            raise CJEError("Sample weights must be non-negative", value=float(given.min()))
        return self._with_weights(self.weights * given[self.order])

    def without(self, rows: IntArray) -> LabelTable:
        """The table without the given rows (the caller's row numbers)."""
        factors, index = np.ones(len(self.scores)), np.asarray(rows)
        inside = index.dtype.kind in "iu" and ((index >= 0) & (index < len(factors))).all()
        if index.size and not inside:
            raise CJEError(
                "rows to leave out must be numbers of labelled rows", value=rows,
                hint=f"there are {len(factors)} of them",
            )  # fmt: skip
        factors[index.astype(np.int64)] = 0.0
        return self.reweighted(factors)

    def without_fold(self, fold: int) -> LabelTable:
        """All rows outside one fold."""
        assert self.folds is not None
        return self._with_weights(np.where(self.folds == fold, 0.0, self.weights))

    def fold_is_empty(self, fold: int) -> bool:
        """Whether no labelled row falls in the fold."""
        assert self.folds is not None
        return not (self.weights[self.folds == fold] > 0).any()

    def _with_weights(self, weights: FloatArray) -> LabelTable:
        if not (weights > 0).any():
            raise CJEError(
                "Leaving these rows out leaves no oracle label to fit on",
                hint="use fewer folds, or label rows of more prompts",
            )
        d = len(self.cell_scores)
        return replace(
            self,
            weights=weights,
            sum_w=np.bincount(self.cell, weights, minlength=d).astype(np.float64),
            sum_wy=np.bincount(self.cell, weights * self.labels, minlength=d).astype(np.float64),
        )


def _canonical_order(
    scores: FloatArray,
    labels: FloatArray,
    weights: FloatArray | None,
    covariates: FloatArray | None,
    folds: IntArray | None,
) -> IntArray:
    """Sort by score, ties by everything else that enters a sum."""
    probe = scores[:_PROBE]
    if len(np.unique(probe)) == len(probe):
        order = np.argsort(scores)
        if (np.diff(scores[order]) > 0).all():
            return order
    keys: list[NDArray[Any]] = [] if weights is None else [weights]
    keys += [] if covariates is None else list(covariates.T)
    keys += [] if folds is None else [folds]
    return np.lexsort([*keys, labels, scores])


def _read_covariates(given: FloatArray, n: int) -> FloatArray:
    table = float_array("covariates", given)
    if table.ndim != 2 or len(table) != n:
        raise CJEError("covariates must have one row per label", value=table.shape)
    for column in table.T:
        finite_array("covariates", column, n=n, largest=LARGEST)
    return table


def _count_folds(folds: IntArray | None, n_folds: int | None) -> int:
    if n_folds is not None:
        whole = isinstance(n_folds, int | np.integer) and not isinstance(n_folds, bool)
        if not whole or not 0 <= n_folds <= _MOST_FOLDS:
            raise CJEError("n_folds must be a whole number", value=n_folds)
    if folds is None:
        return 0
    top = int(folds.max()) + 1
    if (n_folds is not None and top > n_folds) or int(folds.min()) < 0:
        raise CJEError(
            "Fold numbers must lie between 0 and n_folds - 1", value=(int(folds.min()), top - 1)
        )
    return top if n_folds is None else n_folds
