"""Top-label calibration of classifiers and calibration metrics (seed 004).

Names load on first use: the metrics need NumPy and SciPy alone, the estimators scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "BetaCalibrator": "parametric",
    "SigmoidCalibrator": "parametric",
    "TemperatureCalibrator": "parametric",
    "CenteredIsotonicCalibrator": "stepwise",
    "HistogramCalibrator": "stepwise",
    "IsotonicCalibrator": "stepwise",
    "VennAbersCalibrator": "venn_abers",
    "ClassWiseCalibrator": "estimators",
    "ConfidenceCalibrator": "estimators",
    "TopLabelCalibrator": "estimators",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"cje.classification.{_HOME[name]}"), name)
    raise AttributeError(f"module 'cje.classification' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
