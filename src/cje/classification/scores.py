r"""Proper scores of a distribution over several classes: Brier score and log loss.

.. math:: \mathrm{Brier} = \frac1W \sum_i w_i \sum_k (p_{ik} - 1[y_i = k])^2 , \qquad
          \mathrm{LogLoss} = -\frac1W \sum_i w_i \log p_{i y_i} .

Both are averages over rows, lowest in expectation for the true probabilities. For two classes this
Brier score is twice `brier_score` (Brier 1950 summed over the classes).

References
----------
Brier (1950), Monthly Weather Review 78. Gneiting and Raftery (2007), "Strictly proper scoring
rules, prediction, and estimation", JASA 102.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.classification._arrays import row_shares
from cje.classification._labels import check_multiclass
from cje.classification.brier import mean_limits
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["multiclass_brier_score", "multiclass_log_loss"]


def _picked(codes: IntArray, p: FloatArray) -> FloatArray:
    return np.asarray(p[np.arange(len(p)), codes])


def squared_losses(codes: IntArray, p: FloatArray) -> FloatArray:
    """Squared distance of each row's distribution from its class."""
    return np.asarray(np.einsum("ik,ik->i", p, p) - 2.0 * _picked(codes, p) + 1.0)


def log_losses(codes: IntArray, p: FloatArray) -> FloatArray:
    """Minus the log-probability of each row's class; an error where it is infinite."""
    chosen = _picked(codes, p)
    if chosen.min() <= 0.0:
        raise CJEError(
            "the log loss is infinite: the class that occurred has probability 0",
            where=f"row {int(np.argmin(chosen))}", value=0.0,
            hint="use multiclass_brier_score, or a calibrator without zeros such as temperature",
        )  # fmt: skip
    return np.asarray(-np.log(chosen))


def expected_squared_losses(p: FloatArray) -> FloatArray:
    """Mean squared loss of each row if its distribution is true."""
    return np.asarray(1.0 - np.einsum("ik,ik->i", p, p))


def expected_log_losses(p: FloatArray) -> FloatArray:
    """Entropy of each row."""
    return np.asarray(-(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1))


def multiclass_brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean squared distance of the predicted distribution from the class that occurred.

    Between 0 and 2. Parameters as in `class_wise_ece`.

    Examples
    --------
    >>> round(multiclass_brier_score([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 12)
    0.2
    """
    codes, p, w, _ = check_multiclass(y_true, y_prob, sample_weight, labels)
    return float(row_shares(len(p), w) @ squared_losses(codes, p))


def multiclass_log_loss(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean negative log-probability of the class that occurred. Parameters as in `class_wise_ece`.

    Raises
    ------
    CJEError
        The class that occurred has probability 0 in some row: the loss is infinite.

    Examples
    --------
    >>> round(multiclass_log_loss([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    codes, p, w, _ = check_multiclass(y_true, y_prob, sample_weight, labels)
    return float(row_shares(len(p), w) @ log_losses(codes, p))


def brier_limits(
    codes: IntArray, p: FloatArray, w: FloatArray | None, level: float, groups: IntArray | None
) -> tuple[float, float]:
    """t limits for the mean squared loss, cut to [0, 2]."""
    low, high = mean_limits(squared_losses(codes, p), w, level, groups)
    return max(low, 0.0), min(high, 2.0)


def log_loss_limits(
    codes: IntArray, p: FloatArray, w: FloatArray | None, level: float, groups: IntArray | None
) -> tuple[float, float]:
    """t limits for the mean log loss, cut at 0."""
    low, high = mean_limits(log_losses(codes, p), w, level, groups)
    return max(low, 0.0), high
