"""Out-of-sample probabilities of a classifier: cross-fitted, from one split, or frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from cje.classification._arrays import check_distribution
from cje.classification._labels import column_labels, lookup
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "Metadata",
    "OutOfSample",
    "Plan",
    "base_classifier",
    "base_proba",
    "out_of_sample",
    "routed",
]


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
    """The distributions of a classifier of any origin, checked."""
    return check_distribution(
        estimator.predict_proba(X), where="predict_proba of the base classifier"
    )


@dataclass(frozen=True)
class Metadata:
    """Arguments of the classifier's ``fit``, and of the splitter's ``split``."""

    fit: Mapping[str, Any]
    split: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """How the classifier is fitted.

    Parameters
    ----------
    estimator : classifier
    cv, random_state, n_jobs
        As in `TopLabelCalibrator`.
    metadata : Metadata
        What goes to the classifier's fit, and to the splitter.
    """

    estimator: Any
    cv: Any
    random_state: Any
    n_jobs: int | None
    metadata: Metadata


def routed(
    owner: Any, w: FloatArray | None, groups: Any, fit_params: Mapping[str, Any]
) -> Metadata:
    """Weights, groups and fit parameters by scikit-learn's routing; by convention if it is off."""
    base = base_classifier(owner.estimator)
    if sklearn.get_config()["enable_metadata_routing"]:
        given = dict(fit_params)
        given |= {} if w is None else {"sample_weight": w}
        given |= {} if groups is None else {"groups": groups}
        asked = process_routing(owner, "fit", **given)
        split = dict(asked.splitter.split) if hasattr(asked, "splitter") else {}
        return Metadata(dict(asked.estimator.fit), split)
    fit = dict(fit_params)
    if w is not None and owner.cv != "prefit" and not isinstance(base, FrozenEstimator):
        fit[_weight_name(base)] = w
    return Metadata(fit, {} if groups is None else {"groups": groups})


def _weight_name(estimator: Any) -> str:
    """What the classifier's fit calls weights; a pipeline's belong to its last step."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        return f"{estimator.steps[-1][0]}__{_weight_name(estimator.steps[-1][1])}"
    raise CJEError(
        "sample_weight was given, but the base classifier's fit does not take it",
        value=estimator,
        hint="use a classifier that takes sample_weight, or leave the weights out",
    )


def out_of_sample(plan: Plan, X: Any, y: NDArray[Any], w: FloatArray | None) -> OutOfSample:
    """Probabilities for calibration, and the classifier to use afterwards."""
    estimator, cv = plan.estimator, plan.cv
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
    return _with_weight(_crossfit(plan, X, y, w, classes, codes))


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
    try:
        proba = base_proba(estimator, X)
    except NotFittedError as error:
        raise CJEError(
            "the base classifier is not fitted, and cv='prefit' does not fit it",
            value=estimator,
            hint="fit it first, or give cv a number of folds",
        ) from error
    classes = _classes_of(estimator, y, proba.shape[1])
    return OutOfSample(estimator, classes, proba, lookup(y, classes), w)


def _classes_of(estimator: Any, y: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The classifier's `classes_`, or the labels that occur where it has none and they fit."""
    if hasattr(estimator, "classes_"):
        return np.asarray(estimator.classes_)
    try:
        return column_labels(y, n_classes, None)
    except CJEError as error:
        raise CJEError(
            "the base classifier has no classes_, so the label of each column is not known",
            value=estimator,
            hint="set estimator.classes_ to the labels in the order of its columns",
        ) from error


def _crossfit(
    plan: Plan,
    X: Any,
    y: NDArray[Any],
    w: FloatArray | None,
    classes: NDArray[Any],
    codes: IntArray,
) -> OutOfSample:
    splits = _splits(plan, X, y, codes)
    if any(len(test) == 0 for _, test in splits):
        raise CJEError("the calibration set is empty: a split of cv has no test rows")
    fitted = Parallel(n_jobs=plan.n_jobs)(
        delayed(_fit_and_predict)(plan, X, y, train, test) for train, test in splits
    )
    rows, parts = [], []
    for (_, test), (last, proba) in zip(splits, fitted, strict=True):
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
    final = fitted[-1][0] if len(splits) == 1 else _fit(plan, X, y, None)
    return OutOfSample(final, classes, np.concatenate(parts), codes[used], weight)


def _fit_and_predict(
    plan: Plan, X: Any, y: NDArray[Any], train: Any, test: Any
) -> tuple[Any, FloatArray]:
    fitted = _fit(plan, X, y, train)
    return fitted, base_proba(fitted, _safe_indexing(X, test))


def _splits(plan: Plan, X: Any, y: NDArray[Any], codes: IntArray) -> list[Any]:
    cv, random_state = plan.cv, plan.random_state
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
    splits = list(splitter.split(X, y, **plan.metadata.split))
    if not splits:
        raise CJEError("cv gives no split, so the calibration set is empty", value=cv)
    return splits


def _fit(plan: Plan, X: Any, y: NDArray[Any], rows: Any) -> Any:
    fitted = clone(plan.estimator)
    metadata = _check_method_params(X, plan.metadata.fit, indices=rows)
    if rows is not None:
        X, y = _safe_indexing(X, rows), _safe_indexing(y, rows)
    return fitted.fit(X, y, **metadata)
