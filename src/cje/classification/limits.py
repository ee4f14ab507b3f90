"""Confidence limits of the binned metrics, from the sums inside their cells."""

from __future__ import annotations

import numpy as np

from cje.classification import ece, rms
from cje.classification.bins import BinSums
from cje.classification.dependence import class_wise_dependence, top_label_dependence
from cje.classification.even_gaps import even_gap_limit
from cje.classification.folded import (
    Dependence,
    cell_noise,
    lower_limit,
    merged_noise,
    upper_limit,
)
from cje.classification.proportions import proportion_limits, simultaneous_limits
from cje.classification.rows import Rows
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "class_wise", "class_wise_rms", "ece_limits", "mce", "mean_top_label", "rms_error",
    "top_label", "top_label_rms",
]  # fmt: skip

Limits = tuple[float, float]


# Parts of the error rate: the even-gap upper limit, the lower limit of the cells, and that of each
# of the three coarser partitions; they add up to one.
_ABOVE, _BELOW, _BELOW_COARSE = 0.7, 0.15, 0.05


def _sum_limits(
    cells: BinSums, share: FloatArray, level: float, dependence: Dependence | None,
    n_bins: int, rows: Rows,
) -> Limits:  # fmt: skip
    r"""Limits for ``sum share * |gap|``; the value is at most one, and so are they.

    Adding up gaps before the absolute value is taken can only lower their sum, so a lower limit of
    a coarser partition is one of the finer: many small gaps of one sign are clear together. Rows in
    clusters make cells dependent, and are not merged.
    """
    terms, error = share * cells.gap, 1.0 - level
    merge = rows.groups is None
    fine = 1.0 - 2.0 * error * (_BELOW if merge else 1.0 - _ABOVE)
    low = lower_limit(terms, cell_noise(cells, share, fine, dependence), fine)
    if merge:
        coarse = 1.0 - 2.0 * error * _BELOW_COARSE
        noise = cell_noise(cells, share, coarse)
        for into in _coarser(cells.cell % n_bins, n_bins):
            low = max(low, lower_limit(*merged_noise(terms, noise, into, coarse), coarse))
    high = even_gap_limit(cells, share, _ABOVE * error, dependence)
    other = upper_limit(terms, cell_noise(cells, share, level, dependence), level)
    high = min(high, other) if other > 0.0 else high
    return low, max(high, low)


def _coarser(bins: IntArray, n_bins: int) -> tuple[IntArray, IntArray, IntArray]:
    """The bins without their labels, in fifths, and in halves."""
    return bins, bins // -(-n_bins // 5), bins // -(-n_bins // 2)


def _shares(cells: BinSums) -> FloatArray:
    return np.asarray(cells.weight / cells.weight.sum())


def _binary_cells(rows: Rows, n_bins: int, strategy: str) -> BinSums:
    return ece.binary_cells(rows.y, rows.p, rows.w, n_bins, strategy, rows.groups)


def _plain(rows: Rows) -> Rows:
    """The rows without their labels: every bin holds all classes."""
    return Rows("binary", rows.p, rows.y, rows.w, rows.groups)


def ece_limits(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the ECE of scores, or of confidences, over bins."""
    cells = _binary_cells(rows, n_bins, strategy)
    dependence = top_label_dependence(_plain(rows), n_bins, strategy, cells)
    return _sum_limits(cells, _shares(cells), level, dependence, n_bins, rows)


def mce(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the MCE: simultaneous below (any bin may have it), pointwise above (one has)."""
    cells = _binary_cells(rows, n_bins, strategy)
    error = (1.0 - level) / 2.0
    low, high = simultaneous_limits(cells, error / 2.0)
    below = np.maximum(np.maximum(low - cells.mean_p, cells.mean_p - high), 0.0).max()
    low, high = proportion_limits(cells, error)
    above = np.maximum(cells.mean_p - low, high - cells.mean_p).max()
    return float(below), float(above)


def rms_error(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the RMS calibration error of scores over bins."""
    cells = _binary_cells(rows, n_bins, strategy)
    return rms.rms_limits(cells, level, top_label_dependence(_plain(rows), n_bins, strategy, cells))


def _top(rows: Rows, n_bins: int, strategy: str) -> tuple[BinSums, Dependence | None]:
    cells = ece.top_label_cells(rows.top, rows.w, n_bins, strategy, rows.groups)
    return cells, top_label_dependence(rows, n_bins, strategy, cells)


def top_label(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the top-label ECE."""
    cells, dependence = _top(rows, n_bins, strategy)
    return _sum_limits(cells, _shares(cells), level, dependence, n_bins, rows)


def mean_top_label(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the unweighted mean of the labels' ECE."""
    cells, dependence = _top(rows, n_bins, strategy)
    return _sum_limits(cells, ece.label_shares(cells, n_bins), level, dependence, n_bins, rows)


def top_label_rms(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the top-label RMS calibration error."""
    cells, dependence = _top(rows, n_bins, strategy)
    return rms.rms_limits(cells, level, dependence)


def _classes(rows: Rows, n_bins: int, strategy: str) -> tuple[BinSums, Dependence]:
    cells = ece.class_wise_cells(rows.y, rows.p, rows.w, n_bins, strategy, rows.groups)
    return cells, class_wise_dependence(rows, n_bins, strategy, cells)


def class_wise(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the class-wise ECE."""
    cells, dependence = _classes(rows, n_bins, strategy)
    return _sum_limits(cells, _shares(cells), level, dependence, n_bins, rows)


def class_wise_rms(rows: Rows, level: float, n_bins: int = 15, strategy: str = "uniform") -> Limits:
    """Limits for the class-wise RMS calibration error."""
    cells, dependence = _classes(rows, n_bins, strategy)
    return rms.rms_limits(cells, level, dependence)
