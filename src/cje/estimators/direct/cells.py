"""One policy after estimation, and the sources of uncertainty of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.estimators.direct.own_labels import FewLabels
from cje.estimators.direct.raters import RaterShare
from cje.inference import LABELS, SAMPLE_LABELS, SAMPLING, Component
from cje.inference.folded import FoldedClusters
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = [
    "Cell",
    "CellRows",
    "Labels",
    "Scores",
    "few_label_component",
    "label_components",
    "sampling_component",
    "to_bound",
]


@dataclass(frozen=True)
class Scores:
    """Judge scores, with covariates where there are any.

    `offset` is what the text of each row adds to its prediction; a borrowed value does not use it.
    """

    values: FloatArray
    covariates: FloatArray | None = None
    offset: FloatArray | None = None


@dataclass(frozen=True)
class CellRows:
    """The rows of one policy (or cell): weights u that sum to one and count each prompt once.

    Attributes
    ----------
    scores : Scores
        Of the rows without a label; equal ones may stand together.
    weight, square : array (d,)
        Sums of u and of u^2 over the rows of each entry of `scores`.
    labelled_scores : Scores
    labelled : array (m,)
        u of each labelled row.
    n_rows : int
        Rows, labelled or not.
    """

    scores: Scores
    weight: FloatArray
    square: FloatArray
    labelled_scores: Scores
    labelled: FloatArray
    n_rows: int

    @property
    def all_scores(self) -> Scores:
        """Scores of all rows: those without a label, then the labelled ones."""
        both = (self.scores, self.labelled_scores)
        known = [part.covariates for part in both if part.covariates is not None]
        return Scores(
            np.concatenate([part.values for part in both]), np.concatenate(known) if known else None
        )

    @property
    def all_weights(self) -> FloatArray:
        """The weights of `all_scores`."""
        return np.concatenate([self.weight, self.labelled])


@dataclass(frozen=True)
class Labels:
    """The labelled rows: positions, clusters, cross-fitted predictions, labels, propensities."""

    rows: IntArray
    units: IntArray
    prediction: FloatArray
    label: FloatArray
    propensity: FloatArray | None


@dataclass(frozen=True)
class Cell:
    """One policy (or policy within a subgroup) after estimation."""

    value: float
    rows: CellRows
    by_score: FloatArray  # influence of a row without a label, per unit of its weight
    at_labels: FloatArray  # influence of each labelled row
    n_clusters: int  # labelled
    slope: float | None  # None: borrowed calibration
    r2: float | None
    spread: float | None  # variance of its labels
    unseen_variance: float  # variance assumed where identical labels show none
    share: RaterShare  # of its labels in the value
    trials: float = np.nan  # binary labels: effective number of independent ones
    by_label: FloatArray | None = None  # borrowed: influence of every label of the pool
    label_variance: FloatArray | None = None  # of the labels of each of its clusters
    clusters: IntArray | None = None  # those clusters
    few: FewLabels | None = None  # of labels too few to be part of `influence`
    shrinkage: float = 0.0  # how far its value is from its own labels' mean

    @property
    def n_labels(self) -> int:
        """Labels of its own."""
        return len(self.at_labels)


def sampling_component(
    cells: Sequence[Cell], influence: FloatArray, folded: FoldedClusters | None
) -> Component:
    """The sample's rows, with the variance expected of each labelled cluster."""
    known = np.zeros(influence.shape)  # memory that is never touched costs nothing
    for k, cell in enumerate(cells):
        if cell.clusters is not None and cell.label_variance is not None:
            known[cell.clusters, k] = cell.label_variance
    return Component(SAMPLING, influence, label_variance=known, folded=folded)


def few_label_component(cells: Sequence[Cell], n_units: int) -> list[Component]:
    """The labels of the policies that have few, with a moderated variance."""
    if all(cell.few is None for cell in cells):
        return []
    influence = np.zeros((n_units, len(cells)))
    spread = np.zeros_like(influence)
    for k, cell in enumerate(cells):
        if cell.few is not None:
            influence[cell.clusters, k] = cell.few.influence
            spread[cell.clusters, k] = cell.few.spread
    return [Component(SAMPLE_LABELS, influence, spread=spread)]


def label_components(
    cells: Sequence[Cell], clusters: IntArray, n_units: int, df: float
) -> list[Component]:
    """Uncertainty of the labels behind borrowed values, and of labels that are all the same.

    `clusters` are those of the pool's labels, the data set's `n_units` first. A label of a cluster
    without fresh draws enters by the covariance of what it moves: as a cluster it would count among
    those from which the sampling variance is known.
    """
    apart = np.diag([cell.unseen_variance for cell in cells])
    found = []
    if any(cell.by_label is not None for cell in cells):
        columns = np.zeros((max(n_units, int(clusters.max()) + 1), len(cells)))
        for k, cell in enumerate(cells):
            if cell.by_label is not None:
                columns[:, k] = cluster_sums(cell.by_label, clusters, len(columns))
        elsewhere = columns[n_units:]
        apart += elsewhere.T @ elsewhere
        found.append(Component(LABELS, columns[:n_units], df=df))
    if apart.any():
        found.append(Component(LABELS, covariance=apart))
    return found


def to_bound(cell: Cell, se: float) -> float | None:
    """Standard error over the efficiency bound's, sigma^2 (1-R^2)/labels + sigma^2 R^2/rows."""
    if cell.r2 is None or cell.spread is None:
        return None
    r2 = min(max(cell.r2, 0.0), 1.0)
    bound = cell.spread * ((1.0 - r2) / cell.n_labels + r2 / cell.rows.n_rows)
    return se / float(np.sqrt(bound)) if bound > 0 else None
