"""The binary calibrators by name, and one way to fit and apply any of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from cje.classification.parametric import (
    BetaCalibrator,
    SigmoidCalibrator,
    TemperatureCalibrator,
)
from cje.classification.stepwise import (
    CenteredIsotonicCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
)
from cje.classification.venn_abers import VennAbersCalibrator
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["CALIBRATORS", "Calibrator", "apply_calibrator", "fit_calibrator", "resolve_calibrator"]


class Calibrator(Protocol):
    """Anything with `fit(scores, y)` and `predict(scores)`."""

    def fit(self, scores: ArrayLike, y: ArrayLike) -> Any: ...

    def predict(self, scores: ArrayLike) -> Any: ...


CALIBRATORS: dict[str, type] = {
    "sigmoid": SigmoidCalibrator,
    "isotonic": IsotonicCalibrator,
    "centered_isotonic": CenteredIsotonicCalibrator,
    "beta": BetaCalibrator,
    "histogram": HistogramCalibrator,
    "temperature": TemperatureCalibrator,
    "venn_abers": VennAbersCalibrator,
}
_OWN = tuple(CALIBRATORS.values())


def resolve_calibrator(calibrator: Any, n_classes: int = 2) -> Calibrator:
    """A name of `CALIBRATORS`, or an object with fit and predict, as an unfitted calibrator.

    `n_classes` matters to temperature scaling alone, whose fixed point it sets.
    """
    if isinstance(calibrator, str):
        if calibrator not in CALIBRATORS:
            raise CJEError(
                "unknown calibrator", value=calibrator, hint=f"one of {', '.join(CALIBRATORS)}"
            )
        if calibrator == "temperature":
            return TemperatureCalibrator(n_classes)
        return CALIBRATORS[calibrator]()  # type: ignore[no-any-return]
    methods = (getattr(calibrator, name, None) for name in ("fit", "predict"))
    if isinstance(calibrator, type) or not all(callable(method) for method in methods):
        raise CJEError(
            "a calibrator is a name or an object with fit(scores, y) and predict(scores)",
            value=calibrator,
        )
    return calibrator  # type: ignore[no-any-return]


def fit_calibrator(
    calibrator: Calibrator, scores: FloatArray, outcome: FloatArray, w: FloatArray | None
) -> Calibrator:
    """A fitted copy of `calibrator`; objects from elsewhere get the scores as a column."""
    fitted = clone(calibrator, safe=False)
    x = scores if isinstance(fitted, _OWN) else scores[:, None]
    if w is None:
        fitted.fit(x, outcome)
    elif has_fit_parameter(fitted, "sample_weight"):
        fitted.fit(x, outcome, sample_weight=w)
    else:
        raise CJEError(
            "sample_weight was given, but the calibrator's fit does not take it", value=calibrator
        )
    return fitted  # type: ignore[no-any-return]


def apply_calibrator(fitted: Calibrator, scores: FloatArray) -> FloatArray:
    """Calibrated probabilities in [0, 1]: `predict_proba`'s last column where there is one."""
    if isinstance(fitted, _OWN):
        return np.asarray(fitted.predict(scores))
    if hasattr(fitted, "predict_proba"):
        values = np.asarray(fitted.predict_proba(scores[:, None]), dtype=np.float64)[:, -1]
    else:
        values = np.asarray(fitted.predict(scores[:, None]), dtype=np.float64).reshape(-1)
    if values.shape != scores.shape or not np.isfinite(values).all():
        raise CJEError("the calibrator must return one finite number per row", value=fitted)
    return np.clip(values, 0.0, 1.0)
