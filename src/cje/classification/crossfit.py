"""Out-of-sample probabilities of a classifier: cross-fitted, from one split, or frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from cje.classification._arrays import check_distribution, lookup
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["OutOfSample", "base_classifier", "base_proba", "out_of_sample"]


@dataclass(frozen=True)
class OutOfSample:
    """Calibration rows and the classifier that future rows will be given to.

    Parameters
    ----------
    estimator : fitted classifier
    classes : ndarray
        Labels in the order of `proba`'s columns.
    proba : array (m, K)
        Probabilities by a classifier that did not see the row.
    codes : array (m,)
        Column of each row's label.
    weight : array (m,), optional
    """

    estimator: Any
    classes: NDArray[Any]
    proba: FloatArray
    codes: IntArray
    weight: FloatArray | None


def base_classifier(estimator: Any) -> Any:
    """The classifier to calibrate; logistic regression where none is given."""
    return LogisticRegression(max_iter=1000) if estimator is None else estimator


def base_proba(estimator: Any, X: Any) -> FloatArray:
    """The classifier's distributions, checked: it may be anybody's."""
    return check_distribution(
        estimator.predict_proba(X), where="predict_proba of the base classifier"
    )


def out_of_sample(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    w: FloatArray | None,
    groups: Any,
    cv: Any,
    random_state: Any,
) -> OutOfSample:
    """Probabilities for calibration, and the classifier to use afterwards."""
    if not hasattr(estimator, "predict_proba"):
        raise CJEError(
            "the base classifier has no predict_proba, so there is no probability to calibrate",
            value=estimator,
            hint="wrap it in sklearn.calibration.CalibratedClassifierCV, or set probability=True",
        )
    if isinstance(cv, str) and cv != "prefit":
        raise CJEError("unknown cv", value=cv, hint='a number, a splitter, splits, or "prefit"')
    if isinstance(cv, str) or isinstance(estimator, FrozenEstimator):
        return _with_weight(_prefit(estimator, X, y, w))
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise CJEError(
            "y holds one class only; a classifier needs at least two", value=classes.tolist()
        )
    return _with_weight(_crossfit(estimator, X, y, w, groups, classes, codes, cv, random_state))


def _with_weight(scores: OutOfSample) -> OutOfSample:
    """Rows of weight zero take no part in calibration; none left is an error."""
    if scores.weight is None:
        return scores
    kept = scores.weight > 0.0
    if not kept.any():
        raise CJEError("the calibration set is empty: every row has weight zero")
    return OutOfSample(
        scores.estimator,
        scores.classes,
        scores.proba[kept],
        scores.codes[kept],
        scores.weight[kept],
    )


def _prefit(estimator: Any, X: Any, y: NDArray[Any], w: FloatArray | None) -> OutOfSample:
    if len(y) == 0:
        raise CJEError("the calibration set is empty")
    if not hasattr(estimator, "classes_"):
        raise CJEError(
            "the base classifier is not fitted, and cv='prefit' does not fit it",
            value=estimator,
            hint="fit it first, or give cv a number of folds",
        )
    classes = np.asarray(estimator.classes_)
    proba = base_proba(estimator, X)
    return OutOfSample(estimator, classes, proba, lookup(y, classes), w)


def _crossfit(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    w: FloatArray | None,
    groups: Any,
    classes: NDArray[Any],
    codes: IntArray,
    cv: Any,
    random_state: Any,
) -> OutOfSample:
    splits = _splits(X, y, codes, groups, cv, random_state)
    rows, parts, last = [], [], None
    for train, test in splits:
        if len(test) == 0:
            raise CJEError("the calibration set is empty: a split of cv has no test rows")
        last = _fit(estimator, X, y, w, train)
        proba = base_proba(last, _safe_indexing(X, test))
        # A fold may lack a class; its column is then zero.
        full = np.zeros((len(test), len(classes)))
        full[:, lookup(np.asarray(last.classes_), classes)] = proba
        rows.append(np.asarray(test))
        parts.append(full)
    used = np.concatenate(rows)
    weight = None if w is None else w[used]
    times = np.bincount(used, minlength=len(y))
    if times.max() > 1:  # repeated splits: a row counts once, however often it was predicted
        weight = (1.0 if weight is None else weight) / times[used]
    # Calibrated for the one classifier of a single split; otherwise all rows train the final one.
    final = last if len(splits) == 1 else _fit(estimator, X, y, w, None)
    return OutOfSample(final, classes, np.concatenate(parts), codes[used], weight)


def _splits(
    X: Any, y: NDArray[Any], codes: IntArray, groups: Any, cv: Any, random_state: Any
) -> list[Any]:
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        largest = int(np.bincount(codes).max())
        if cv < 2 or largest < cv:
            raise CJEError(
                f"cv={cv} folds need cv >= 2 and a class with at least that many rows; the "
                f"largest class has {largest} rows, of n_samples={len(y)}",
                hint="use fewer folds, a splitter, or a frozen estimator",
            )
        shuffle = random_state is not None
        splitter = StratifiedKFold(
            int(cv), shuffle=shuffle, random_state=random_state if shuffle else None
        )
    else:
        splitter = check_cv(cv, y, classifier=True)
    splits = list(splitter.split(X, y, groups))
    if not splits:
        raise CJEError("cv gives no split, so the calibration set is empty", value=cv)
    return splits


def _fit(estimator: Any, X: Any, y: NDArray[Any], w: FloatArray | None, rows: Any) -> Any:
    fitted = clone(estimator)
    if rows is not None:
        X, y = _safe_indexing(X, rows), _safe_indexing(y, rows)
        w = None if w is None else w[rows]
    if w is None:
        return fitted.fit(X, y)
    if not has_fit_parameter(fitted, "sample_weight"):
        raise CJEError(
            "sample_weight was given, but the base classifier's fit does not take it",
            value=estimator,
            hint="use a classifier that takes sample_weight, or leave the weights out",
        )
    return fitted.fit(X, y, sample_weight=w)
