"""A scikit-learn classifier whose whole distribution is calibrated by a softmax map."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cje.checks import check_choice
from cje.classification.calibrated_classifier import CalibratedClassifier
from cje.classification.multiclass import SoftmaxMap, fit_temperature, fit_vector
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["SoftmaxCalibrator"]


class SoftmaxCalibrator(CalibratedClassifier):
    r"""Calibrate all class probabilities at once: temperature or vector scaling.

    Fitted by maximum likelihood on out-of-sample probabilities, so that it lowers the log loss;
    top-label, confidence and class-wise calibration are not conditions of the fit.

    Parameters
    ----------
    estimator, cv, random_state, n_jobs
        As in `TopLabelCalibrator`.
    method : {"temperature", "vector"}
        :math:`\operatorname{softmax}(\log p / T)`, which keeps every label; or a coefficient and an
        intercept per class, shrunk towards it (see `cje.classification.multiclass`).

    Attributes
    ----------
    classes_ : ndarray
    estimator_ : classifier
    map_ : SoftmaxMap
        Coefficient and intercept of each class; ``1 / map_.slope`` are the temperatures.
    label_change_rate_ : float
        Share of calibration rows whose label the map changes; 0 for temperature scaling.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftmaxCalibrator(GaussianNB(), cv=5, random_state=0).fit(X, y)
    >>> bool(model.map_.slope[0] < 1), model.predict_proba(X).shape
    (True, (150, 3))
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Literal["temperature", "vector"] = "temperature",
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        check_choice("method", self.method, ("temperature", "vector"))

    def _fit_maps(self, p: FloatArray, codes: IntArray, w: FloatArray | None) -> None:
        fit = fit_temperature if self.method == "temperature" else fit_vector
        self.map_: SoftmaxMap = fit(p, codes, w)
        moved = np.argmax(self.map_.apply(p), axis=1) != np.argmax(p, axis=1)
        self.label_change_rate_ = float(np.average(moved, weights=w))

    def _calibrate(self, p: FloatArray) -> FloatArray:
        return self.map_.apply(p)
