"""Calibrated judge evaluation: is the new one better, by how much, and how sure are we?

The names in ``__all__`` are the ones that most programs need; every other public name lives in its
package (``cje.survival``, ``cje.classification``, ...). All load on first use, so that
``import cje`` costs no more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cje._version import __version__
from cje.errors import CJEError

if TYPE_CHECKING:
    from cje import simulate as simulate
    from cje.analysis import analyze_dataset as analyze_dataset
    from cje.analysis.doctor import examine as examine
    from cje.analysis.drift import drift as drift
    from cje.analysis.gate import gate as gate
    from cje.analysis.judge_report import judge_report as judge_report
    from cje.analysis.label_plan import Goal as Goal
    from cje.analysis.monitor import monitor as monitor
    from cje.analysis.pilot import plan_from_pilot as plan_from_pilot
    from cje.classification import TopLabelCalibrator as TopLabelCalibrator
    from cje.classification import assess as assess
    from cje.data import Dataset as Dataset
    from cje.data import JudgeScore as JudgeScore
    from cje.data import PrecomputedSampler as PrecomputedSampler
    from cje.data import read as read
    from cje.estimators import CalibratedIPS as CalibratedIPS
    from cje.inference import GateRule as GateRule
    from cje.results import EstimationResult as EstimationResult
    from cje.survival import survival_report as survival_report

# Public name -> the module that defines it. Loaded on first use.
_HOME = {
    "CalibratedIPS": "cje.estimators",
    "Dataset": "cje.data",
    "EstimationResult": "cje.results",
    "GateRule": "cje.inference",
    "Goal": "cje.analysis.label_plan",
    "JudgeScore": "cje.data",
    "PrecomputedSampler": "cje.data",
    "TopLabelCalibrator": "cje.classification",
    "analyze_dataset": "cje.analysis",
    "assess": "cje.classification",
    "drift": "cje.analysis.drift",
    "examine": "cje.analysis.doctor",
    "gate": "cje.analysis.gate",
    "judge_report": "cje.analysis.judge_report",
    "monitor": "cje.analysis.monitor",
    "plan_from_pilot": "cje.analysis.pilot",
    "read": "cje.data",
    "survival_report": "cje.survival",
}
# Reachable as attributes without an import of their own: cje.survival.uno_c
_PACKAGES = {
    "analysis", "calibration", "classification", "data", "diagnostics", "estimators", "findings",
    "inference", "judges", "kernels", "label", "models", "pipeline", "policies", "report",
    "results", "simulate", "survival", "uncertainty",
}  # fmt: skip

__all__ = ["CJEError", "__version__", "simulate", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"cje.{name}")
    from cje._clash import clash_message

    clash = clash_message()
    raise AttributeError(
        f"module 'cje' has no attribute {name!r}" + (f". {clash}" if clash else "")
    )


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
