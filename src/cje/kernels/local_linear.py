"""Local linear smoothing as an explicit matrix, so that its variance is known exactly.

`cje.kernels.smooth.lowess` gives the same curve; here the smoother's weights themselves are
returned, which a confidence band, a null distribution and cheap bootstrap refits need. Rows are
first pooled to at most five hundred neighbouring cells, so the cost hardly grows with n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.binning import bin_sums

__all__ = [
    "Cells",
    "LocalLinear",
    "cell_means",
    "interpolation",
    "local_linear",
    "pool_cells",
    "smoother_matrix",
]


class Cells(NamedTuple):
    """Neighbouring rows pooled: mean x and weight of each cell, and every row's cell."""

    x: FloatArray
    weight: FloatArray
    code: IntArray


class LocalLinear(NamedTuple):
    """A prepared smoother: cells, grid, kernel weights (grid, cells), and interpolation."""

    cells: Cells
    grid: FloatArray
    kernel: FloatArray
    interpolate: FloatArray


def pool_cells(x: FloatArray, w: FloatArray, max_cells: int = 500) -> Cells:
    """Cut the sorted rows into at most `max_cells` runs of about equal size; ties stay together."""
    order = np.argsort(x)
    ordered = x[order]
    distinct = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
    n_distinct = int(distinct[-1]) + 1
    if n_distinct <= max_cells:
        label = distinct
    else:
        first_of_value = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        coarse = (first_of_value * max_cells) // len(x)  # by the rank of the value's first row
        label = np.unique(coarse, return_inverse=True)[1][distinct]
    code = np.empty(len(x), dtype=np.int64)
    code[order] = label
    mass = np.bincount(code, weights=w)
    total = np.bincount(code, weights=w * x)
    count = np.bincount(code)
    plain = np.bincount(code, weights=x) / count
    mean = np.divide(total, mass, out=plain, where=mass > 0)
    return Cells(mean, mass.astype(np.float64), code)


def cell_means(cells: Cells, y: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weight and weighted mean of `y` in each cell; the mean is 0 where there is no weight."""
    mass, total = bin_sums(cells.code, len(cells.x), y, weights=w)
    return mass, np.divide(total, mass, out=np.zeros(len(mass)), where=mass > 0)


def _grid(x: FloatArray, mass: FloatArray, size: int) -> FloatArray:
    """Half of the points at quantiles, half evenly over the range; the ends always."""
    share = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    quantiles = np.interp(np.linspace(0, 1, size // 2 + 1), share, x)
    return np.unique(np.concatenate((quantiles, np.linspace(x[0], x[-1], size // 2), x[[0, -1]])))


def _bandwidth(x: FloatArray, mass: FloatArray, grid: FloatArray, frac: float) -> FloatArray:
    """Distance within which `frac` of the total weight lies, for each grid point."""
    cumulative = np.concatenate(([0.0], np.cumsum(mass)))
    target = frac * cumulative[-1] * (1 - 1e-12)
    low, high = np.zeros(len(grid)), np.full(len(grid), float(x[-1] - x[0]) or 1.0)
    for _ in range(40):  # bisection: `high` always reaches the target
        middle = 0.5 * (low + high)
        inside = (
            cumulative[np.searchsorted(x, grid + middle, side="right")]
            - cumulative[np.searchsorted(x, grid - middle, side="left")]
        )
        low, high = np.where(inside < target, middle, low), np.where(inside < target, high, middle)
    # one value may hold the whole share: then reach for its nearest neighbour
    position = np.clip(np.searchsorted(x, grid), 1, max(len(x) - 1, 1))
    gaps = np.abs(x[np.minimum(position[:, None] + [-2, -1, 0, 1], len(x) - 1)] - grid[:, None])
    nearest = np.min(np.where(gaps > 1e-12 * high.max(), gaps, np.inf), axis=1)
    return np.asarray(np.maximum(high, np.where(np.isfinite(nearest), nearest, 1.0)))


def interpolation(grid: FloatArray, x: FloatArray) -> FloatArray:
    """Matrix (len(x), len(grid)) of linear interpolation from the grid, clipped outside."""
    matrix = np.zeros((len(x), len(grid)))
    if len(grid) == 1:
        matrix[:, 0] = 1.0
        return matrix
    right = np.clip(np.searchsorted(grid, x), 1, len(grid) - 1)
    share = np.clip((x - grid[right - 1]) / (grid[right] - grid[right - 1]), 0.0, 1.0)
    rows = np.arange(len(x))
    matrix[rows, right - 1] = 1.0 - share
    matrix[rows, right] += share
    return matrix


def local_linear(x: FloatArray, w: FloatArray, *, frac: float, grid_size: int = 64) -> LocalLinear:
    """Prepare the smoother: cells, grid, tricube weights over the nearest `frac` of the weight."""
    cells = pool_cells(x, w)
    grid = _grid(cells.x, cells.weight, grid_size)
    width = _bandwidth(cells.x, cells.weight, grid, frac)
    ratio = np.minimum(np.abs(cells.x - grid[:, None]) / width[:, None], 1.0)
    kernel = (1.0 - ratio * ratio * ratio) ** 3
    return LocalLinear(cells, grid, kernel, interpolation(grid, cells.x))


def smoother_matrix(prepared: LocalLinear, weight: FloatArray) -> FloatArray:
    """Rows of the local linear fit: value at a grid point = row @ cell means, rows sum to one.

    Weighted least squares of a line in ``x - g``: with moments s0, s1, s2 of the kernel weights,
    the weights are k (s2 - s1 (x - g)) / (s0 s2 - s1^2); a window without spread gives its mean.
    """
    k = prepared.kernel * weight
    gap = prepared.cells.x - prepared.grid[:, None]
    tilted = k * gap
    s0, s1 = k.sum(axis=1), tilted.sum(axis=1)
    s2 = np.einsum("gc,gc->g", tilted, gap)
    det = s0 * s2 - s1 * s1
    flat = det <= 1e-12 * s0 * s2 + 1e-300
    safe = np.where(flat, 1.0, det)
    # rows a k + b k (x - g); a flat window has a = 1 / s0 and b = 0
    a = np.where(flat, 1.0 / np.where(s0 > 0, s0, 1.0), s2 / safe)
    b = np.where(flat, 0.0, -s1 / safe)
    k *= a[:, None]
    tilted *= b[:, None]
    k += tilted
    return k
