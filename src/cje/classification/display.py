"""Calibration displays and scorers in scikit-learn's style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer

from cje.classification.bins import Strategy
from cje.classification.curves import Band, calibration_curve, confidence_curve
from cje.classification.registry import Metric, entry_of
from cje.errors import CJEError
from cje.inference.curve import CalibrationCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityDisplay", "calibration_scorer"]


class ReliabilityDisplay:
    """A reliability curve with its axes, made from an estimator or from predictions.

    Parameters
    ----------
    curve : CalibrationCurve

    Attributes
    ----------
    curve : CalibrationCurve
    ax_ : matplotlib Axes
        Once drawn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> display = ReliabilityDisplay.from_predictions(rng.random(500) < p, p, n_bins=5)
    >>> len(display.curve)
    5
    """

    def __init__(self, curve: CalibrationCurve) -> None:
        self.curve = curve

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **style: Any) -> Any:
        """Draw the curve on `ax`, or on new axes; `name` labels it."""
        self.ax_ = self.curve.plot(ax=ax, **({} if name is None else {"label": name}), **style)
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: Any,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        level: float = 0.95,
        band: Band = "simultaneous",
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **style: Any,
    ) -> ReliabilityDisplay:
        """From a probability of 1 (`calibration_curve`), else as `confidence_curve` takes them."""
        options: dict[str, Any] = {
            "n_bins": n_bins, "strategy": strategy, "level": level, "band": band,
            "sample_weight": sample_weight, "groups": groups,
        }  # fmt: skip
        if not isinstance(y_prob, tuple) and np.ndim(y_prob) == 1:
            curve = calibration_curve(y_true, y_prob, pos_label=pos_label, **options)
        else:
            curve = confidence_curve(y_true, y_prob, labels=labels, **options)
        return cls(curve).plot(ax=ax, name=name, **style)  # type: ignore[no-any-return]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> ReliabilityDisplay:
        """From a fitted classifier: the probability of its second class of two, else of its label.

        Options as in `from_predictions`; `name` is the classifier's by default.
        """
        if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
            raise CJEError("the estimator must be a fitted classifier with predict_proba",
                           value=estimator)  # fmt: skip
        shown = type(estimator).__name__ if name is None else name
        classes = np.asarray(estimator.classes_)
        if hasattr(estimator, "predict_top_label"):
            prediction: Any = estimator.predict_top_label(X)
        else:
            prediction = np.asarray(estimator.predict_proba(X))
        if len(classes) == 2 and not isinstance(prediction, tuple):
            options = {"pos_label": classes[1]} | options
            return cls.from_predictions(y, prediction[:, 1], name=shown, **options)
        if not isinstance(prediction, tuple):
            options = {"labels": classes} | options
        return cls.from_predictions(y, prediction, name=shown, **options)


def calibration_scorer(metric: Metric, **options: Any) -> Any:
    """A scikit-learn scorer of one metric, for ``scoring=`` of searches and cross-validation.

    Greater is better, so the scorer is minus the metric. Metrics of many classes get the labels
    from the classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from cje.classification import multiclass_log_loss
    >>> scorer = calibration_scorer(multiclass_log_loss)
    >>> X, y = load_iris(return_X_y=True)
    >>> bool((cross_val_score(LogisticRegression(max_iter=500), X, y, scoring=scorer) < 0).all())
    True
    """
    if entry_of(metric).kind == "binary":
        return make_scorer(
            metric, response_method="predict_proba", greater_is_better=False, **options
        )

    def score(estimator: Any, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        return -metric(
            y, estimator.predict_proba(X), labels=estimator.classes_,
            sample_weight=sample_weight, **options,
        )  # fmt: skip

    return score
