"""One policy after estimation, and the sources of uncertainty of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.estimators.direct.own_labels import FewLabels
from cje.estimators.direct.raters import RaterShare
from cje.inference import LABELS, SAMPLE_LABELS, SAMPLING, Component
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = [
    "Cell",
    "Labels",
    "few_label_component",
    "label_components",
    "sampling_component",
    "to_bound",
]


@dataclass(frozen=True)
class Labels:
    """The labelled rows of the data set: positions, cross-fitted predictions, propensities."""

    rows: IntArray
    prediction: FloatArray
    label: FloatArray
    propensity: FloatArray | None


@dataclass(frozen=True)
class Cell:
    """One policy (or policy within a subgroup) after estimation."""

    value: float
    influence: FloatArray  # per row of the cell
    rows: IntArray
    n_labels: int
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


def sampling_component(cells: Sequence[Cell], influence: FloatArray) -> Component:
    """The sample's rows, with the variance expected of each labelled cluster."""
    known = np.zeros(influence.shape)  # memory that is never touched costs nothing
    for k, cell in enumerate(cells):
        if cell.clusters is not None and cell.label_variance is not None:
            known[cell.clusters, k] = cell.label_variance
    return Component(SAMPLING, influence, label_variance=known)


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
    bound = cell.spread * ((1.0 - r2) / cell.n_labels + r2 / len(cell.rows))
    return se / float(np.sqrt(bound)) if bound > 0 else None
