"""Checks at the boundary of this layer: every public function comes through here, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_probabilities, check_weights, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "BLOCK",
    "SUM_TOLERANCE",
    "check_binary",
    "check_distribution",
    "check_multiclass",
    "check_outcomes",
    "column_labels",
    "encode_labels",
    "label_array",
    "lookup",
    "row_shares",
    "top_class",
    "top_outcome",
]

# Wide enough for float32 softmax and for files rounded to four digits, far below any real defect.
SUM_TOLERANCE = 1e-3
BLOCK = 32_768  # rows whose columns fit in the processor's cache together


def check_binary(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Outcomes in {0, 1}, probabilities in [0, 1] and weights, of one length, or an error."""
    y, p, w = check_outcomes(y_true, y_prob, sample_weight)
    return np.asarray(y, dtype=np.float64), p, w


def check_outcomes(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[NDArray[Any], FloatArray, FloatArray | None]:
    """As `check_binary`, but the outcomes keep their type: nothing is copied without need."""
    p = _column(y_prob)
    y = _one_dimensional(y_true, "y_true")
    if len(y) != len(p):
        raise CJEError("y_true and y_prob differ in length", value=(len(y), len(p)))
    p = check_probabilities("y_prob", p)
    if not _is_binary(y):
        row = int(np.argmax(~((y == 0) | (y == 1))))
        raise CJEError(
            "y_true must hold 0 and 1 only",
            where=f"row {row}",
            value=y[row].item(),
            hint="for more than two classes use confidence_ece, top_label_ece or class_wise_ece",
        )
    return y, p, check_weights("sample_weight", sample_weight, len(p))


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
            hint="a matrix of class probabilities goes to confidence_ece, top_label_ece or "
            "class_wise_ece",
        )
    if len(array) == 0:
        raise CJEError(f"{name} is empty: there is nothing to assess")
    if array.dtype.kind in "biuf":
        return array
    return float_array(name, array)


def check_distribution(y_prob: ArrayLike, *, where: str = "y_prob") -> FloatArray:
    """An (n, K) matrix, K >= 2, whose rows are probability distributions, or an error."""
    p = float_array(where, y_prob)
    if p.ndim != 2 or p.shape[1] < 2:
        raise CJEError(
            f"{where} must be a matrix with one column per class",
            value=p.shape,
            hint="for a binary problem stack [1 - p, p], or use the binary metrics",
        )
    if len(p) == 0:
        raise CJEError(f"{where} is empty: there is nothing to work on")
    p = check_probabilities(where, p, ndim=2)
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


def encode_labels(y_true: ArrayLike, n_classes: int, labels: ArrayLike | None) -> IntArray:
    """Column of each label.

    With `labels`, column k belongs to ``labels[k]``. Without, whole numbers in 0 .. K-1 are columns
    themselves, and otherwise the K distinct values of `y_true` are taken in sorted order.
    """
    y = label_array(y_true, "y_true")
    return lookup(y, column_labels(y, n_classes, labels))


def label_array(values: Any, name: str) -> NDArray[Any]:
    """Labels of any kind, one a row, or an error."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must hold one label per row", value=values) from error
    if array.ndim != 1:
        raise CJEError(f"{name} must be one-dimensional", value=array.shape)
    return array


def _distinct(labels: NDArray[Any], name: str) -> NDArray[Any]:
    try:
        return np.unique(labels)
    except TypeError as error:  # None, dicts, text among numbers
        raise CJEError(f"{name} must hold labels that can be sorted", value=labels[0]) from error


def _are_columns(y: NDArray[Any], n_classes: int) -> bool:
    return bool(y.dtype.kind in "iub" and len(y) and y.min() >= 0 and y.max() < n_classes)


def column_labels(y: NDArray[Any], n_classes: int, labels: ArrayLike | None) -> NDArray[Any]:
    """Label of each column, by the rule of `encode_labels`."""
    if labels is None:
        if _are_columns(y, n_classes):
            return np.arange(n_classes)
        names = _distinct(y, "y_true")
        if len(names) != n_classes:
            raise CJEError(
                f"y_true holds {len(names)} distinct labels and y_prob {n_classes} columns",
                hint="pass labels=[...], the label of each column",
            )
    else:
        names = label_array(labels, "labels")
        if names.shape != (n_classes,) or len(_distinct(names, "labels")) != n_classes:
            raise CJEError("labels must name each column of y_prob once", value=names.tolist())
    return names


def lookup(y: NDArray[Any], names: NDArray[Any]) -> IntArray:
    """Position of each label in `names`; an error names the first label that is not there."""
    if _are_columns(y, len(names)) and np.array_equal(names, np.arange(len(names))):
        return y.astype(np.int64, copy=False)
    order = np.argsort(names)
    try:
        found = order[np.clip(np.searchsorted(names, y, sorter=order), 0, len(names) - 1)]
        known = names[found] == y
    except TypeError as error:
        raise CJEError(
            "labels and y_true are of types that cannot be compared",
            value=(str(names.dtype), str(y.dtype)),
        ) from error
    if not np.all(known):
        row = int(np.argmin(known))
        raise CJEError(
            "a label was never seen",
            where=f"row {row}",
            value=y[row],
            hint=f"known labels: {names.tolist()[:20]}",
        )
    return found.astype(np.int64, copy=False)


def check_multiclass(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Column of each label, class probabilities and weights, of one length, or an error."""
    p = check_distribution(y_prob)
    y = label_array(y_true, "y_true")
    if len(y) != len(p):
        raise CJEError("y_true and y_prob differ in length", value=(len(y), len(p)))
    return (
        encode_labels(y, p.shape[1], labels),
        p,
        check_weights("sample_weight", sample_weight, len(p)),
    )


def row_shares(n: int, w: FloatArray | None) -> FloatArray:
    """Each row's share of the weight; they sum to one."""
    return np.full(n, 1.0 / n) if w is None else w / w.sum()


def top_class(p: FloatArray) -> tuple[IntArray, FloatArray]:
    """Most probable class of each row (the first among equals) and its probability."""
    labels = np.argmax(p, axis=1)
    return labels, p[np.arange(len(p)), labels]


def top_outcome(codes: IntArray, p: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """`top_class`, and whether it is the row's own class `codes` (1) or not (0)."""
    labels, score = top_class(p)
    return labels, score, (labels == codes).astype(np.float64)
