r"""How much the dependence of cells raises the variances of sums over them.

A row that enters a cell of every class, or a cluster whose rows lie in several cells, makes the
cells' gaps dependent. With :math:`A` the (clusters x cells) matrix of contributions the covariance
is close to :math:`A^\top A`; nothing of its size is formed. The signed sum has variance
:math:`\|A\,\mathrm{sgn}\|^2`, and the squared Frobenius norm is the mean of
:math:`\|A^\top A v\|^2` over random signs v (Hutchinson 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cje.classification._arrays import row_shares
from cje.classification.bins import BinSums, binner
from cje.classification.clusters import cluster_sums
from cje.classification.ece import top_cell_numbers
from cje.classification.folded import Dependence
from cje.classification.rows import Rows
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["class_wise_dependence", "top_label_dependence"]

_PROBES, _FEW_PROBES = 16, 1
_MANY_ENTRIES = 5_000_000  # of A: one probe then averages over enough cells
Layers = Callable[[], Iterator[tuple[FloatArray, IntArray]]]


def top_label_dependence(
    rows: Rows, n_bins: int, strategy: str, cells: BinSums
) -> Dependence | None:
    """Dependence of (label, bin) or plain bins through clusters; None for independent rows."""
    if rows.groups is None:
        return None
    if rows.label is None:
        numbers = binner(rows.p, n_bins, strategy, rows.w)(rows.p).astype(np.int64)
        n_cells = n_bins
    else:
        numbers, n_cells = top_cell_numbers(rows.top, rows.w, n_bins, strategy)
    terms = row_shares(len(rows), rows.w) * rows.residual
    return _dependence(lambda: iter([(terms, numbers)]), 1, n_cells, rows, cells)


def class_wise_dependence(rows: Rows, n_bins: int, strategy: str, cells: BinSums) -> Dependence:
    """Dependence of (class, bin) cells, which share their rows."""
    share, k = row_shares(len(rows), rows.w), rows.p.shape[1]

    def layers() -> Iterator[tuple[FloatArray, IntArray]]:
        for column in range(k):
            score = np.ascontiguousarray(rows.p[:, column])
            bins = binner(score, n_bins, strategy, rows.w)(score)
            yield share * ((rows.y == column) - score), bins + column * n_bins

    return _dependence(layers, k, k * n_bins, rows, cells)


def _dependence(
    layers: Layers, n_layers: int, n_cells: int, rows: Rows, cells: BinSums
) -> Dependence:
    n_probes = _PROBES if n_layers * len(rows) < _MANY_ENTRIES else _FEW_PROBES
    rng = np.random.default_rng(0)
    vectors = np.zeros((n_cells, 1 + n_probes))
    vectors[cells.cell, 0] = np.where(cells.gap >= 0.0, 1.0, -1.0)
    vectors[:, 1:] = rng.integers(0, 2, (n_cells, n_probes)) * 2.0 - 1.0
    along = np.zeros((len(rows), 1 + n_probes))
    for terms, numbers in layers():
        along += terms[:, None] * vectors[numbers]
    sums = np.column_stack([cluster_sums(column, rows.groups) for column in along.T])
    back, diagonal = np.zeros((n_cells, n_probes)), np.zeros(n_cells)
    spread = sums[:, 1:] if rows.groups is None else sums[rows.groups, 1:]
    for terms, numbers in layers():
        diagonal += _cell_variances(terms, numbers, n_cells, rows.groups)
        for probe in range(n_probes):
            weighted = terms * spread[:, probe]
            back[:, probe] += np.bincount(numbers, weights=weighted, minlength=n_cells)
    signed = float(sums[:, 0] @ sums[:, 0]) / max(float(diagonal.sum()), np.finfo(float).tiny)
    norm = float((back**2).sum()) / n_probes
    return Dependence(
        max(signed, 1.0), max(norm / max(float((diagonal**2).sum()), np.finfo(float).tiny), 1.0)
    )


def _cell_variances(
    terms: FloatArray, numbers: IntArray, n_cells: int, groups: IntArray | None
) -> FloatArray:
    if groups is None:
        return np.bincount(numbers, weights=terms**2, minlength=n_cells).astype(np.float64)
    pair, cluster = np.unique(groups * n_cells + numbers, return_inverse=True)
    sums = np.bincount(cluster, weights=terms)
    return np.bincount(pair % n_cells, weights=sums**2, minlength=n_cells).astype(np.float64)
