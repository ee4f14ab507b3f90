"""Clopper-Pearson limits for the mean outcome of cells: each by itself, or all at once."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from cje.classification.bins import BinSums
from cje.kernels.arrays import FloatArray

__all__ = ["proportion_limits", "simultaneous_limits"]

_NEARLY_ONE = float(np.nextafter(1.0, 0.0))


def proportion_limits(cells: BinSums, error: float) -> tuple[FloatArray, FloatArray]:
    """Limits for the mean outcome of each cell, `error` outside on each side."""
    n = cells.effective
    ones = n * cells.mean_y
    inside_low, inside_high = ones > 1e-9, n - ones > 1e-9
    low = np.where(inside_low, betaincinv(np.maximum(ones, 1e-9), n - ones + 1.0, error), 0.0)
    high = np.where(
        inside_high, betaincinv(ones + 1.0, np.maximum(n - ones, 1e-9), 1.0 - error), 1.0
    )
    return low, high


def simultaneous_limits(cells: BinSums, error: float) -> tuple[FloatArray, FloatArray]:
    """Limits that hold for every cell at once, ``2 * error`` outside in all (Sidak).

    The cells are independent given the scores.
    """
    each = -np.expm1(np.log1p(-min(2.0 * error, _NEARLY_ONE)) / len(cells.cell)) / 2.0
    return proportion_limits(cells, each)
