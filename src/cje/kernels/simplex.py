"""The quadratic programme on the probability simplex, for a few candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.kernels.arrays import FloatArray

__all__ = ["simplex_qp"]

# Share of the size of its terms below which a sum counts as rounding.
_ROUNDING = 1e-13


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
    hessian = np.asarray(sigma, dtype=np.float64)
    hessian = hessian + hessian.T
    k = len(hessian)
    slope = np.zeros(k) if linear is None else np.asarray(linear, dtype=np.float64)
    scale = max(float(np.abs(hessian).max()), float(np.abs(slope).max()))
    if scale == 0.0:
        return np.full(k, 1.0 / k)
    hessian, slope = hessian / scale, slope / scale

    p = np.zeros(k)
    best = int(np.argmin(0.5 * np.diag(hessian) + slope))
    p[best] = 1.0
    support = [best]
    # Far above what any programme needs; a bound only against cycling by rounding.
    for _ in range(50 * k):
        gradient, rounding = _gradient(hessian, slope, p)
        excess = gradient - gradient @ p + rounding + rounding @ p
        excess[support] = 0.0
        entering = int(np.argmin(excess))
        if excess[entering] >= 0.0:
            break
        support.append(entering)
        p, support = _solve_on_support(hessian, slope, p, support)
    p /= p.sum()
    return p


def _gradient(
    hessian: FloatArray, slope: FloatArray, p: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient at `p`, and how much of each entry may be rounding."""
    return hessian @ p + slope, _ROUNDING * (np.abs(hessian) @ p + np.abs(slope))


def _solve_on_support(
    hessian: FloatArray, slope: FloatArray, p: FloatArray, support: list[int]
) -> tuple[FloatArray, list[int]]:
    """Move to the optimum of the affine hull of `support`, stopping at every face on the way."""
    while len(support) > 1:
        index = np.array(support)
        gradient, rounding = _gradient(hessian, slope, p)
        direction, reaches_optimum = _direction(
            hessian[np.ix_(index, index)], gradient[index], rounding[index]
        )
        current = p[index]
        shrinking = direction < 0.0
        ratios = np.full(len(index), np.inf)
        ratios[shrinking] = current[shrinking] / -direction[shrinking]
        blocking = int(np.argmin(ratios))
        limit = 1.0 if reaches_optimum else np.inf
        step = min(limit, float(ratios[blocking]))
        p = p.copy()
        p[index] = np.maximum(current + step * direction, 0.0)
        if ratios[blocking] > limit:
            break
        p[index[blocking]] = 0.0
        support = [entry for entry in support if p[entry] > 0.0]
    return p, support


def _direction(
    hessian: FloatArray, gradient: FloatArray, rounding: FloatArray
) -> tuple[FloatArray, bool]:
    """Step to the minimum along vectors that sum to zero, or a descent direction without end."""
    k = len(gradient)
    # In units of each entry's own curvature, so that candidates of very unequal variance are
    # distinguished; an entry without curvature keeps its unit.
    curvature = np.sqrt(np.diag(hessian))
    unit = 1.0 / np.where(curvature > 0.0, curvature, 1.0)
    # Columns of `basis` span the steps that keep the sum.
    basis = np.linalg.qr(unit[:, None], mode="complete")[0][:, 1:]
    scaled = hessian * unit[:, None] * unit
    values, vectors = np.linalg.eigh(basis.T @ scaled @ basis)
    reduced = vectors.T @ (basis.T @ (gradient * unit))
    flat = values <= _ROUNDING * k
    if np.any(np.abs(reduced[flat]) > np.linalg.norm(rounding * unit)):
        return -unit * (basis @ (vectors[:, flat] @ reduced[flat])), False
    newton = np.zeros(k - 1)
    newton[~flat] = -reduced[~flat] / values[~flat]
    return unit * (basis @ (vectors @ newton)), True
