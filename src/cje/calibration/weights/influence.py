"""The influence of each row on an estimate with projected weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, finite_array, n_rows
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["projection_influence"]

_SMALLEST = 1e-100  # of a mean to divide by: outcomes may be as large as its inverse


def projection_influence(
    raw: ArrayLike, projected: ArrayLike, outcome: ArrayLike, outcome_given_score: ArrayLike
) -> FloatArray:
    """Influence of each row on the estimate mean(projected * outcome) / mean(projected).

    With W the mean-one raw weights, m the projected ones, theta the estimate and e(S) = E[Y|S],

        psi_i = [m_i (Y_i - theta) + (W_i - m_i) (e(S_i) - theta)] / mean(m).

    The second term is the cost of having estimated m: without it the standard error pretends
    that E[W|S] were known. Projection therefore removes only the part of the variance that comes
    from Var(Y|S); for an outcome that is a function of the score (a calibrated reward) psi is the
    influence under the raw weights.

    Parameters
    ----------
    raw, projected : array (n,)
        Importance weights before and after (without the caps' blending towards 1).
    outcome : array (n,)
        Y, a label or a reward.
    outcome_given_score : array (n,)
        e(S); the calibrated reward.
    """
    n = n_rows("raw", raw)
    columns = {
        "raw": raw,
        "projected": projected,
        "outcome": outcome,
        "outcome_given_score": outcome_given_score,
    }
    w, m, y, e = (
        finite_array(name, column, n=n, largest=LARGEST) for name, column in columns.items()
    )
    for name, weights in (("raw", w), ("projected", m)):
        if not weights.mean() > 0.0:
            raise CJEError("Weights must not all be zero", where=name)
        if weights.mean() < _SMALLEST:
            raise CJEError("Weights are too small", where=name, value=float(weights.mean()))
    w = w / w.mean()
    theta = np.sum(m * y) / np.sum(m)
    return np.asarray((m * (y - theta) + (w - m) * (e - theta)) / m.mean())
