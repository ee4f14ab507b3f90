"""A recalibration map as data: fitted on predictions, saved as JSON, applied anywhere.

Each map is a line through knots, constant outside them: exact for isotonic calibration, and with
201 knots within rounding of any smooth one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_probabilities, float_array
from cje.classification._labels import TopLabels, label_array, lookup
from cje.classification.calibrators import apply_calibrator, resolve_calibrator
from cje.classification.m2b import fit_top_label
from cje.classification.rows import Rows
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["RecalibrationMap"]

_VERSION = 1
_GRID = np.linspace(0.0, 1.0, 201)
Knots = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class RecalibrationMap:
    """Maps from a confidence to a calibrated one, one per predicted label.

    Parameters
    ----------
    labels : list
        Labels with a map each; one entry, None, where a single map serves all rows.
    knots : list of (x, y)
        Scores and calibrated probabilities.
    calibrator : str
        How the maps were fitted.

    Examples
    --------
    >>> saved = RecalibrationMap([None], [(np.array([0.0, 1.0]), np.array([0.1, 0.9]))], "sigmoid")
    >>> saved.predict([0.5]).tolist()
    [0.5]
    """

    labels: list[Any]
    knots: list[Knots]
    calibrator: str

    @classmethod
    def fit(
        cls, rows: Rows, calibrator: str = "isotonic", min_count: float = 20
    ) -> RecalibrationMap:
        """From checked rows of kind ``"top"`` (a map per label) or ``"binary"`` (one map)."""
        if rows.kind == "classes":
            raise CJEError("a recalibration map is for a score, or for a predicted label")
        one = np.zeros(len(rows), dtype=np.int64)
        top = rows.top if rows.kind == "top" else TopLabels(one, rows.p, rows.y, np.array([None]))
        k = len(top.names)
        right = np.where(top.right > 0.0, top.label, -1)
        few = min_count if rows.kind == "top" else 0.0
        unfitted = resolve_calibrator(calibrator, max(k, 2))
        fitted = fit_top_label(top.label, top.score, right, k, rows.w, unfitted, few)
        knots = []
        for one_map in fitted.by_class:
            x = np.asarray(getattr(one_map, "x_knots_", _GRID), dtype=np.float64)
            knots.append((x, apply_calibrator(one_map, x)))
        return cls(top.names.tolist(), knots, calibrator)

    def predict(self, scores: ArrayLike, labels: ArrayLike | None = None) -> FloatArray:
        """Calibrated probabilities of scores; of (label, score) pairs where maps have labels."""
        p = check_probabilities("scores", scores)
        if self.labels == [None]:
            return np.asarray(np.interp(p, *self.knots[0]))
        if labels is None:
            raise CJEError("this map depends on the predicted label", hint="pass labels=")
        codes = lookup(label_array(labels, "labels"), np.asarray(self.labels))
        if len(codes) != len(p):
            raise CJEError("scores and labels differ in length", value=(len(p), len(codes)))
        out = np.empty(len(p))
        for k, (x, y) in enumerate(self.knots):
            out[codes == k] = np.interp(p[codes == k], x, y)
        return out

    def to_json(self) -> dict[str, Any]:
        """The map as plain JSON types."""
        maps = [
            {"label": label, "x": x.tolist(), "y": y.tolist()}
            for label, (x, y) in zip(self.labels, self.knots, strict=True)
        ]
        return {"format": "cje-recalibration", "version": _VERSION,
                "calibrator": self.calibrator, "maps": maps}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecalibrationMap:
        """The inverse of `to_json`.

        Raises
        ------
        CJEError
            Another format or version, or knots that do not increase.
        """
        if not isinstance(data, Mapping) or data.get("format") != "cje-recalibration":
            raise CJEError("this is not a recalibration map", value=data)
        if data.get("version") != _VERSION:
            raise CJEError("a recalibration map of another version", value=data.get("version"))
        try:
            parts = [(m["label"], m["x"], m["y"]) for m in data["maps"]]
            name = str(data["calibrator"])
        except (KeyError, TypeError) as error:
            raise CJEError("a recalibration map lacks a field", value=data) from error
        knots = []
        for _, x, y in parts:
            at, value = float_array("x", x), check_probabilities("y", y)
            if at.ndim != 1 or len(at) != len(value) or not len(at) or (np.diff(at) <= 0.0).any():
                raise CJEError("the knots of a recalibration map must increase", value=x)
            knots.append((at, value))
        return cls([label for label, _, _ in parts], knots, name)

    def save(self, path: str | Path) -> None:
        """Write the map as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> RecalibrationMap:
        """Read a map that `save` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CJEError("cannot read a recalibration map", where=str(path)) from error
        return cls.from_json(data)
