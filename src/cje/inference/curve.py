"""`CalibrationCurve`: predicted against observed, with a band; for every kind of score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CalibrationCurve"]


@dataclass(frozen=True)
class CalibrationCurve:
    """Observed outcome as a function of the score, with a confidence band and counts.

    Parameters
    ----------
    x : array (m,)
        Score or predicted probability, increasing.
    observed : array (m,)
        Estimated mean outcome at `x`.
    low, high : array (m,), optional
        Band at `level`; `band` says whether it is pointwise or simultaneous.
    counts : array (m,), optional
        Rows (or weight) behind each point.
    level : float
        Nominal coverage of the band.
    band : str
        ``"pointwise"``, ``"simultaneous"`` or ``"none"``.
    x_label, y_label, title : str
        Texts of its plot.
    reference : bool
        Draw the diagonal (x and the outcome share a scale).
    """

    x: FloatArray
    observed: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    counts: FloatArray | None = None
    level: float = 0.95
    band: str = "none"
    x_label: str = "score"
    y_label: str = "observed"
    title: str = ""
    reference: bool = True

    def __post_init__(self) -> None:
        for name in ("x", "observed", "low", "high", "counts"):
            value = getattr(self, name)
            if value is None:
                continue
            array = np.ascontiguousarray(value, dtype=np.float64)
            if array.ndim != 1 or len(array) != len(self.x):
                raise CJEError(
                    f"CalibrationCurve: {name} must be one value per x", value=array.shape
                )
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.x)

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain JSON types."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.__dict__.items()
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CalibrationCurve:
        """The inverse of `to_dict`."""
        arrays = {"x", "observed", "low", "high", "counts"}
        fields: dict[str, Any] = {
            k: np.asarray(v) if k in arrays and v is not None else v for k, v in data.items()
        }
        for name in ("band", "x_label", "y_label", "title"):
            if not isinstance(fields.get(name, ""), str):
                raise ValueError(f"{name} of a curve is not text")
        return cls(**fields)

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the curve on a matplotlib axes (a new one by default) and return it."""
        from cje.inference._plot import draw_curve

        return draw_curve(self, ax=ax, **style)
