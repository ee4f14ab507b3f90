"""The value of one policy (or cell) from a fitted prediction: rectified, or borrowed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.estimators.direct.borrowing import Borrowing
from cje.estimators.direct.cells import Cell, Labels
from cje.estimators.direct.label_pool import LabelPool
from cje.estimators.direct.label_predictor import LabelPredictor
from cje.estimators.direct.own_labels import few_labels, towards_borrowed
from cje.estimators.direct.raters import RaterShare
from cje.estimators.direct.rectifier import LabelledCell, effective_trials, rectified_mean
from cje.estimators.identical_labels import unseen_variance
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import count_distinct, renumbered

__all__ = ["Valuation"]


@dataclass(frozen=True)
class Valuation:
    """What is fitted once and values every cell.

    Attributes
    ----------
    data : Dataset
    x : array (n, p), optional
        Covariates of its rows.
    units : Codes
        Cluster of each row.
    labels : Labels
    pool : LabelPool
    predictor : LabelPredictor
    borrowing : Borrowing
    min_labels : int
        Labelled clusters from which a cell rests on its own labels.
    offset : array (n,), optional
        What the text of each row adds to its prediction; a borrowed value does not use it.
    """

    data: Dataset
    x: FloatArray | None
    units: Codes
    labels: Labels
    pool: LabelPool
    predictor: LabelPredictor
    borrowing: Borrowing
    min_labels: int
    offset: FloatArray | None = None

    def labelled_cell(self, own: IntArray, weights: FloatArray | None) -> LabelledCell:
        """The labels at `own`, with row weights where prompts have several draws."""
        labels = self.labels
        u = np.ones(len(own)) if weights is None else weights[labels.rows[own]]
        if labels.propensity is None:
            w, c = u, u**2
        else:
            pi = labels.propensity[own]
            w, c = u / pi, u**2 * (1.0 - pi) / pi**2
        # all rows labelled for certain: any slope gives the mean of the labels
        c = c if c.sum() > 0 else np.ones(len(own))
        cluster, _ = renumbered(self.units.codes[labels.rows[own]])
        return LabelledCell(
            labels.prediction[own], labels.label[own], w / w.sum(), c / c.mean(), cluster
        )

    def rectified(
        self,
        rows: IntArray,
        row_weight: FloatArray | None,
        at: IntArray,
        cell: LabelledCell,
        slope: float,
        enough: bool,
    ) -> Cell:
        """The cell corrected by its own labels; where not `enough`, towards the borrowed value."""
        x = None if self.x is None else self.x[rows]
        scores = self.data.judge_score[rows]
        prediction = self.predictor.average(scores, x)
        if self.offset is not None:
            prediction += self.offset[rows]
        prediction[at] = cell.prediction
        found = rectified_mean(prediction, row_weight, cell, slope, fitted_here=enough)
        value, unseen, few = found.value, 0.0, None
        influence = found.sample
        if enough:
            trials = effective_trials(found, at, cell)
            influence[at] += found.labels
            if np.ptp(cell.label) == 0.0:
                unseen = unseen_variance(cell.n_clusters)
        else:
            trials = np.nan
            few = few_labels(found, cell, self._other_variance(rows[at], slope))
            unseen = few.unseen
            u = np.full(len(rows), 1.0 / len(rows)) if row_weight is None else row_weight
            borrowed = float(u @ self.predictor.reward(scores, x))
            value = towards_borrowed(
                found.value, borrowed, few.variance, cell.n_clusters, self.min_labels
            )
        mean = float(cell.weight @ cell.label)
        variance = float(cell.weight @ (cell.label - mean) ** 2)
        error = cell.label - slope * cell.prediction
        spread = float(cell.weight @ (error - float(cell.weight @ error)) ** 2)
        shares = cell.by_cluster(cell.weight)
        codes = self.units.codes[rows[at]]
        clusters = np.empty(cell.n_clusters, dtype=np.int64)
        clusters[cell.cluster] = codes
        value = float(np.clip(value, 0.0, 1.0))
        return Cell(
            value,
            influence,
            rows,
            len(at),
            cell.n_clusters,
            slope if enough else None,
            None if variance <= 0 else 1.0 - spread / variance,
            variance,
            unseen,
            RaterShare(rows[at], cell.weight, error - float(cell.weight @ error)),
            trials,
            label_variance=spread * shares**2 if enough else None,
            clusters=clusters,
            few=few,
            shrinkage=0.0 if enough else value - found.value,
        )

    def _other_variance(self, own_rows: IntArray, slope: float) -> float:
        """Variance of the residuals of all labels but those of the rows given."""
        pool = self.pool
        other = np.ones(len(pool.labels), dtype=bool)
        other[np.searchsorted(self.labels.rows, own_rows)] = False
        if not other.any():
            other[:] = True
        error = (pool.labels - slope * self.predictor.at_labels)[other]
        return float(error.var())

    def borrowed(
        self, rows: IntArray, row_weight: FloatArray | None, n_labels: int, n_clusters: int
    ) -> Cell:
        """The cell by the calibration learnt from all labels."""
        x = None if self.x is None else self.x[rows]
        u = np.full(len(rows), 1.0 / len(rows)) if row_weight is None else row_weight
        found = self.borrowing.value(self.data.judge_score[rows], x, u)
        pool = self.pool
        return Cell(
            found.value,
            found.sample,
            rows,
            n_labels,
            n_clusters,
            None,
            None,
            None,
            unseen_variance(count_distinct(pool.clusters)) if np.ptp(pool.labels) == 0.0 else 0.0,
            RaterShare(self.labels.rows, *self._label_share()),
            by_label=found.by_label,
        )

    def _label_share(self) -> tuple[FloatArray, FloatArray]:
        """Weights and residuals of all own labels, as a borrowed value rests on them."""
        labels = self.labels
        w = np.ones(len(labels.rows)) if labels.propensity is None else 1.0 / labels.propensity
        error = labels.label - labels.prediction
        w = w / w.sum() if len(w) else w
        return w, error - float(w @ error)
