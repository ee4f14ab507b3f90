"""Weighted isotonic regression on an unsorted covariate, with ties pooled.

The fit solves ``min_f sum_i w_i (y_i - f(x_i))^2`` over monotone ``f``. Rows that share an ``x``
must share a value, so they are first replaced by their weighted mean; the pool-adjacent-violators
pass itself is SciPy's. The cost is that of one sort, or less where scores repeat.

References
----------
Barlow, Bartholomew, Bremner and Brunk (1972), *Statistical Inference under Order Restrictions*.
Oron and Flournoy (2017), "Centered isotonic regression", *Statistics in Biopharmaceutical
Research* 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.search import segment_finder

__all__ = [
    "isotonic_centered_fit",
    "isotonic_fit",
    "isotonic_fitted",
    "isotonic_predict",
    "pool_ties",
]

_BLOCK = 8_192  # rows predicted at a time: their scratch arrays stay in the cache


class _Pooled(NamedTuple):
    """Rows sorted by `x`, one entry for each distinct value."""

    x: FloatArray
    y: FloatArray
    weight: FloatArray | None  # None: every distinct value has weight one
    order: IntArray  # argsort of the rows that entered
    starts: IntArray | None  # first sorted row of each distinct value; None: no ties


class _Fit(NamedTuple):
    pooled: _Pooled
    values: FloatArray  # one for each distinct x
    first: IntArray  # first and last distinct x of each constant stretch
    last: IntArray


def _pool(x: FloatArray, y: FloatArray, w: FloatArray | None) -> _Pooled:
    order = np.argsort(x)
    x_sorted, y_sorted = (
        x.take(order),
        y.take(order),
    )  # a fifth faster than x[order] beyond the cache
    w_sorted = None if w is None else w.take(order)
    new = x_sorted[1:] != x_sorted[:-1]
    if new.all():
        return _Pooled(x_sorted, y_sorted, w_sorted, order, None)
    starts = np.concatenate(([0], np.flatnonzero(new) + 1))
    if w_sorted is None:
        weight = np.diff(starts, append=len(x_sorted)).astype(np.float64)
        mean = np.add.reduceat(y_sorted, starts) / weight
    else:
        weight = np.add.reduceat(w_sorted, starts)
        # A value that carries no weight still needs a finite mean: the plain one.
        share = np.where(np.repeat(weight == 0.0, _counts(starts, len(order))), 1.0, w_sorted)
        mean = np.add.reduceat(share * y_sorted, starts) / np.add.reduceat(share, starts)
    return _Pooled(x_sorted[starts], mean, weight, order, starts)


def _counts(starts: IntArray, n: int) -> IntArray:
    return np.diff(starts, append=n)


def _columns(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    return (
        np.asarray(x, dtype=np.float64),
        np.asarray(y, dtype=np.float64),
        None if w is None else np.asarray(w, dtype=np.float64),
    )


def _fit(x: FloatArray, y: FloatArray, w: FloatArray | None, increasing: bool) -> _Fit:
    pooled = _pool(x, y, w)
    result = isotonic_regression(pooled.y, weights=pooled.weight, increasing=increasing)
    first = result.blocks[:-1]
    value = result.x[first]
    # The pass may leave neighbouring blocks of equal value apart; they are one stretch.
    first = first[np.concatenate(([True], value[1:] != value[:-1]))]
    last = np.concatenate((first[1:], [len(pooled.x)])) - 1
    return _Fit(pooled, result.x, first, last)


def _with_weight(
    x: FloatArray, y: FloatArray, w: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Rows of weight zero take no part in a fit, and SciPy refuses them."""
    if w is None or w.all():
        return x, y, w
    kept = w > 0.0
    return x[kept], y[kept], w[kept]


def pool_ties(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Replace the rows that share an `x` by one row.

    Parameters
    ----------
    x, y : array_like
        Covariate and response, one length.
    w : array_like, optional
        Non-negative weights; one each by default.

    Returns
    -------
    distinct : ndarray
        The distinct values of `x`, increasing.
    mean : ndarray
        Weighted mean of `y` at each (the plain mean where the weights there are all zero).
    weight : ndarray
        Total weight at each.
    inverse : ndarray of int
        For each row, its position in `distinct`.

    Examples
    --------
    >>> x, y, w, inverse = pool_ties([2.0, 1.0, 2.0], [1.0, 5.0, 3.0])
    >>> x.tolist(), y.tolist(), w.tolist(), inverse.tolist()
    ([1.0, 2.0], [5.0, 2.0], [1.0, 2.0], [1, 0, 1])
    """
    pooled = _pool(*_columns(x, y, w))
    n = len(pooled.order)
    weight = np.ones(n) if pooled.weight is None else pooled.weight
    inverse = np.empty(n, dtype=np.int64)
    position = np.arange(len(pooled.x))
    inverse[pooled.order] = _spread(position, pooled)
    return pooled.x, pooled.y, weight, inverse


def _spread(values: NDArray[Any], pooled: _Pooled) -> NDArray[Any]:
    """One value for each distinct `x` -> one for each sorted row."""
    if pooled.starts is None:
        return values
    return np.repeat(values, _counts(pooled.starts, len(pooled.order)))


def isotonic_fit(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, *, increasing: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Least-squares monotone fit, as the knots of a piecewise-linear curve.

    Parameters
    ----------
    x, y : array_like
        Covariate and response, in any order; finite.
    w : array_like, optional
        Non-negative weights, not all zero. Rows of weight zero take no part.
    increasing : bool
        Direction of the fit.

    Returns
    -------
    x_knots, y_knots : ndarray
        The first and last `x` of every constant stretch (once where they coincide) and its value.
        `isotonic_predict` through them gives the fitted value at every `x` of the data.

    Examples
    --------
    >>> x_knots, y_knots = isotonic_fit([1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 3.0, 1.0, 2.0, 5.0])
    >>> x_knots.tolist(), y_knots.tolist()
    ([1.0, 2.0, 4.0, 5.0], [0.0, 2.0, 2.0, 5.0])
    """
    fit = _fit(*_with_weight(*_columns(x, y, w)), increasing)
    ends = np.column_stack((fit.first, fit.last)).ravel()
    kept = np.ones(len(ends), dtype=bool)
    kept[1::2] = fit.last > fit.first
    index = ends[kept]
    return fit.pooled.x[index], fit.values[index]


def isotonic_centered_fit(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, *, increasing: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Isotonic fit whose flat stretches are replaced by slopes, so that ranking stays strict.

    Each constant stretch becomes one knot at the weighted mean of its `x` (Oron and Flournoy 2017).
    Below the first centre and above the last one the curve goes on along the neighbouring segment
    until the end of the data, but not beyond the range of `y`; a plain isotonic fit is flat there.

    Parameters and return value are those of `isotonic_fit`; `y_knots` is strictly monotone, and the
    curve is flat only beyond an end stretch that already sits at the smallest or largest `y`, or
    where the whole fit is one constant. The mean of `y` is kept only approximately.

    Examples
    --------
    >>> x_knots, y_knots = isotonic_centered_fit([1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 1.0, 4.0])
    >>> x_knots.tolist(), y_knots.tolist()
    ([1.0, 2.5, 4.0], [0.0, 1.5, 4.0])
    """
    columns = _with_weight(*_columns(x, y, w))
    fit = _fit(*columns, increasing)
    pooled = fit.pooled
    weight = np.ones(len(pooled.x)) if pooled.weight is None else pooled.weight
    # Offsets from the stretch's first x, so that the mean cannot leave the stretch by rounding.
    start = pooled.x[fit.first]
    offset = pooled.x - np.repeat(start, fit.last - fit.first + 1)
    centre = start + np.add.reduceat(weight * offset, fit.first) / np.add.reduceat(
        weight, fit.first
    )
    centre = np.minimum(centre, pooled.x[fit.last])
    values = fit.values[fit.first]
    if len(values) == 1:
        return centre, values
    bounds = float(columns[1].min()), float(columns[1].max())
    head = _extension(centre[:2], values[:2], pooled.x[0], bounds)
    tail = _extension(centre[:-3:-1], values[:-3:-1], pooled.x[-1], bounds)
    return (
        np.concatenate((head[0], centre, tail[0])),
        np.concatenate((head[1], values, tail[1])),
    )


def _extension(
    centre: FloatArray, values: FloatArray, edge: float, bounds: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """The knot at the end of the data, or none where it would repeat the outermost centre's."""
    outer, inner = centre.tolist()
    outer_value, inner_value = values.tolist()
    # A ratio of lengths, not a slope: a rise over a tiny step would overflow.
    ratio = abs(edge - outer) / abs(inner - outer)
    reach = outer_value + ratio * (outer_value - inner_value)
    reach = min(max(reach, bounds[0]), bounds[1])
    # The mean of a stretch at the bound may have been rounded past it: no turning back.
    goes_on = reach > outer_value if outer_value > inner_value else reach < outer_value
    return ([edge], [reach]) if goes_on else ([], [])


def isotonic_fitted(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, *, increasing: bool = True
) -> FloatArray:
    """Fitted value of every row, in the order of the rows.

    Equal to ``isotonic_predict(*isotonic_fit(x, y, w), x)`` up to rounding, without the search. The
    weighted mean of the result is that of `y`.

    Examples
    --------
    >>> isotonic_fitted([3.0, 1.0, 2.0], [1.0, 0.0, 2.0]).tolist()
    [1.5, 0.0, 1.5]
    """
    columns = _columns(x, y, w)
    if columns[2] is not None and not columns[2].all():
        return isotonic_predict(*isotonic_fit(*columns, increasing=increasing), columns[0])
    fit = _fit(*columns, increasing)
    fitted = np.empty(len(fit.pooled.order))
    fitted[fit.pooled.order] = _spread(fit.values, fit.pooled)
    return fitted


def isotonic_predict(x_knots: ArrayLike, y_knots: ArrayLike, x: ArrayLike) -> FloatArray:
    """Value of the curve through the knots: linear between them, constant outside.

    Every value depends on its own `x` alone, so a row gets the same bits in any batch; the result
    is monotone in `x` to the last bit where `y_knots` is.

    Parameters
    ----------
    x_knots, y_knots : array_like
        Strictly increasing positions and the values there.
    x : array_like
        Where to evaluate; any shape.

    Examples
    --------
    >>> isotonic_predict([0.0, 1.0], [0.2, 0.6], [-1.0, 0.5, 2.0]).tolist()
    [0.2, 0.4, 0.6]
    """
    knots = np.asarray(x_knots, dtype=np.float64)
    values = np.asarray(y_knots, dtype=np.float64)
    at = np.asarray(x, dtype=np.float64)
    if len(knots) == 1:
        return np.full(at.shape, values[0])
    flat = at.ravel()
    result = np.empty(flat.shape)
    find = segment_finder(knots[1:-1], len(flat))
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK]
        result[start : start + _BLOCK] = _interpolate(knots, values, find, block)
    return result.reshape(at.shape)


def _interpolate(
    knots: FloatArray,
    values: FloatArray,
    find: Callable[[FloatArray], IntArray],
    at: FloatArray,
) -> FloatArray:
    """Same as `np.interp`, but never beyond the right-hand knot by rounding."""
    inside: FloatArray = np.maximum(at, knots[0])
    np.minimum(inside, knots[-1], out=inside)
    segment = find(inside)
    x_left, left = knots.take(segment), values.take(segment)
    segment += 1
    width, right = knots.take(segment), values.take(segment)
    width -= x_left
    inside -= x_left
    inside /= width
    inside *= right - left
    inside += left
    np.maximum(inside, np.minimum(left, right), out=inside)
    np.minimum(inside, np.maximum(left, right), out=inside)
    return inside
