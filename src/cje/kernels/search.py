"""Finding the interval that holds each of many points, faster than by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["segment_finder"]

_LEAST_BUCKETS, _MOST_BUCKETS = 256, 65_536  # powers of two
_POINTS = 4  # points per bucket from which the table pays
_CROWDED = 8  # edges in one bucket beyond which bisection is the better choice


def segment_finder(edges: FloatArray, n_points: int) -> Callable[[FloatArray], IntArray]:
    """A function equal to ``edges.searchsorted(x, side="right")``, for finite `x`.

    The range of the edges is cut into equal buckets; a table gives the first candidate of a point's
    bucket, and a comparison or two corrects it. The answer is exact: rounding in the bucket number
    only moves the starting point. Bisection is used where it is faster: few points, or crowded
    edges.

    Parameters
    ----------
    edges : ndarray
        Strictly increasing.
    n_points : int
        Approximate number of points.

    Examples
    --------
    >>> segment_finder(np.array([0.0, 0.5, 1.0]), 10)(np.array([-1.0, 0.5, 0.7])).tolist()
    [0, 2, 2]
    """

    def bisect(x: FloatArray) -> IntArray:
        return edges.searchsorted(x, side="right")

    if n_points < _POINTS * _LEAST_BUCKETS or len(edges) < 2:
        return bisect
    buckets = min(_MOST_BUCKETS, 1 << (n_points // _POINTS).bit_length() - 1)
    low, high = float(edges[0]), float(edges[-1])
    width = (high - low) / buckets
    if not (np.isfinite(width) and width > 0.0):
        return bisect
    starts = edges.searchsorted(low + width * np.arange(buckets + 1), side="right")
    if np.diff(starts).max() > _CROWDED:
        return bisect
    padded = np.concatenate(([-np.inf], edges, [np.inf]))
    above = padded[1:]

    def look_up(x: FloatArray) -> IntArray:
        bucket = np.clip(x, low, high)
        bucket -= low
        bucket /= width
        segment = starts.take(bucket.astype(np.int64), mode="clip")
        behind = np.flatnonzero(above.take(segment) <= x)
        while len(behind):
            segment[behind] += 1
            behind = behind[above[segment[behind]] <= x[behind]]
        beyond = np.flatnonzero(padded.take(segment) > x)
        while len(beyond):
            segment[beyond] -= 1
            beyond = beyond[padded[segment[beyond]] > x[beyond]]
        return segment

    return look_up
