"""The base class of calibrated classifiers: out-of-sample probabilities of another classifier.

They are cross-fitted, from a split, or from a frozen classifier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    indexable,
)

from cje.classification import crossfit
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["CalibratedClassifier"]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fit the base classifier, collect out-of-sample probabilities, fit the maps."""

    estimator: Any
    cv: Any
    random_state: Any
    n_jobs: int | None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Any:
        """Fit the classifier and its calibration maps.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, features)
        y : array (n,)
            Labels of any type NumPy can sort.
        sample_weight : array (n,), optional
            Weights of the rows, for the classifier and for the maps. They count rows: weight 2 is
            the row twice, and `min_count` is compared with their sum.
        groups : array (n,), optional
            Handed to a splitter that keeps groups together, such as ``GroupKFold``.
        **fit_params
            For the classifier's own ``fit``; arrays of n values are split with the rows. With
            scikit-learn's metadata routing enabled they, the weights and the groups go where they
            are requested.
        """
        self._check_settings()  # a wrong one is reported before anything is fitted
        X, y, groups = indexable(X, y, groups)
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind not in "biuSU":  # these are classes whatever they hold
            check_classification_targets(labels)
        w = None
        if sample_weight is not None:
            w = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        base = crossfit.base_classifier(self.estimator)
        plan = crossfit.Plan(
            base,
            self.cv,
            self.random_state,
            self.n_jobs,
            crossfit.routed(self, w, groups, fit_params),
        )
        scores = crossfit.out_of_sample(plan, X, labels, w)
        self.classes_ = scores.classes
        self.estimator_ = scores.estimator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._fit_maps(scores.proba, scores.codes, scores.weight)
        return self

    @abstractmethod
    def _check_settings(self) -> None:
        """Raise an error for a setting that cannot be used."""

    @abstractmethod
    def _fit_maps(self, p: FloatArray, codes: IntArray, w: FloatArray | None) -> None:
        """Fit the maps on out-of-sample probabilities."""

    def _base_proba(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return crossfit.base_proba(self.estimator_, X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest calibrated probability."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated distribution over `classes_`."""
        return self._calibrate(self._base_proba(X))

    @abstractmethod
    def _calibrate(self, p: FloatArray) -> FloatArray:
        """Apply the maps to the classifier's distributions."""

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata of `fit` go: the classifier's ``fit`` and the splitter's ``split``."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            estimator=crossfit.base_classifier(self.estimator),
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )
        if hasattr(self.cv, "get_metadata_routing"):
            router.add(
                splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
            )
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = crossfit.base_classifier(self.estimator)
        if not hasattr(base, "__sklearn_tags__"):  # a class of its own, without scikit-learn's tags
            return tags
        inner = get_tags(base)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.pairwise = inner.input_tags.pairwise
        return tags
