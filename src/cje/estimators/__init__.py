"""Policy-value estimators: naive, direct, IPS, doubly robust, stacked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cje.estimators.comparison import BestPolicy as BestPolicy
    from cje.estimators.comparison import Comparison as Comparison
    from cje.estimators.direct import DirectEstimator as DirectEstimator
    from cje.estimators.naive import NaiveEstimator as NaiveEstimator
    from cje.estimators.registry import REGISTRY as REGISTRY
    from cje.estimators.registry import find_estimator as find_estimator
    from cje.estimators.result import EstimationResult as EstimationResult

# Public name -> module. Loaded on first use: most sessions need one estimator.
_HOME = {
    "REGISTRY": "registry",
    "BestPolicy": "comparison",
    "Comparison": "comparison",
    "DirectEstimator": "direct",
    "EstimationResult": "result",
    "NaiveEstimator": "naive",
    "find_estimator": "registry",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"cje.estimators.{_HOME[name]}"), name)
    raise AttributeError(f"module 'cje.estimators' has no attribute {name!r}")
