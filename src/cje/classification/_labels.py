"""Labels of rows and of columns: which column belongs to which class, and which label leads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_weights
from cje.classification._arrays import (
    SUM_TOLERANCE,
    check_confidence,
    check_distribution,
    class_matrix,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "TopLabels",
    "announced",
    "check_multiclass",
    "check_top",
    "column_labels",
    "distinct",
    "frame_names",
    "label_array",
    "lookup",
    "same_order",
    "text_of",
    "top_class",
]

_WAY_OUT = "pass labels=[...], the label of each column in the order of the columns"
_MOST_SHOWN = 20


class TopLabels(NamedTuple):
    """Input of a top-label metric for each row.

    Attributes
    ----------
    label : array (n,) of int
        Position of the announced label in `names`.
    score : array (n,)
        Its confidence.
    right : array (n,)
        1 where the announced label is the row's own, else 0.
    names : array (K,)
        The labels.
    """

    label: IntArray
    score: FloatArray
    right: FloatArray
    names: NDArray[Any]


def label_array(values: Any, name: str) -> NDArray[Any]:
    """Labels of any kind, one per row, or an error."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must hold one label per row", value=values) from error
    if array.ndim != 1:
        raise CJEError(f"{name} must be one-dimensional", value=array.shape)
    return array


def distinct(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """The labels that occur, sorted."""
    try:
        return np.unique(labels)
    except TypeError as error:  # None, dicts, text among numbers
        raise CJEError(f"{name} must hold labels that can be sorted", value=labels[0]) from error


def frame_names(y_prob: Any) -> list[Any] | None:
    """Column names of a data frame; None for an array, or a frame numbered 0, 1, 2, ..."""
    columns = None if isinstance(y_prob, np.ndarray) else getattr(y_prob, "columns", None)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    numbered = all(isinstance(name, int | np.integer) for name in names)
    return None if numbered and names == list(range(len(names))) else names


def text_of(label: Any) -> str:
    """A label as a column name would spell it: 5 and 5.0 are "5"."""
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)


def same_order(names: list[Any], labels: Any) -> list[int] | None:
    """Position among `names` of each label, or None where the two sets differ."""
    known = {text_of(name): k for k, name in enumerate(names)}
    wanted = [text_of(label) for label in labels]
    if len(known) != len(names) or sorted(known) != sorted(wanted):
        return None
    return [known[name] for name in wanted]


def _are_columns(y: NDArray[Any], n_classes: int) -> bool:
    return bool(y.dtype.kind in "iub" and len(y) and y.min() >= 0 and y.max() < n_classes)


def column_labels(
    y: NDArray[Any], n_classes: int, labels: ArrayLike | None, names: list[Any] | None = None
) -> NDArray[Any]:
    """Label of each column.

    From `labels`; else from the `names` of a data frame's columns; else, if as many distinct labels
    occur as there are columns, in sorted order; else whole numbers are columns if 0 occurs among
    them, which rules out counting from 1.
    """
    if labels is not None:
        return _given_labels(n_classes, labels, names)
    if names is not None:
        return _named_columns(y, names)
    if y.dtype.kind in "iu" and len(y) and y.min() == 0 and y.max() < n_classes:
        return np.arange(n_classes)
    found = distinct(y, "y_true")
    if len(found) == n_classes and not _are_columns(found, n_classes):
        return found
    if _are_columns(found, n_classes) and (found[0] == 0 or found.dtype.kind == "b"):
        return np.arange(n_classes)
    shown = found.tolist()[:_MOST_SHOWN]
    if _are_columns(found, n_classes):
        raise CJEError(
            f"y_true does not say whether its labels count from 0 or from 1: {len(shown)} of "
            f"{n_classes} distinct labels occur, and neither 0 nor {n_classes} is one of them",
            value=shown, hint=_WAY_OUT,
        )  # fmt: skip
    raise CJEError(
        f"y_true holds {len(found)} distinct labels and y_prob {n_classes} columns",
        value=shown, hint=_WAY_OUT,
    )  # fmt: skip


def _given_labels(n_classes: int, labels: ArrayLike, names: list[Any] | None) -> NDArray[Any]:
    given = label_array(labels, "labels")
    if given.shape != (n_classes,) or len(distinct(given, "labels")) != n_classes:
        raise CJEError("labels must name each column of y_prob once", value=given.tolist())
    if names is not None:
        order = same_order(names, given.tolist())
        if order is not None and order != list(range(n_classes)):
            raise CJEError(
                "labels and the columns of y_prob have the same names in different orders",
                value=(given.tolist(), names),
                hint="leave labels out: the columns are matched by name",
            )
    return given


def _named_columns(y: NDArray[Any], names: list[Any]) -> NDArray[Any]:
    """The names of the columns as labels of the kind that `y` holds."""
    found = distinct(y, "y_true").tolist()
    spelled = {text_of(label): label for label in found}
    unknown = [label for text, label in spelled.items() if text not in set(map(text_of, names))]
    if unknown:
        raise CJEError(
            "labels of y_true are not among the column names of y_prob",
            value=unknown[:_MOST_SHOWN],
            hint=f"available columns: {', '.join(map(str, names[:_MOST_SHOWN]))}; rename them to "
            "the labels, or " + _WAY_OUT,
        )
    if len(set(map(text_of, names))) != len(names):
        raise CJEError("the columns of y_prob must have distinct names", value=names)
    return np.asarray([spelled.get(text_of(name), _like(name, y)) for name in names])


def _like(name: Any, y: NDArray[Any]) -> Any:
    """The name of a column whose label does not occur, as a label of the kind of the others."""
    if y.dtype.kind not in "iuf":
        return name if y.dtype.kind != "b" else str(name) == "True"
    try:
        return float(name)
    except (TypeError, ValueError):
        raise CJEError(
            "y_true holds numbers and a column name of y_prob is not a number", value=name,
            hint=_WAY_OUT,
        ) from None  # fmt: skip


def lookup(y: NDArray[Any], names: NDArray[Any]) -> IntArray:
    """Position of each label in `names`; an error names the first label that is not there."""
    if _are_columns(y, len(names)) and np.array_equal(names, np.arange(len(names))):
        return y.astype(np.int64, copy=False)
    try:
        order = np.argsort(names)
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
            hint=f"known labels: {names.tolist()[:_MOST_SHOWN]}",
        )
    return found.astype(np.int64, copy=False)


def _codes(
    y_true: ArrayLike, n: int, n_classes: int, labels: ArrayLike | None, names: list[Any] | None
) -> tuple[IntArray, NDArray[Any]]:
    y = label_array(y_true, "y_true")
    if len(y) != n:
        raise CJEError("y_true and y_prob differ in length", value=(len(y), n))
    known = column_labels(y, n_classes, labels, names)
    return lookup(y, known), known


def check_multiclass(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> tuple[IntArray, FloatArray, FloatArray | None, NDArray[Any]]:
    """Column of each label, distributions, weights, and the label of each column, or an error."""
    if _is_pair(y_prob):
        raise CJEError(
            "this metric needs the probability of every class, and got (label, confidence)",
            hint="pass predict_proba's matrix, or use a top-label metric",
        )
    p = check_distribution(y_prob)
    codes, known = _codes(y_true, len(p), p.shape[1], labels, frame_names(y_prob))
    return codes, p, check_weights("sample_weight", sample_weight, len(p)), known


def check_top(
    y_true: ArrayLike,
    y_prob: Any,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> tuple[TopLabels, FloatArray | None]:
    """The announced label of each row with its confidence, and weights, or an error.

    `y_prob` is a matrix of distributions; or one with the top class alone, all else 0 or NaN; or a
    tuple of labels and confidences.
    """
    if _is_pair(y_prob):
        return _check_pair(y_true, y_prob, sample_weight, labels)
    p, top = _top_columns(y_prob)
    codes, known = _codes(y_true, len(p), p.shape[1], labels, frame_names(y_prob))
    score = check_confidence(p[np.arange(len(p)), top])
    right = (top == codes).astype(np.float64)
    return TopLabels(top, score, right, known), check_weights(
        "sample_weight", sample_weight, len(p)
    )


def announced(y_prob: Any) -> tuple[IntArray, FloatArray, NDArray[Any]]:
    """Announced label (its position), confidence and labels of each row, where no truth is known.

    The labels of a matrix are its column numbers.
    """
    if _is_pair(y_prob):
        said = label_array(y_prob[0], "the predicted labels")
        score = check_confidence(y_prob[1])
        if len(said) != len(score):
            raise CJEError("labels and confidences differ in length", value=(len(said), len(score)))
        names = distinct(said, "the predicted labels")
        return lookup(said, names), score, names
    p, top = _top_columns(y_prob)
    return top, check_confidence(p[np.arange(len(p)), top]), np.arange(p.shape[1])


def _top_columns(y_prob: Any) -> tuple[FloatArray, IntArray]:
    """A matrix, and the column of each row's top class."""
    p = class_matrix(y_prob, "y_prob")
    top = _lone_entries(p)
    if top is None:
        p = check_distribution(p)
        top = np.argmax(p, axis=1)
    return p, top


def _is_pair(y_prob: Any) -> bool:
    """Whether `y_prob` is a tuple (label, confidence), and not two rows of a matrix."""
    if not isinstance(y_prob, tuple) or len(y_prob) != 2:
        return False
    try:
        rows = np.asarray(y_prob, dtype=np.float64)
    except (TypeError, ValueError):
        return True
    return not (rows.ndim == 2 and bool((np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE).all()))


def _check_pair(
    y_true: ArrayLike, pair: tuple[Any, Any], sample_weight: ArrayLike | None, labels: Any
) -> tuple[TopLabels, FloatArray | None]:
    y, announced = label_array(y_true, "y_true"), label_array(pair[0], "the predicted labels")
    score = check_confidence(pair[1])
    if not len(y) == len(announced) == len(score):
        raise CJEError(
            "y_true, labels and confidences differ in length",
            value=(len(y), len(announced), len(score)),
        )
    seen, said = distinct(y, "y_true"), distinct(announced, "the predicted labels")
    if (seen.dtype.kind in "biuf") != (said.dtype.kind in "biuf"):
        raise CJEError(
            "y_true and the predicted labels are of different kinds, so that none would be right",
            value=(seen.tolist()[:3], said.tolist()[:3]),
        )
    names = said if labels is None else label_array(labels, "labels")
    label = lookup(announced, names)
    right = np.asarray(announced == y, dtype=np.float64)
    return TopLabels(label, score, right, names), check_weights(
        "sample_weight", sample_weight, len(y)
    )


def _lone_entries(p: FloatArray) -> IntArray | None:
    """Column of the only entry of each row where all else is NaN or all else is 0, else None."""
    missing = np.isnan(p)
    if missing.any():
        lone = missing.sum(axis=1) == p.shape[1] - 1
        return np.asarray(np.argmin(missing, axis=1), dtype=np.int64) if lone.all() else None
    if np.abs(p @ np.ones(p.shape[1]) - 1.0).max() <= SUM_TOLERANCE:
        return None
    filled = np.count_nonzero(p, axis=1)
    if filled.max() > 1:
        return None
    if filled.min() == 0:
        raise CJEError(
            "a row is zero everywhere, which hides the label that was predicted",
            where=f"row {int(np.argmin(filled))}",
            hint="pass predict_top_label's (label, confidence) instead",
        )
    return np.asarray(np.argmax(p, axis=1), dtype=np.int64)


def top_class(p: FloatArray) -> tuple[IntArray, FloatArray]:
    """Most probable class of each row (the first among equals) and its probability."""
    labels = np.argmax(p, axis=1)
    return labels, p[np.arange(len(p)), labels]
