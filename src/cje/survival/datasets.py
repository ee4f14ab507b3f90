"""Real data sets that ship inside lifelines and scikit-survival, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.errors import CJEError, require_extra
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = ["DATASETS", "RealData", "load_dataset"]

DATASETS = ("rossi", "gbsg2", "flchain", "whas500", "veterans")


@dataclass(frozen=True)
class RealData:
    """A data set with numeric covariates; categories are one-hot without their first level."""

    name: str
    x: FloatArray
    columns: tuple[str, ...]
    time: FloatArray
    event: BoolArray
    note: str = ""


def load_dataset(name: str) -> RealData:
    """Load one of `DATASETS`.

    flchain: the column `chapter` (cause of death, known only after it) and `creatinine` (missing
    for one in six) are left out, and follow-up of zero days is kept.
    """
    if name not in DATASETS:
        raise CJEError("unknown data set", where="name", value=name,
                       hint=f"use one of {', '.join(DATASETS)}")  # fmt: skip
    if name == "rossi":
        frame = require_extra("lifelines.datasets", "survival", "rossi").load_rossi()
        outcome = frame[["week", "arrest"]].to_numpy(dtype=float)
        frame = frame.drop(columns=["week", "arrest"])
        return _numeric(name, frame, outcome[:, 0], outcome[:, 1] == 1)
    module = require_extra("sksurv.datasets", "survival", name)
    loader = {
        "gbsg2": "load_gbsg2",
        "flchain": "load_flchain",
        "whas500": "load_whas500",
        "veterans": "load_veterans_lung_cancer",
    }[name]
    frame, outcome = getattr(module, loader)()
    status, follow_up = outcome.dtype.names
    note = ""
    if name == "flchain":
        frame = frame.drop(columns=["chapter", "creatinine"])
        note = "without chapter and creatinine"
    time = outcome[follow_up].astype(float)
    return _numeric(name, frame, time, outcome[status].astype(bool), note)


def _numeric(name: str, frame: Any, time: FloatArray, event: BoolArray, note: str = "") -> RealData:
    pandas = require_extra("pandas", "survival", name)
    wide = pandas.get_dummies(frame, drop_first=True, dtype=float)
    x = wide.to_numpy(dtype=np.float64)
    if not np.isfinite(x).all():
        raise CJEError("the data set has missing covariates", where=name)
    return RealData(name, x, tuple(map(str, wide.columns)), time, event, note)
