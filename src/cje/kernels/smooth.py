"""Smoothers of one covariate: lowess and the restricted cubic spline basis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_predict, pool_ties

__all__ = ["lowess", "natural_spline_basis"]


def lowess(
    x: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    frac: float = 0.3,
    delta: float = 0.01,
    at: ArrayLike | None = None,
) -> FloatArray:
    """Local linear regression with tricube weights over the nearest neighbours.

    There are no robustness iterations: for a 0/1 response they would down-weight the rarer class.
    A line is fitted at anchor points at most about ``delta * range(x)`` apart (each a value of the
    data) and the curve is linear between them, so the cost is about
    ``frac * n / delta`` whatever the number of rows asked for.

    Parameters
    ----------
    x, y : array_like
        Covariate and response, in any order; finite.
    w : array_like, optional
        Non-negative weights of the rows in the local fits. The neighbourhood is a share of the
        number of rows with positive weight; a row of weight zero counts as absent.
    frac : float
        Share of the rows in each neighbourhood.
    delta : float
        Spacing of the anchors as a share of the range of `x`; 0 fits at every distinct value.
    at : array_like, optional
        Where to evaluate the curve (`x` by default); constant outside the range of the data.

    Returns
    -------
    ndarray
        The curve at `at`, elementwise, in the order given.

    Notes
    -----
    Equal to statsmodels' ``lowess(y, x, frac, it=0, delta=delta * range)`` except where a whole
    neighbourhood shares one `x`: there this is the mean of its `y`, as the limit has it.

    References
    ----------
    Cleveland (1979), "Robust locally weighted regression and smoothing scatterplots", *JASA* 74.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 50)
    >>> bool(np.allclose(lowess(x, 2 * x + 1), 2 * x + 1))
    True
    """
    covariate = np.asarray(x, dtype=np.float64)
    response = np.asarray(y, dtype=np.float64)
    weights = None if w is None else np.asarray(w, dtype=np.float64)
    target = covariate if at is None else np.asarray(at, dtype=np.float64)
    if weights is not None and not weights.all():
        kept = weights > 0.0
        covariate, response, weights = covariate[kept], response[kept], weights[kept]
    values, mean, weight, inverse = pool_ties(covariate, response, weights)
    counts = np.bincount(inverse, minlength=len(values))
    anchors = _anchors(values, bool(counts[-1] > 1), delta * (values[-1] - values[0]))
    first, last = _neighbourhoods(values, counts, values[anchors], frac)
    curve = np.array(
        [
            _local_line(values[a : b + 1], mean[a : b + 1], weight[a : b + 1], values[i], i - a)
            for i, a, b in zip(anchors.tolist(), first.tolist(), last.tolist(), strict=True)
        ]
    )
    return isotonic_predict(values[anchors], curve, target)


def _anchors(values: FloatArray, last_is_tied: bool, spacing: float) -> IntArray:
    """Positions of the distinct values at which a line is fitted; first and last always are."""
    end = len(values) - 1
    anchors = [0]
    while anchors[-1] < end:
        here = anchors[-1]
        beyond = int(np.searchsorted(values, values[here] + spacing, side="right"))
        # When the end is within reach, statsmodels still stops at the row before the last one.
        stop = beyond - 1 if beyond <= end else end - (not last_is_tied)
        anchors.append(max(stop, here + 1))
    return np.array(anchors)


def _neighbourhoods(
    values: FloatArray, counts: IntArray, at: FloatArray, frac: float
) -> tuple[IntArray, IntArray]:
    """First and last distinct value among the k nearest rows of each point of `at`."""
    rows = np.repeat(np.arange(len(values)), counts)
    n = len(rows)
    k = min(max(int(frac * n + 1e-10), 2), n)
    ordered = values[rows]
    # The window starting at row l beats its right neighbour until the point passes this midpoint.
    midpoints = (ordered[: n - k] + ordered[k:]) / 2.0
    left = np.searchsorted(midpoints, at, side="left")
    return rows[left], rows[left + k - 1]


def _local_line(
    x: FloatArray, y: FloatArray, weight: FloatArray, at: float, position: int
) -> float:
    """Value at `at` of the tricube-weighted line through the window."""
    distance = x - at
    radius = max(-distance[0], distance[-1])
    if radius == 0.0:
        return float(y[position])
    kernel = np.abs(distance)
    kernel /= radius
    kernel *= kernel * kernel
    np.subtract(1.0, kernel, out=kernel)
    kernel *= kernel * kernel
    kernel *= weight
    total = float(kernel.sum())
    if total == 0.0:
        return float(y[position])
    centre = float(kernel @ distance) / total
    distance -= centre
    level = float(kernel @ y) / total
    kernel *= distance
    spread = float(kernel @ distance)
    # A window whose weight sits on one point has no slope.
    if spread <= 1e-12 * total * radius * radius:
        return level
    return level - centre * (float(kernel @ y) / spread)


def natural_spline_basis(x: ArrayLike, knots: ArrayLike) -> FloatArray:
    """Restricted cubic spline basis: cubic between the outer knots, linear outside.

    With knots ``t_1 < ... < t_m`` the columns are ``x`` and, for ``j = 1 .. m - 2``,
    ``[(x - t_j)_+^3 - (x - t_{m-1})_+^3 (t_m - t_j) / (t_m - t_{m-1})
    + (x - t_m)_+^3 (t_{m-1} - t_j) / (t_m - t_{m-1})] / (t_m - t_1)^2``. No intercept.

    Parameters
    ----------
    x : array_like, shape (n,)
    knots : array_like
        At least two, strictly increasing.

    Returns
    -------
    ndarray, shape (n, m - 1)

    References
    ----------
    Harrell (2015), *Regression Modeling Strategies*, 2nd ed., section 2.4.5.

    Examples
    --------
    >>> natural_spline_basis([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).tolist()
    [[0.0, 0.0], [1.0, 0.25], [2.0, 1.5]]
    """
    values = np.asarray(x, dtype=np.float64)
    t = np.asarray(knots, dtype=np.float64)
    span = t[-1] - t[0]
    gap = t[-1] - t[-2]
    cubes = np.maximum(values[:, None] - t, 0.0)
    cubes *= cubes * cubes  # products, not a power: quicker, and the same bits on every machine
    cubes /= span * span
    to_last = (t[-1] - t[:-2]) / gap
    to_second_last = (t[-2] - t[:-2]) / gap
    curved = cubes[:, :-2] - cubes[:, -2:-1] * to_last + cubes[:, -1:] * to_second_last
    return np.column_stack((values, curved))
