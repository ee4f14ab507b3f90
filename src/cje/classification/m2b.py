r"""The multiclass-to-binary reductions on arrays: which binary problems, and how to put them back.

==============  =============================  ==========================  ====================
reduction       condition on                   binary problem              calibrators
==============  =============================  ==========================  ====================
top-label       predicted class and its score  was the predicted class     one per predicted class
                                               right?
confidence      score of the predicted class   was the predicted class     one
                                               right?
class-wise      each class's own score         is it this class?           one per class
==============  =============================  ==========================  ====================

Top-label calibration asks :math:`P(Y = c(X) \mid h(X), c(X)) = h(X)`; confidence calibration drops
:math:`c(X)` from the condition, and so allows one class's overconfidence to hide another's
underconfidence.

References
----------
Gupta and Ramdas (2021), "Top-label calibration and multiclass-to-binary reductions",
arXiv:2107.08353.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.classification.calibrators import Calibrator, apply_calibrator, fit_calibrator
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "TopLabelMaps",
    "apply_class_wise",
    "check_min_count",
    "fit_class_wise",
    "fit_top_label",
    "group_rows",
    "lead_top",
    "replace_top",
]

_LEAD = 1e-9  # by which the top label leads where it would not by itself
_NOTHING = 1e-200  # a remainder so small cannot be scaled up without overflow


def check_min_count(value: Any) -> None:
    """The number of rows below which a class shares its map, or an error."""
    if not isinstance(value, int | float | np.integer | np.floating) or not value >= 0:
        raise CJEError("min_count must be a number of at least 0", value=value)


def group_rows(labels: IntArray, n_classes: int) -> list[IntArray]:
    """Rows of each class, in row order."""
    # Two-byte keys are radix-sorted: several times faster than a mask for every class.
    narrow = labels.astype(np.int16) if n_classes < 2**15 else labels
    order = np.argsort(narrow, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=n_classes))
    return np.split(order, ends[:-1])


@dataclass(frozen=True)
class TopLabelMaps:
    """Fitted maps of a top-label calibration.

    Parameters
    ----------
    by_class : sequence of calibrators
        The map of each predicted class; the pooled one where the class had too few rows.
    counts : array (K,)
        Weight of the calibration rows with each top class.
    pooled : array of bool (K,)
        Whether the class uses the pooled map.
    """

    by_class: Sequence[Calibrator]
    counts: FloatArray
    pooled: NDArray[np.bool_]

    def confidence(self, labels: IntArray, scores: FloatArray) -> FloatArray:
        """Calibrated probability that `labels` are right."""
        out = np.empty(len(scores))
        for rows, fitted in zip(group_rows(labels, len(self.by_class)), self.by_class, strict=True):
            if len(rows):
                out[rows] = apply_calibrator(fitted, scores[rows])
        return out


def fit_top_label(
    labels: IntArray,
    scores: FloatArray,
    codes: IntArray,
    n_classes: int,
    w: FloatArray | None,
    calibrator: Calibrator,
    min_count: float,
) -> TopLabelMaps:
    """One map for each predicted class, or the pooled one where fewer than `min_count` rows are.

    `labels` and `scores` are those of `top_class`, `codes` the columns of the true labels.
    ``min_count=inf`` gives confidence calibration: the pooled map for every class.
    """
    right = (labels == codes).astype(np.float64)
    counts = np.bincount(labels, weights=w, minlength=n_classes).astype(np.float64)
    few = counts < max(min_count, np.finfo(np.float64).tiny)
    pooled = fit_calibrator(calibrator, scores, right, w) if few.any() else None
    maps: list[Calibrator] = []
    for k, rows in enumerate(group_rows(labels, n_classes)):
        if few[k] and pooled is not None:
            maps.append(pooled)
        else:
            share = None if w is None else w[rows]
            maps.append(fit_calibrator(calibrator, scores[rows], right[rows], share))
    return TopLabelMaps(maps, counts, few)


def replace_top(p: FloatArray, labels: IntArray, calibrated: FloatArray) -> FloatArray:
    """The distributions `p` with the top probability replaced and the rest scaled to fill up.

    Where the other classes had no probability, the remainder is shared out evenly.
    """
    rows = np.arange(len(p))
    rest = p @ np.ones(p.shape[1]) - p[rows, labels]
    small = np.flatnonzero(rest < 1e-3)
    if len(small):  # the difference has lost its digits; sum the others themselves
        others = p[small]
        others[np.arange(len(small)), labels[small]] = 0.0
        rest[small] = others.sum(axis=1)
    certain = rest < _NOTHING
    scale = np.divide(1.0 - calibrated, rest, out=np.zeros(len(p)), where=~certain)
    out = p * scale[:, None]
    if certain.any():
        out[certain] = ((1.0 - calibrated[certain]) / (p.shape[1] - 1))[:, None]
    out[rows, labels] = calibrated
    return out


def lead_top(
    p: FloatArray, labels: IntArray, calibrated: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """As `replace_top`, with the top label in the lead; and where its confidence had to be raised.

    A runner-up that would overtake is held just below the top and its excess goes to the others in
    proportion. A confidence below 1/K cannot lead: the label then has slightly more than 1/K, and
    the others share the rest evenly.
    """
    out = replace_top(p, labels, calibrated)
    rows, k = np.arange(len(p)), p.shape[1]
    cap = calibrated * (1.0 - _LEAD)
    raised = (k - 1) * cap < 1.0 - calibrated
    out[raised] = (1.0 - _LEAD / k) / k
    out[rows[raised], labels[raised]] = (1.0 + _LEAD * (k - 1) / k) / k
    others = out.copy()
    others[rows, labels] = 0.0
    over = np.flatnonzero(~raised & (others.max(axis=1) > cap))
    if len(over):
        top = labels[over]
        held = _held_below(p[over], top, cap[over], 1.0 - calibrated[over])
        held[np.arange(len(over)), top] = calibrated[over]
        out[over] = held
    return out, raised


def _held_below(p: FloatArray, labels: IntArray, cap: FloatArray, mass: FloatArray) -> FloatArray:
    """`mass` shared out in proportion to `p` outside `labels`, no share above `cap`."""
    n, k = p.shape
    free = np.ones((n, k), dtype=bool)
    free[np.arange(n), labels] = False
    share = np.where(free, p, 0.0)
    out = np.zeros((n, k))
    for _ in range(k):
        left = mass - (out * ~free).sum(axis=1)
        total = (share * free).sum(axis=1)
        even = (total < _NOTHING)[:, None]
        weight = np.where(even, free, share * free)
        spread = weight * (left / np.maximum(weight.sum(axis=1), _NOTHING))[:, None]
        out = np.where(free, spread, out)
        over = free & (out > cap[:, None])
        if not over.any():
            break
        out = np.where(over, cap[:, None], out)
        free &= ~over
    return out


def fit_class_wise(
    p: FloatArray, codes: IntArray, w: FloatArray | None, calibrator: Calibrator
) -> list[Calibrator]:
    """One map for each class, fitted on every row's probability of it."""
    return [
        fit_calibrator(calibrator, np.ascontiguousarray(p[:, k]), (codes == k).astype(float), w)
        for k in range(p.shape[1])
    ]


def apply_class_wise(
    maps: Sequence[Calibrator], p: FloatArray, *, normalise: bool = True
) -> FloatArray:
    """Calibrated columns, divided by their row's sum unless `normalise` is off.

    Where every map gives zero, the classifier's own distribution is used.
    """
    out = np.column_stack(
        [apply_calibrator(fitted, np.ascontiguousarray(p[:, k])) for k, fitted in enumerate(maps)]
    )
    if not normalise:
        return out
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, out / np.where(total > 0.0, total, 1.0), p)
