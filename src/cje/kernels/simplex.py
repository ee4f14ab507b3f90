"""The quadratic programme on the probability simplex, for a handful of candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray

__all__ = ["simplex_qp"]

_TOLERANCE = 1e-12


def simplex_qp(sigma: ArrayLike, linear: ArrayLike | None = None) -> FloatArray:
    """Minimise ``p' S p + l' p`` over ``p >= 0``, ``sum p = 1``.

    A primal active-set method. It starts from the best vertex; each round adds the entry with the
    most negative reduced gradient, then solves the programme on the support exactly, dropping
    entries that would turn negative. The value falls strictly in every round, so no support is met
    twice and the end is a point that satisfies the Karush-Kuhn-Tucker conditions, which for a
    positive semi-definite `sigma` is a global optimum.

    Parameters
    ----------
    sigma : array_like, shape (K, K)
        Symmetric positive semi-definite; may be singular.
    linear : array_like, shape (K,), optional
        Linear term; zero by default.

    Returns
    -------
    ndarray, shape (K,)
        An optimal mixture (the optimum need not be unique when `sigma` is singular).

    Examples
    --------
    >>> simplex_qp([[1.0, 0.0], [0.0, 3.0]]).round(12).tolist()
    [0.75, 0.25]
    """
    quadratic = np.asarray(sigma, dtype=np.float64)
    quadratic = quadratic + quadratic.T  # the Hessian, 2 S
    k = len(quadratic)
    slope = np.zeros(k) if linear is None else np.asarray(linear, dtype=np.float64)
    scale = max(float(np.abs(quadratic).max()), float(np.abs(slope).max()))
    if scale == 0.0:
        return np.full(k, 1.0 / k)
    quadratic, slope = quadratic / scale, slope / scale

    p = np.zeros(k)
    best = int(np.argmin(0.5 * np.diag(quadratic) + slope))
    p[best] = 1.0
    support = [best]
    for _ in range(50 * k + 50):
        gradient = quadratic @ p + slope
        entering = int(np.argmin(gradient))
        if gradient[entering] >= gradient @ p - _TOLERANCE or entering in support:
            break
        support.append(entering)
        p, support = _solve_on_support(quadratic, slope, p, support)
    p /= p.sum()
    return p


def _solve_on_support(
    quadratic: FloatArray, slope: FloatArray, p: FloatArray, support: list[int]
) -> tuple[FloatArray, list[int]]:
    """Move to the optimum of the affine hull of `support`, stopping at every face on the way."""
    while len(support) > 1:
        index = np.array(support)
        direction, reaches_optimum = _direction(
            quadratic[np.ix_(index, index)], (quadratic @ p + slope)[index]
        )
        current = p[index]
        shrinking = direction < 0.0
        ratios = np.full(len(index), np.inf)
        ratios[shrinking] = current[shrinking] / -direction[shrinking]
        blocking = int(np.argmin(ratios))
        limit = 1.0 if reaches_optimum else np.inf
        step = min(limit, float(ratios[blocking]))
        if not np.isfinite(step):
            break
        p = p.copy()
        p[index] = np.maximum(current + step * direction, 0.0)
        if ratios[blocking] > limit:
            break
        p[index[blocking]] = 0.0
        support = [entry for entry in support if p[entry] > 0.0]
    return p, support


def _direction(hessian: FloatArray, gradient: FloatArray) -> tuple[FloatArray, bool]:
    """Step to the minimum along directions that sum to zero, or an unbounded descent direction."""
    k = len(gradient)
    # Columns of `basis` span the vectors orthogonal to (1, ..., 1).
    basis = np.linalg.qr(np.column_stack((np.ones(k), np.eye(k)[:, 1:])))[0][:, 1:]
    values, vectors = np.linalg.eigh(basis.T @ hessian @ basis)
    reduced = vectors.T @ (basis.T @ gradient)
    flat = values <= _TOLERANCE * k
    if np.any(np.abs(reduced[flat]) > _TOLERANCE * k):
        return -basis @ (vectors[:, flat] @ reduced[flat]), False
    newton = np.zeros(k - 1)
    newton[~flat] = -reduced[~flat] / values[~flat]
    return basis @ (vectors @ newton), True
