"""scikit-learn classifiers that calibrate another: top-label, confidence and class-wise.

The base class obtains out-of-sample probabilities; what happens to them is in `m2b`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cje.checks import check_choice
from cje.classification._labels import top_class
from cje.classification.calibrated_classifier import CalibratedClassifier
from cje.classification.calibrators import resolve_calibrator
from cje.classification.m2b import (
    TopLabelMaps,
    apply_class_wise,
    check_min_count,
    fit_class_wise,
    fit_top_label,
    lead_top,
    replace_top,
)
from cje.findings import Finding
from cje.findings.metrics import CONFIDENCE_RAISED, LABEL_CHANGES, POOLED_CALIBRATION
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "ClassWiseCalibrator",
    "ConfidenceCalibrator",
    "TopLabelCalibrator",
]

_ENOUGH_ROWS = 20_000


class TopLabelCalibrator(CalibratedClassifier):
    r"""Calibrate the probability of the predicted class, class by class.

    For each class one binary map is fitted on the rows whose most probable class it is, so that
    :math:`P(Y = c(X) \mid h(X), c(X)) = h(X)` (Gupta and Ramdas 2021).

    Parameters
    ----------
    estimator : classifier, optional
        Anything with ``fit`` and ``predict_proba``; logistic regression by default. A
        ``sklearn.frozen.FrozenEstimator`` is not fitted again: all rows calibrate.
    calibrator : str or object
        ``"sigmoid"``, ``"isotonic"``, ``"centered_isotonic"``, ``"beta"``, ``"histogram"``,
        ``"temperature"``, ``"venn_abers"``, or any object with ``fit(scores, y)`` and ``predict``.
    cv : int, splitter, iterable of splits, or "prefit"
        A number of folds: the maps are fitted on the out-of-fold probabilities of all rows, and the
        classifier once more on all rows. A splitter with a single split: the classifier is fitted
        on its training part, the maps on its other part. ``"prefit"``: as with a frozen estimator.
    min_count : float
        A class that is the top class of fewer calibration rows (or less weight) uses the map fitted
        on all rows together; see `fallback_classes_`.
    rest : {"lead", "renormalise", "zero", "nan"}
        What `predict_proba` holds outside the top class. ``"lead"``: the classifier's probabilities
        scaled so that the row sums to one, none above the top class's, so that `predict` returns
        the classifier's own label; a confidence below 1/K, with which no class can lead, is raised
        to just above it (`raised_rate_`). ``"renormalise"``: scaled without that limit, so that a
        runner-up may overtake and `predict` change the label (`label_change_rate_`). Or zero, or
        NaN.
    n_jobs : int, optional
        Processes that fit the folds, as in joblib.
    random_state : int, RandomState or None
        Shuffles the folds when `cv` is a number; None keeps the order of the rows.

    Attributes
    ----------
    classes_ : ndarray
        Labels, in the order of `predict_proba`'s columns.
    estimator_ : classifier
    maps_ : TopLabelMaps
        The binary maps, with the calibration rows behind each class.
    fallback_classes_ : ndarray
        Classes calibrated by the pooled map.
    label_change_rate_ : float
        Share of calibration rows (of 20,000 evenly spaced ones, where there are more) for which
        `predict` differs from the classifier's own label: 0 unless ``rest="renormalise"``.
    raised_rate_ : float
        Share of the same rows whose calibrated confidence is below 1/K, which ``rest="lead"``
        raises in `predict_proba`.
    findings_ : list of Finding
        The same facts as statements.

    Notes
    -----
    Top-label calibration is defined for the classifier's label: `predict` returns it, so accuracy
    does not change, and `predict_top_label` returns it with its calibrated confidence as it is.

    References
    ----------
    Gupta and Ramdas (2021), arXiv:2107.08353.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TopLabelCalibrator(GaussianNB(), cv=5, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:1]).round(2).tolist()
    [[0.98, 0.02, 0.0]]
    >>> label, confidence = model.predict_top_label(X[70:71])
    >>> int(label[0]), round(float(confidence[0]), 2)
    (2, 0.89)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibrator: Any = "sigmoid",
        cv: Any = 5,
        min_count: float = 20,
        rest: Literal["lead", "renormalise", "zero", "nan"] = "lead",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.min_count = min_count
        self.rest = rest
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        resolve_calibrator(self.calibrator)
        check_choice("rest", self.rest, ("lead", "renormalise", "zero", "nan"))
        check_min_count(self.min_count)

    def _fit_maps(self, p: FloatArray, codes: IntArray, w: FloatArray | None) -> None:
        calibrator = resolve_calibrator(self.calibrator, len(self.classes_))
        labels, scores = top_class(p)
        self.maps_: TopLabelMaps = fit_top_label(
            labels, scores, codes, len(self.classes_), w, calibrator, float(self.min_count)
        )
        self.fallback_classes_ = self.classes_[self.maps_.pooled]
        self.label_change_rate_, self.raised_rate_ = self._rates(p, labels, scores, w)
        self.findings_ = self._findings()

    def _findings(self) -> list[Finding]:
        found = [
            POOLED_CALIBRATION.finding(
                str(name),
                name=name,
                count=float(count),
                min_count=float(self.min_count),
                details={"count": float(count), "min_count": float(self.min_count)},
            )
            for name, count, few in zip(
                self.classes_.tolist(), self.maps_.counts, self.maps_.pooled, strict=True
            )
            if few
        ]
        if self.label_change_rate_ > 0.0:
            found.append(LABEL_CHANGES.finding(rate=self.label_change_rate_))
        if self.raised_rate_ > 0.0 and self.rest == "lead":
            found.append(
                CONFIDENCE_RAISED.finding(n_classes=len(self.classes_), rate=self.raised_rate_)
            )
        return found

    def _rates(
        self, p: FloatArray, labels: IntArray, scores: FloatArray, w: FloatArray | None
    ) -> tuple[float, float]:
        """Shares of rows whose label changes, and whose confidence is below 1/K.

        Counted on evenly spaced rows where there are more than `_ENOUGH_ROWS`.
        """
        step = slice(None, None, max(1, -(-len(p) // _ENOUGH_ROWS)))
        p, labels, scores = p[step], labels[step], scores[step]
        calibrated = self.maps_.confidence(labels, scores)
        weight = np.ones(len(p)) if w is None else w[step]
        moved = 0.0
        if self.rest == "renormalise":
            # A class that keeps half the probability, or gains some, stays on top.
            rows = np.flatnonzero((calibrated <= 0.5) & (calibrated < scores))
            full = replace_top(p[rows], labels[rows], calibrated[rows])
            moved = float(weight[rows] @ (np.argmax(full, axis=1) != labels[rows]))
        total = float(weight.sum())
        return moved / total, float(weight @ (calibrated * p.shape[1] < 1.0)) / total

    def _calibrate(self, p: FloatArray) -> FloatArray:
        labels, scores = top_class(p)
        calibrated = self.maps_.confidence(labels, scores)
        if self.rest == "lead":
            return lead_top(p, labels, calibrated)[0]
        if self.rest == "renormalise":
            return replace_top(p, labels, calibrated)
        out = np.full(p.shape, 0.0 if self.rest == "zero" else np.nan)
        out[np.arange(len(p)), labels] = calibrated
        return out

    def predict(self, X: Any) -> NDArray[Any]:
        """The base classifier's label; with ``rest="renormalise"``, the argmax once calibrated."""
        if self.rest == "renormalise":
            return super().predict(X)
        return self.predict_top_label(X)[0]

    def predict_top_label(self, X: Any) -> tuple[NDArray[Any], FloatArray]:
        """The base classifier's label, and the calibrated probability that it is right."""
        labels, scores = top_class(self._base_proba(X))
        return np.asarray(self.classes_[labels]), self.maps_.confidence(labels, scores)


class ConfidenceCalibrator(TopLabelCalibrator):
    r"""Calibrate the probability of the predicted class with one map for all classes.

    :math:`P(Y = c(X) \mid h(X)) = h(X)`: weaker than top-label calibration, but every row counts
    for the one map. Parameters and attributes are those of `TopLabelCalibrator`, less `min_count`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ConfidenceCalibrator(cv=3, random_state=0).fit(X, y).predict_proba(X).shape
    (150, 3)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibrator: Any = "sigmoid",
        cv: Any = 5,
        rest: Literal["lead", "renormalise", "zero", "nan"] = "lead",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.rest = rest
        self.random_state = random_state
        self.n_jobs = n_jobs

    # Never enough rows for a map of its own: every class takes the pooled one.
    min_count = float("inf")

    def _findings(self) -> list[Finding]:
        return [finding for finding in super()._findings() if finding.code != "pooled-calibration"]


class ClassWiseCalibrator(CalibratedClassifier):
    r"""Calibrate each class's probability on its own: :math:`P(Y = k \mid p_k(X)) = p_k(X)`.

    Parameters
    ----------
    estimator, calibrator, cv, random_state, n_jobs
        As in `TopLabelCalibrator`.
    normalise : bool
        Divide each row by its sum, so that it is a distribution; False returns the calibrated
        columns themselves, which need not sum to one.

    Attributes
    ----------
    classes_ : ndarray
    estimator_ : classifier
    maps_ : list of calibrators
        One per class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> p = ClassWiseCalibrator(cv=3, random_state=0).fit(X, y).predict_proba(X)
    >>> bool(abs(p.sum(axis=1) - 1).max() < 1e-12)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibrator: Any = "sigmoid",
        cv: Any = 5,
        normalise: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.normalise = normalise
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        resolve_calibrator(self.calibrator)

    def _fit_maps(self, p: FloatArray, codes: IntArray, w: FloatArray | None) -> None:
        calibrator = resolve_calibrator(self.calibrator, len(self.classes_))
        self.maps_ = fit_class_wise(p, codes, w, calibrator)

    def _calibrate(self, p: FloatArray) -> FloatArray:
        return apply_class_wise(self.maps_, p, normalise=self.normalise)
