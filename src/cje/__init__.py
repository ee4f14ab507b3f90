"""Calibrated judge evaluation: is the new one better, by how much, and how sure are we?

Public names load on first use, so that ``import cje`` costs no more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cje._version import __version__
from cje.errors import CJEError

if TYPE_CHECKING:
    from cje import simulate as simulate
    from cje.analysis import analyze_dataset as analyze_dataset
    from cje.data import Dataset as Dataset
    from cje.data import JudgeScore as JudgeScore
    from cje.data import PrecomputedSampler as PrecomputedSampler
    from cje.data import read as read
    from cje.estimators import CalibratedIPS as CalibratedIPS
    from cje.results import EstimationResult as EstimationResult

_HOME = {
    "analyze_dataset": "cje.analysis",
    "Dataset": "cje.data",
    "JudgeScore": "cje.data",
    "PrecomputedSampler": "cje.data",
    "read": "cje.data",
    "CalibratedIPS": "cje.estimators",
    "EstimationResult": "cje.results",
}
_SUBMODULES = {
    "analysis", "calibration", "classification", "data", "diagnostics", "estimators", "inference",
    "judges", "kernels", "models", "pipeline", "policies", "report", "results", "simulate",
    "survival", "uncertainty",
}  # fmt: skip

__all__ = ["CJEError", "__version__", *sorted(_HOME), *sorted(_SUBMODULES)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"cje.{name}")
    from cje._clash import clash_message

    clash = clash_message()
    raise AttributeError(
        f"module 'cje' has no attribute {name!r}" + (f". {clash}" if clash else "")
    )


def __dir__() -> list[str]:
    return sorted(__all__)
