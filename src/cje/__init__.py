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
    raise AttributeError(f"module 'cje' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _explain_clash() -> None:
    """Warn where the unrelated distribution `cje-eval`, which also installs `cje`, is present."""
    import os
    import sys

    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue  # sys.path may name zip files and folders that are not there
        if any(name.startswith("cje_eval-") and name.endswith(".dist-info") for name in entries):
            import warnings

            warnings.warn(
                "The distribution 'cje-eval' is installed in this environment and also provides "
                f"the import name 'cje'. The module in use is {__file__}. "
                "Keep the two in separate environments, or run: pip uninstall cje-eval",
                stacklevel=3,
            )
            return


_explain_clash()
