"""The maximum of a concave function of one variable, from its score and information."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["concave_maximum"]


def concave_maximum(
    score: Callable[[float], tuple[float, float]],
    *,
    limit: float,
    start: float = 0.0,
    tol: float = 1e-12,
    max_iter: int = 200,
) -> tuple[float, float, bool]:
    """Newton's method kept inside a bracket of the score's root.

    Parameters
    ----------
    score : callable
        Returns the derivative and the information (minus the second derivative).
    limit : float
        A score that keeps its sign up to here has no root: the maximum is at infinity.

    Returns
    -------
    x, information, found

    Examples
    --------
    >>> concave_maximum(lambda x: (3.0 - x, 1.0), limit=100.0)
    (3.0, 1.0, True)
    """
    low, high = -limit, limit
    closed_low = closed_high = False
    x, step = start, 1.0
    slope, information = score(x)
    for _ in range(max_iter):
        if slope == 0.0:  # where the information is zero too, the function is flat: no maximum
            return x, information, information > 0
        if slope > 0:
            low, closed_low = x, True
        else:
            high, closed_high = x, True
        newton = slope / information if information > 0 else (limit if slope > 0 else -limit)
        # where the function is flat a Newton step can be anything: at most double the reach
        bound = 2.0 * max(abs(x), step, 1.0)
        proposal = x + min(max(newton, -bound), bound)
        if not low < proposal < high:
            proposal = 0.5 * (low + high) if closed_low and closed_high else (
                high if slope > 0 else low)  # fmt: skip
        moved = abs(proposal - x)
        x, step = proposal, moved
        slope, information = score(x)
        if moved <= tol * max(1.0, abs(x)):
            return x, information, (closed_low and closed_high) or abs(x) < limit
        if abs(x) >= limit and slope * x > 0:
            return x, information, False
    return x, information, False
