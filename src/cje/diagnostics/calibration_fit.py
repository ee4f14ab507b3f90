"""How well judge -> oracle fits out of fold: R2, and residuals by region of the score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.labels import CALIBRATION_RESIDUAL, LOW_CALIBRATION_R2
from cje.inference import benjamini_hochberg
from cje.kernels.arrays import FloatArray

__all__ = ["CalibrationFit", "RegionResidual", "calibration_fit"]


@dataclass(frozen=True)
class RegionResidual:
    """Mean out-of-fold residual in one region of the judge score."""

    name: str
    low: float
    high: float
    n: int
    mean: float
    standard_error: float
    p_adjusted: float


@dataclass(frozen=True)
class CalibrationFit:
    """Out-of-fold quality of a calibration on its labelled rows."""

    n_labels: int
    r2: float
    rmse: float
    regions: tuple[RegionResidual, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"regions": [asdict(r) for r in self.regions]}

    def findings(self, width: float = 1.0) -> list[Finding]:
        """Low R2, and regions with biased calibration; `width` is that of the labels' scale."""
        found = []
        if self.r2 < LOW_CALIBRATION_R2["r2"]:
            found.append(
                LOW_CALIBRATION_R2.finding(
                    kind="out-of-fold", r2=self.r2, n_labels=self.n_labels, details=self.to_dict()
                )
            )
        found += [
            CALIBRATION_RESIDUAL.finding(
                region=region.name, mean=width * region.mean, n=region.n, details=asdict(region)
            )
            for region in self.regions
            if region.p_adjusted < CALIBRATION_RESIDUAL["p_value"]
            and abs(region.mean) > CALIBRATION_RESIDUAL["residual"]
        ]
        return found


def calibration_fit(
    scores: FloatArray,
    labels: FloatArray,
    out_of_fold: FloatArray,
    weights: FloatArray | None = None,
) -> CalibrationFit:
    r"""Summarise residuals Y - f(S) of out-of-fold predictions.

    :math:`R^2 = 1 - \sum w e^2 / \sum w (Y - \bar Y)^2`. Regions are the thirds of the labelled
    scores; their mean residuals are tested against zero, adjusted by Benjamini-Hochberg.
    """
    from scipy.special import ndtr

    n = len(labels)
    if n < 2 or len(scores) != n or len(out_of_fold) != n:
        raise CJEError("calibration fit needs at least two labels with predictions", value=n)
    w = np.ones(n) if weights is None else weights
    error = labels - out_of_fold
    centred = labels - np.average(labels, weights=w)
    total, residual = float(w @ centred**2), float(w @ error**2)
    r2 = 1.0 - residual / total if total > 0 else 0.0
    edges = np.quantile(scores, [1 / 3, 2 / 3])
    region = np.searchsorted(edges, scores, side="left")
    parts, z = [], []
    for k, name in enumerate(("low", "middle", "high")):
        rows = region == k
        if rows.sum() < 5:
            continue
        mean = float(np.average(error[rows], weights=w[rows]))
        share = w[rows] / w[rows].sum()
        se = float(np.sqrt(np.sum((share * (error[rows] - mean)) ** 2)))
        parts.append((name, float(scores[rows].min()), float(scores[rows].max()),
                      int(rows.sum()), mean, se))  # fmt: skip
        z.append(abs(mean) / se if se > 0 else 0.0)
    adjusted: Any = benjamini_hochberg(2.0 * ndtr(-np.asarray(z))) if parts else []
    regions = tuple(RegionResidual(*p, float(q)) for p, q in zip(parts, adjusted, strict=True))
    return CalibrationFit(n, r2, float(np.sqrt(residual / w.sum())), regions)
