r"""Binned calibration errors: pure functions on arrays.

With bins :math:`B_m`, weights :math:`w_i` summing to :math:`W`,

.. math:: \mathrm{ECE} = \frac1W \sum_m \Big| \sum_{i \in B_m} w_i (y_i - p_i) \Big| .

Every score is in exactly one bin; an equal-width bin holds its left edge, and the last one holds 1.
All of these are averages (or maxima) of absolute values: noise alone makes them positive. Compare a
value with `cje.classification.assess`, which adds an interval and what a perfectly calibrated model
would score on as many rows.

References
----------
Naeini, Cooper and Hauskrecht (2015); Guo et al. (2017): ECE and MCE. Kull et al. (2019):
class-wise. Gupta and Ramdas (2021): confidence and top-label. Kumar, Liang and Ma (2019):
debiasing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.classification._arrays import check_binary, check_groups, check_outcomes
from cje.classification._labels import TopLabels, check_multiclass, check_top
from cje.classification.bins import BinSums, Strategy, binner, cell_sums, gap_sums
from cje.classification.folded import excess, standard_errors
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "class_wise_ece",
    "confidence_ece",
    "debiased_ece",
    "expected_calibration_error",
    "maximum_calibration_error",
    "mean_top_label_ece",
    "top_label_ece",
]


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Expected calibration error of a probability for a 0/1 outcome.

    Parameters
    ----------
    y_true : array (n,)
        Outcomes, 0 or 1.
    y_prob : array (n,)
        Predicted probability of 1.
    n_bins : int
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal mass (equal scores are never split).
    sample_weight : array (n,), optional
    pos_label : label, optional
        The label that counts as 1, where `y_true` holds two labels other than 0 and 1.

    Examples
    --------
    >>> expected_calibration_error([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.5], n_bins=2)
    0.2
    """
    y, p, w = check_outcomes(y_true, y_prob, sample_weight, pos_label)
    return _binned_error(y, p, w, n_bins, strategy)


def _binned_error(
    y: NDArray[Any], p: FloatArray, w: FloatArray | None, n_bins: int, strategy: str
) -> float:
    """The module's formula, in one pass over the rows."""
    gaps = gap_sums(y, p, w, n_bins, binner(p, n_bins, strategy, w))
    return float(np.abs(gaps).sum() / (len(p) if w is None else w.sum()))


def binary_cells(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    n_bins: int,
    strategy: str,
    groups: IntArray | None = None,
) -> BinSums:
    """The occupied bins of a binary problem."""
    return cell_sums(y, p, w, binner(p, n_bins, strategy, w)(p), n_bins, groups)


def debiased_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""ECE less an estimate of its upward bias from noise.

    The absolute gap of a bin is a folded normal, whose mean exceeds the absolute gap it estimates;
    the excess at the *observed* gaps is subtracted (Kumar et al. 2019, here in closed form and
    not by simulation). Observed gaps are themselves too large, so for a perfect model about half
    of the bias remains; no estimator of an absolute value is without bias. `assess` gives the same
    interval as for the ECE, whose target is the same. The value may be slightly negative.
    Other parameters as in `expected_calibration_error`.

    Parameters
    ----------
    groups : array (n,), optional
        Cluster of each row (a prompt, a patient): the noise is then that of the clusters.

    Examples
    --------
    >>> debiased_ece([0, 1] * 50, [0.5] * 100) < 0
    True
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return debiased_value(binary_cells(y, p, w, n_bins, strategy, check_groups(groups, len(p))))


def debiased_value(cells: BinSums) -> float:
    """The ECE of these cells less its expected excess at the observed gaps."""
    share = cells.weight / cells.weight.sum()
    gap = share * np.abs(cells.gap)
    se = standard_errors(cells, share)
    return float((gap - se * excess(gap / se)).sum())


def maximum_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Largest absolute gap of any bin that holds a row. Parameters as in the ECE.

    The bins that hold a row are the sample's: a rare score adds a bin, and with it a large gap.

    Examples
    --------
    >>> maximum_calibration_error([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.5], n_bins=2)
    0.30000000000000004
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return float(np.abs(binary_cells(y, p, w, n_bins, strategy).gap).max())


def confidence_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """ECE of the largest probability as the probability that its class is right.

    Parameters
    ----------
    y_true : array (n,)
        Labels.
    y_prob : array or data frame (n, K), or tuple of two arrays (n,)
        Class probabilities, or the predicted labels and their confidences. Each row of a matrix
        sums to one; or all but the top class is zero, or NaN (``rest="zero"`` and ``rest="nan"`` of
        `TopLabelCalibrator`). The columns of a data frame are matched to the labels by name.
    n_bins, strategy, sample_weight
        As in `expected_calibration_error`.
    labels : array (K,), optional
        Label of each column. Without it, and without column names: the labels that occur in sorted
        order if there are K of them, else whole numbers from 0 if 0 occurs, else an error.

    Examples
    --------
    >>> round(confidence_ece([0, 2], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]), 12)
    0.3
    """
    top, w = check_top(y_true, y_prob, sample_weight, labels)
    return _binned_error(top.right, top.score, w, n_bins, strategy)


def top_cell_numbers(
    top: TopLabels, w: FloatArray | None, n_bins: int, strategy: str
) -> tuple[IntArray, int]:
    """Cell of each row, label * n_bins + bin, and the number of cells."""
    score, labels = top.score, top.label
    if not isinstance(strategy, str) or strategy != "quantile":  # `binner` refuses what is neither
        bins = binner(score, n_bins, strategy, w)(score)
    else:  # equal mass within each label
        bins = np.zeros(len(score), dtype=np.int64)
        for label in np.unique(labels):
            rows = labels == label
            part = score[rows]
            bins[rows] = binner(part, n_bins, strategy, None if w is None else w[rows])(part)
    return labels * n_bins + bins, len(top.names) * n_bins


def top_label_cells(
    top: TopLabels,
    w: FloatArray | None,
    n_bins: int,
    strategy: str,
    groups: IntArray | None = None,
) -> BinSums:
    """The occupied (top label, bin) cells."""
    cells, n_cells = top_cell_numbers(top, w, n_bins, strategy)
    return cell_sums(top.right, top.score, w, cells, n_cells, groups)


def top_label_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Top-label ECE: the ECE within each predicted label, averaged by the labels' frequency.

    .. math:: \sum_l \hat P(c = l)\; \mathrm{ECE}(p_l \mid c = l)

    (Gupta and Ramdas 2021). Equal-mass bins are cut within each label. Parameters as in
    `confidence_ece`; see `mean_top_label_ece` for the average that gives a rare label full weight.

    Examples
    --------
    >>> round(top_label_ece([0, 2], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]), 12)
    0.3
    """
    top, w = check_top(y_true, y_prob, sample_weight, labels)
    cells, _ = top_cell_numbers(top, w, n_bins, strategy)
    gap = top.right - top.score if w is None else w * (top.right - top.score)
    total = len(gap) if w is None else w.sum()
    return float(np.abs(np.bincount(cells, weights=gap)).sum() / total)


def label_shares(cells: BinSums, n_bins: int) -> FloatArray:
    """Weight of each cell when every label that occurs counts the same."""
    label = cells.cell // n_bins
    weight = np.bincount(label, weights=cells.weight)
    return np.asarray(cells.weight / weight[label] / np.count_nonzero(weight))


def mean_top_label_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Unweighted mean over the predicted labels of the ECE within each.

    A label predicted once counts as much as one predicted a thousand times, so the value is noisy;
    it is what MAPIE calls top-label ECE. Parameters as in `confidence_ece`.
    """
    top, w = check_top(y_true, y_prob, sample_weight, labels)
    cells = top_label_cells(top, w, n_bins, strategy)
    return float(label_shares(cells, n_bins) @ np.abs(cells.gap))


def class_wise_cells(
    codes: IntArray,
    p: FloatArray,
    w: FloatArray | None,
    n_bins: int,
    strategy: str,
    groups: IntArray | None = None,
) -> BinSums:
    """The occupied (class, bin) cells, every row in one cell of each class."""
    parts = []
    for k in range(p.shape[1]):
        score = np.ascontiguousarray(p[:, k])
        outcome = (codes == k).astype(np.float64)
        cells = binary_cells(outcome, score, w, n_bins, strategy, groups)
        parts.append(cells._replace(cell=cells.cell + k * n_bins))
    return BinSums(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def class_wise_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean over the classes of the ECE of each class's own probability.

    Parameters as in `confidence_ece`, with a matrix of all classes.

    Examples
    --------
    >>> round(class_wise_ece([0, 1], [[0.8, 0.2], [0.2, 0.8]]), 12)
    0.2
    """
    codes, p, w, _ = check_multiclass(y_true, y_prob, sample_weight, labels)
    cells = class_wise_cells(codes, p, w, n_bins, strategy)
    return float(cells.weight @ np.abs(cells.gap) / cells.weight.sum())
