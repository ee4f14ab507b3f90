"""Logistic regression of few columns by Newton's method."""

from __future__ import annotations

import numpy as np

from cje.kernels.arrays import FloatArray

__all__ = ["logistic_regression"]

_STEPS = 100
_DECREMENT = 1e-12  # of the objective, relative to its size
_HALVINGS = 30


def logistic_regression(
    columns: FloatArray,
    outcome: FloatArray,
    weights: FloatArray,
    *,
    penalty: float,
    start: FloatArray | None = None,
) -> FloatArray:
    r"""Coefficients, the intercept first, of a logistic regression with a ridge penalty.

    Minimizes :math:`\sum_i w_i [\log(1 + e^{\eta_i}) - y_i \eta_i] + \tfrac{\lambda}{2}
    \lVert b \rVert^2` with :math:`\eta = a + X b`; the intercept :math:`a` has no penalty. Newton
    steps are halved until the objective falls, which suffices for a convex function.

    Parameters
    ----------
    columns : array (n, p)
    outcome : array (n,)
        0 or 1, both among the rows of positive weight.
    weights : array (n,)
        0 leaves a row out.
    penalty : float
        Positive: keeps the coefficients finite where a column separates the outcomes.
    start : array (p + 1,), optional
    """
    design = np.column_stack([np.ones(len(outcome)), columns])
    ridge = np.full(design.shape[1], penalty)
    ridge[0] = 0.0
    share = float(weights @ outcome) / float(weights.sum())
    found = np.zeros(design.shape[1])
    found[0] = np.log(share / (1.0 - share))
    found = found if start is None else start
    eta = design @ found
    objective = _objective(eta, found, outcome, weights, ridge)
    for _ in range(_STEPS):
        chance = np.exp(-np.logaddexp(0.0, -eta))
        gradient = design.T @ (weights * (chance - outcome)) + ridge * found
        curvature = weights * chance * (1.0 - chance)
        hessian = design.T @ (design * curvature[:, None]) + np.diag(ridge)
        hessian[0, 0] += 1e-12  # all chances at 0 or 1
        step = np.linalg.solve(hessian, gradient)
        if float(gradient @ step) <= _DECREMENT * max(objective, 1.0):
            return np.asarray(found - step)  # from here a step squares the distance
        for halving in range(_HALVINGS):
            tried = found - step * 0.5**halving
            eta = design @ tried
            value = _objective(eta, tried, outcome, weights, ridge)
            if value < objective:
                break
        else:
            break  # no smaller value in float64
        found, objective = tried, value
    return found


def _objective(
    eta: FloatArray, found: FloatArray, y: FloatArray, weights: FloatArray, ridge: FloatArray
) -> float:
    loss = float(weights @ (np.logaddexp(0.0, eta) - y * eta))
    return loss + 0.5 * float(ridge @ found**2)
