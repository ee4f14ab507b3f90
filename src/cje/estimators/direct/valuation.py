"""The value of one policy (or cell) from a fitted prediction: rectified, or borrowed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.estimators.direct.borrowing import Borrowing
from cje.estimators.direct.cells import Cell, CellRows, Labels
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
    labels : Labels
    pool : LabelPool
    predictor : LabelPredictor
    borrowing : Borrowing
    min_labels : int
        Labelled clusters from which a cell rests on its own labels.
    """

    labels: Labels
    pool: LabelPool
    predictor: LabelPredictor
    borrowing: Borrowing
    min_labels: int

    def labelled_cell(self, own: IntArray, rows: CellRows) -> LabelledCell:
        """The labels at `own`, with the weights of their rows where prompts have several draws."""
        labels, u = self.labels, rows.labelled
        if labels.propensity is None:
            w, c = u, u**2
        else:
            pi = labels.propensity[own]
            w, c = u / pi, u**2 * (1.0 - pi) / pi**2
        # all rows labelled for certain: any slope gives the mean of the labels
        c = c if c.sum() > 0 else np.ones(len(own))
        cluster, _ = renumbered(labels.units[own])
        return LabelledCell(
            labels.prediction[own], labels.label[own], w / w.sum(), c / c.mean(), cluster
        )

    def rectified(
        self, rows: CellRows, own: IntArray, cell: LabelledCell, slope: float, enough: bool
    ) -> Cell:
        """The cell corrected by its own labels; where not `enough`, towards the borrowed value."""
        scores = rows.scores
        prediction = self.predictor.average(scores.values, scores.covariates)
        if scores.offset is not None:
            prediction += scores.offset
        centre = float(rows.weight @ prediction) + float(rows.labelled @ cell.prediction)
        found = rectified_mean(centre, cell, slope, fitted_here=enough)
        value, unseen, few, trials = found.value, 0.0, None, np.nan
        by_score = found.of_rows(prediction)
        at_labels = rows.labelled * found.of_rows(cell.prediction)
        if enough:
            at_labels += found.labels
            rest = float(rows.square @ by_score**2)
            trials = effective_trials(at_labels, rest, rows.n_rows / len(own), cell)
            if np.ptp(cell.label) == 0.0:
                unseen = unseen_variance(cell.n_clusters)
        else:
            few = few_labels(found, cell, self._other_variance(own, slope))
            unseen = few.unseen
            value = towards_borrowed(
                found.value, self._mean_reward(rows), few.variance, cell.n_clusters, self.min_labels
            )
        mean = float(cell.weight @ cell.label)
        variance = float(cell.weight @ (cell.label - mean) ** 2)
        error = cell.label - slope * cell.prediction
        spread = float(cell.weight @ (error - float(cell.weight @ error)) ** 2)
        shares = cell.by_cluster(cell.weight)
        clusters = np.empty(cell.n_clusters, dtype=np.int64)
        clusters[cell.cluster] = self.labels.units[own]
        value = float(np.clip(value, 0.0, 1.0))
        return Cell(
            value,
            rows,
            by_score,
            at_labels,
            cell.n_clusters,
            slope if enough else None,
            None if variance <= 0 else 1.0 - spread / variance,
            variance,
            unseen,
            RaterShare(self.labels.rows[own], cell.weight, error - float(cell.weight @ error)),
            trials,
            label_variance=spread * shares**2 if enough else None,
            clusters=clusters,
            few=few,
            shrinkage=0.0 if enough else value - found.value,
        )

    def _mean_reward(self, rows: CellRows) -> float:
        """The mean calibrated reward of all rows of a cell."""
        scores = rows.all_scores
        return float(rows.all_weights @ self.predictor.reward(scores.values, scores.covariates))

    def _other_variance(self, own: IntArray, slope: float) -> float:
        """Variance of the residuals of all labels but those given."""
        pool = self.pool
        other = np.ones(len(pool.labels), dtype=bool)
        other[own] = False
        if not other.any():
            other[:] = True
        error = (pool.labels - slope * self.predictor.at_labels)[other]
        return float(error.var())

    def borrowed(self, rows: CellRows, n_clusters: int) -> Cell:
        """The cell by the calibration learnt from all labels."""
        scores, u = rows.all_scores, rows.all_weights
        found = self.borrowing.value(scores.values, scores.covariates, u)
        pool, d = self.pool, len(rows.weight)
        return Cell(
            found.value,
            rows,
            found.by_score[:d],
            rows.labelled * found.by_score[d:],
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
