"""Monotone or two-stage? The out-of-fold comparison behind ``calibration_mode="auto"``.

Let d_i be the monotone model's out-of-fold squared error minus the two-stage model's on row i.
Two-stage is chosen only if it is *demonstrably* better:

- overall: mean(d) exceeds one standard error of mean(d) (the one-standard-error rule), or
- by region: in at least two of the low, middle and high thirds of the score, mean(d) exceeds one
  standard error *of that region's* mean.

Counting a region as better whenever mean(d) > 0 would be a coin toss on a monotone judge.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.kernels.arrays import FloatArray
from cje.kernels.ranks import ecdf_fit, ecdf_predict

__all__ = ["MIN_LABELS_TWO_STAGE", "ModeSelection", "monotone_suffices", "select_mode"]

MIN_LABELS_TWO_STAGE = 20
REGIONS = ("low", "mid", "high")
REGIONS_NEEDED = 2
_SCAN_BINS = 10


@dataclass(frozen=True)
class ModeSelection:
    """The chosen mode, the reason as text, and the numbers behind it."""

    mode: str
    reason: str
    two_stage_trained: bool
    monotone_rmse: float | None = None
    two_stage_rmse: float | None = None
    gain: float | None = None  # mean of d
    gain_se: float | None = None
    regions: tuple[dict[str, Any], ...] = ()

    @classmethod
    def forced(cls, mode: str) -> ModeSelection:
        """The caller requested the mode."""
        return cls(mode, f"calibration_mode={mode!r} was requested", mode == "two_stage")

    @classmethod
    def too_few(cls, n_labels: int) -> ModeSelection:
        """Too few labels for a spline."""
        reason = (
            f"{n_labels} labels are fewer than the {MIN_LABELS_TWO_STAGE} a two-stage fit needs; "
            "monotone instead"
        )
        return cls("monotone", reason, False)

    @classmethod
    def no_folds(cls) -> ModeSelection:
        """There are no folds to compare the modes on."""
        return cls(
            "monotone",
            "no folds to compare the modes on; monotone, the simpler mode, is used",
            False,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"regions": list(self.regions)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModeSelection:
        """The inverse of `to_dict`."""
        return cls(**(data | {"regions": tuple(data["regions"])}))


def select_mode(
    scores: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    monotone: FloatArray,
    two_stage: FloatArray,
) -> ModeSelection:
    """Apply the rule of the module's docstring to out-of-fold predictions of both modes."""
    error_m, error_t = (labels - monotone) ** 2, (labels - two_stage) ** 2
    difference = error_m - error_t
    gain, se = _mean_and_se(difference, weights)
    regions = tuple(
        _judge_region(name, difference[rows], weights[rows])
        for name, rows in zip(REGIONS, _thirds(scores, weights), strict=True)
    )
    n_better = sum(region["better"] for region in regions)
    numbers: dict[str, Any] = {
        "monotone_rmse": _rms(error_m, weights),
        "two_stage_rmse": _rms(error_t, weights),
        "gain": gain,
        "gain_se": se,
        "regions": regions,
    }
    counted = f"two-stage better beyond one standard error in {n_better} of {len(REGIONS)} regions"
    if gain > se:
        reason = f"two-stage lowers the out-of-fold squared error by {gain:.2g} (se {se:.2g})"
        return ModeSelection("two_stage", f"{reason}; {counted}", True, **numbers)
    if n_better >= REGIONS_NEEDED:
        return ModeSelection("two_stage", counted, True, **numbers)
    reason = f"two-stage gains {gain:.2g} (se {se:.2g}) overall, within one standard error"
    return ModeSelection("monotone", f"{reason}; {counted}", True, **numbers)


def monotone_suffices(
    scores: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    fitted: FloatArray,
    oof: FloatArray,
) -> ModeSelection | None:
    """A verdict without training the two-stage models, or None if they must be trained.

    If the relation is monotone, the residuals of the isotonic fit average to nothing over any range
    of scores. The residuals' means over ten equal-mass ranges, in units of their standard errors,
    are squared and summed; isotonic blocks force most of them near zero, so a sum below half the
    number of ranges leaves nothing for a spline to find.
    """
    rank = ecdf_predict(*ecdf_fit(scores, weights), scores)
    bins = np.minimum((rank * _SCAN_BINS).astype(np.int64), _SCAN_BINS - 1)
    residual = labels - fitted
    total = np.bincount(bins, weights * residual, minlength=_SCAN_BINS)
    noise = np.bincount(bins, (weights * residual) ** 2, minlength=_SCAN_BINS)
    live = noise > 0
    statistic = float(np.sum(total[live] ** 2 / noise[live]))
    if statistic > 0.5 * _SCAN_BINS:
        return None
    reason = (
        "the isotonic fit leaves no pattern in its residuals "
        f"(sum of {int(live.sum())} squared z-scores {statistic:.2g}); two-stage not trained"
    )
    rmse = _rms((labels - oof) ** 2, weights)
    return ModeSelection("monotone", reason, False, monotone_rmse=rmse)


def _judge_region(name: str, difference: FloatArray, weights: FloatArray) -> dict[str, Any]:
    gain, se = _mean_and_se(difference, weights)
    return {"region": name, "gain": gain, "se": se, "better": bool(gain > se)}


def _thirds(scores: FloatArray, weights: FloatArray) -> list[NDArray[np.bool_]]:
    """Low, middle and high thirds of the weight; equal scores stay together."""
    rank = ecdf_predict(*ecdf_fit(scores, weights), scores)
    third = np.minimum((rank * 3).astype(np.int64), 2)
    return [third == k for k in range(3)]


def _mean_and_se(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    total = weights.sum()
    n = int(np.count_nonzero(weights))
    if n < 2:
        return 0.0, 0.0
    mean = float(np.sum(weights * values) / total)
    spread = np.sum((weights * (values - mean)) ** 2) / total**2
    return mean, float(np.sqrt(spread * n / (n - 1)))


def _rms(squared: FloatArray, weights: FloatArray) -> float:
    return float(np.sqrt(np.sum(weights * squared) / weights.sum()))
