"""Checks at the boundary of this layer: every public function calls them once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_probabilities, check_weights, float_array
from cje.errors import CJEError
from cje.hints import by_interface, option_hint
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "BLOCK",
    "SUM_TOLERANCE",
    "check_binary",
    "check_confidence",
    "check_distribution",
    "check_groups",
    "check_outcomes",
    "class_matrix",
    "row_shares",
]

# Wide enough for float32 softmax and for files rounded to four digits, far below any real defect.
SUM_TOLERANCE = 1e-3
BLOCK = 32_768  # rows whose columns fit in the processor's cache together


def check_binary(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Outcomes in {0, 1}, probabilities in [0, 1] and weights, of one length, or an error."""
    y, p, w = check_outcomes(y_true, y_prob, sample_weight, pos_label)
    return np.asarray(y, dtype=np.float64), p, w


def check_outcomes(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> tuple[NDArray[Any], FloatArray, FloatArray | None]:
    """As `check_binary`, but the outcomes keep their type: nothing is copied without need."""
    p = _column(y_prob)
    if pos_label is None:
        y = _one_dimensional(y_true, "y_true")
    else:
        y = _is_positive(y_true, pos_label)
    if len(y) != len(p):
        raise CJEError("y_true and y_prob differ in length", value=(len(y), len(p)))
    p = check_probabilities("y_prob", p)
    if not _is_binary(y):
        row = int(np.argmax(~((y == 0) | (y == 1))))
        raise CJEError(
            "y_true must hold 0 and 1 only",
            where=f"row {row}",
            value=y[row].item(),
            hint="name the label that counts as 1 with "
            + by_interface("pos_label", "--pos-label LABEL")
            + "; for more than two classes "
            "use confidence_ece, top_label_ece or class_wise_ece",
        )
    return y, p, check_weights("sample_weight", sample_weight, len(p))


def _is_positive(y_true: ArrayLike, pos_label: Any) -> NDArray[Any]:
    """Whether each label is the positive one of at most two."""
    if np.ndim(pos_label) > 0:
        raise CJEError("pos_label must be one label", value=pos_label)
    try:
        y = np.asarray(y_true)
        found = np.unique(y)
        positive = np.asarray(y == pos_label)
    except (TypeError, ValueError) as error:  # ragged lists, text among numbers
        raise CJEError("y_true must hold one label per row", value=y_true) from error
    if y.ndim != 1 or not len(y) or positive.shape != y.shape:
        raise CJEError(
            "with pos_label, y_true must hold one label per row and pos_label one label",
            value=(y.shape, pos_label),
        )
    if len(found) > 2 or (len(found) == 2 and not positive.any()):
        raise CJEError(
            "pos_label must be one of the two labels of y_true", value=pos_label,
            hint=f"labels that occur: {found.tolist()[:20]}",
        )  # fmt: skip
    return positive


def check_confidence(confidence: ArrayLike, name: str = "the confidences") -> FloatArray:
    """Confidences in [0, 1], one per row and at least one, or an error."""
    return check_probabilities(name, _one_dimensional(confidence, name))


def check_groups(groups: ArrayLike | None, n: int) -> IntArray | None:
    """Number of each row's group, counted from 0 in sorted order; None stays None."""
    if groups is None:
        return None
    try:
        array = np.asarray(groups)
        if array.shape != (n,) or (array.dtype.kind in "fc" and not np.isfinite(array).all()):
            raise CJEError("groups must hold one name or number per row", value=array.shape)
        return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, CJEError):
            raise
        raise CJEError("groups must hold one name or number per row", value=groups) from error


def _column(y_prob: ArrayLike) -> FloatArray:
    return np.asarray(_one_dimensional(y_prob, "y_prob"), dtype=np.float64)


def _is_binary(y: NDArray[Any]) -> bool:
    if y.dtype.kind == "b":
        return True
    if y.dtype.kind in "iu":
        return bool(y.min() >= 0 and y.max() <= 1)
    # y * y == y holds for 0, 1 and infinity, and never for NaN; in blocks that stay in the cache.
    blocks = (y[start : start + BLOCK] for start in range(0, len(y), BLOCK))
    with np.errstate(over="ignore"):
        return all(bool((block * block == block).all() and block.max() <= 1) for block in blocks)


def _one_dimensional(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must be one-dimensional", value=values) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise CJEError(
            f"{name} must be one-dimensional",
            value=array.shape,
            hint="use confidence_ece, top_label_ece or class_wise_ece for a matrix of class "
            "probabilities",
        )
    if len(array) == 0:
        raise CJEError(f"{name} is empty: there is nothing to assess")
    if array.dtype.kind in "biuf":
        return array
    if name == "y_true" and isinstance(array[0], str):
        raise CJEError(
            "y_true must hold 0 and 1 only", value=str(array[0]),
            hint=f"name the label that counts as 1: {option_hint('pos_label', str(array[0]))}",
        )  # fmt: skip
    return float_array(name, array)


def check_distribution(y_prob: ArrayLike, *, where: str = "y_prob") -> FloatArray:
    """An (n, K) matrix, K >= 2, whose rows are probability distributions, or an error."""
    p = check_probabilities(where, class_matrix(y_prob, where), ndim=2)
    # A product with ones is several times faster than a sum along a short axis.
    off = np.abs(p @ np.ones(p.shape[1]) - 1.0)
    if off.max() > SUM_TOLERANCE:
        row = int(np.argmax(off))
        raise CJEError(
            f"{where} must sum to one in every row",
            where=f"row {row}",
            value=float(p[row].sum()),
            hint="divide each row by its sum if the columns are all the classes there are",
        )
    return p


def class_matrix(y_prob: ArrayLike, where: str) -> FloatArray:
    """A float matrix with a row and two columns at least, or an error."""
    p = float_array(where, y_prob)
    if p.ndim != 2 or p.shape[1] < 2:
        raise CJEError(
            f"{where} must be a matrix with one column per class",
            value=p.shape,
            hint="for a binary problem stack [1 - p, p], or use the binary metrics",
        )
    if len(p) == 0:
        raise CJEError(f"{where} is empty: there is nothing to assess")
    return p


def row_shares(n: int, w: FloatArray | None) -> FloatArray:
    """Each row's share of the weight; they sum to one."""
    return np.full(n, 1.0 / n) if w is None else w / w.sum()
