r"""Brier score and its CORP decomposition: miscalibration - discrimination + uncertainty.

Let :math:`\hat m` be the isotonic fit of the outcomes on the scores and :math:`\bar y` the base
rate. With :math:`B(\cdot)` the Brier score, :math:`\mathrm{MCB} = B(p) - B(\hat m)`,
:math:`\mathrm{DSC} = B(\bar y) - B(\hat m)`, :math:`\mathrm{UNC} = B(\bar y)`. All three are
non-negative, and no bins are chosen.

References
----------
Dimitriadis, Gneiting and Jordan (2021), "Stable reliability diagrams for probabilistic
classifiers", PNAS 118.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from cje.classification._arrays import check_binary, row_shares
from cje.classification.bins import BinSums, binner, cell_sums
from cje.classification.clusters import sum_variance
from cje.classification.folded import least_errors, standard_errors
from cje.classification.squares import squares_limits
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_fitted

__all__ = [
    "CorpDecomposition",
    "brier_score",
    "corp_decomposition",
    "corp_discrimination",
    "corp_miscalibration",
]

_BINS_SCALE = 1.5


class CorpDecomposition(NamedTuple):
    """Parts of the Brier score; ``score = miscalibration - discrimination + uncertainty``."""

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Mean squared difference of probability and outcome. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 0.5])
    0.25
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return brier_of(p, w)(y - p)


def brier_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """The Brier score as a function of the residuals.

    For outcomes of 0 and 1, (y - p)^2 = p (1 - p) + (1 - 2 p)(y - p).
    """
    share = row_shares(len(p), w)
    expected, slope = float(share @ (p * (1.0 - p))), share * (1.0 - 2.0 * p)
    return lambda residual: max(expected + float(slope @ residual), 0.0)


def miscalibration_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """CORP miscalibration as a function of the residuals."""
    return lambda residual: _decomposed(p, residual, w).miscalibration


def discrimination_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """CORP discrimination as a function of the residuals."""
    return lambda residual: _decomposed(p, residual, w).discrimination


def corp_decomposition(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> CorpDecomposition:
    """CORP decomposition of the Brier score. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> corp_decomposition([0, 1, 0, 1], [0.25, 0.75, 0.25, 0.75])
    CorpDecomposition(score=0.0625, miscalibration=0.0625, discrimination=0.25, uncertainty=0.25)
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return _decomposed(p, y - p, w)


def _decomposed(p: FloatArray, residual: FloatArray, w: FloatArray | None) -> CorpDecomposition:
    y = p + residual
    fitted = isotonic_fitted(p, y, w)
    score = float(np.average(residual**2, weights=w))
    recalibrated = float(np.average((fitted - y) ** 2, weights=w))
    rate = float(np.average(y, weights=w))
    uncertainty = float(np.average((y - rate) ** 2, weights=w))
    # Both differences are non-negative; rounding may make them negative.
    return CorpDecomposition(
        score,
        max(score - recalibrated, 0.0),
        max(uncertainty - recalibrated, 0.0),
        uncertainty,
    )


def corp_miscalibration(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """The miscalibration part of the Brier score. Parameters as in `smooth_ece`."""
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return _decomposed(p, y - p, w).miscalibration


def corp_discrimination(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """The discrimination part of the Brier score. Parameters as in `smooth_ece`."""
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return _decomposed(p, y - p, w).discrimination


def brier_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    """t limits for the mean loss, cut to [0, 1]."""
    low, high = mean_limits((p - y) ** 2, w, level, groups)
    return max(low, 0.0), min(high, 1.0)


def mean_limits(
    loss: FloatArray, w: FloatArray | None, level: float, groups: IntArray | None
) -> tuple[float, float]:
    """t limits for the mean of a loss over independent rows or clusters."""
    value = float(row_shares(len(loss), w) @ loss)
    variance, df = sum_variance(loss, w, groups)
    # The variance of two added pseudo-rows: losses that all agree still have noise.
    variance += 2.0 / (df + 1.0) ** 2
    reach = float(stdtrit(max(df, 1.0), 0.5 + level / 2.0)) * np.sqrt(variance)
    return value - reach, value + reach


def miscalibration_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    r"""Limits for the mean squared distance of scores and increasing regression function.

    In equal-mass bins the binned sum of squared gaps has unbiased limits (`squares`). Within a bin
    the mean square exceeds the squared mean by the variance of the gap there, at least 0 and at
    most a quarter of its squared range. The gap is the difference of two increasing functions, so
    its range is at most that of the one which rises more.
    """
    cells, span = _equal_mass(y, p, w, groups)
    low, high = _limits_of_squares(cells, cells.gap, (1.0 - level) / 2.0)
    return low, min(high + _within(cells, span), 1.0)


def discrimination_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    """Limits for the variance of the increasing regression function, as for its distance."""
    cells, span = _equal_mass(y, p, w, groups)
    share = cells.weight / cells.weight.sum()
    low, high = _limits_of_squares(
        cells, cells.mean_y - float(share @ cells.mean_y), (1.0 - level) / 2.0
    )
    return low, min(high + _within(cells, span), 0.25)


def _equal_mass(
    y: FloatArray, p: FloatArray, w: FloatArray | None, groups: IntArray | None
) -> tuple[BinSums, FloatArray]:
    """Bins in which a function varies by less than their summed noise; their scores' ranges."""
    n_bins = max(2, int(np.rint(_BINS_SCALE * len(p) ** 0.4)))
    bins = binner(p, n_bins, "quantile", w)(p)
    cells = cell_sums(y, p, w, bins, n_bins, groups)
    least, most = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
    np.minimum.at(least, bins, p)
    np.maximum.at(most, bins, p)
    return cells, (most - least)[cells.cell]


def _limits_of_squares(cells: BinSums, gap: FloatArray, error: float) -> tuple[float, float]:
    share = cells.weight / cells.weight.sum()
    noise = standard_errors(cells, np.ones(len(share)))
    clear = np.maximum(gap**2 - noise**2, 0.0)
    spread = float(share @ (clear - float(share @ clear)) ** 2)
    rows = float(cells.weight.sum() ** 2 / cells.squared.sum())
    least = least_errors(cells, np.ones(len(share)))
    return squares_limits(gap, noise, share, error, least=least, extra_variance=spread / rows)


def _within(cells: BinSums, span: FloatArray) -> float:
    """Largest mean variance of the gap within the cells (Popoviciu): a quarter of a squared range.

    The regression function rises within a cell by about half of what its isotonic fit rises from
    one neighbour to the other, and is taken to rise by no less than the scores do.
    """
    fitted = isotonic_fitted(np.arange(len(span), dtype=float), cells.mean_y, cells.weight)
    beside = np.concatenate((fitted[:1], fitted, fitted[-1:]))
    rise = np.maximum((beside[2:] - beside[:-2]) / 2.0, span)
    return float(cells.weight @ rise**2 / cells.weight.sum()) / 4.0
