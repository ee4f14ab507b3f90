"""Checked survival data: the one place where times, events, weights and horizons are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    LARGEST,
    check_number,
    check_probabilities,
    check_weights,
    finite_array,
    refuse_rows,
)
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = [
    "SMALLEST_SHARE",
    "SurvivalSample",
    "censoring_reference",
    "check_events",
    "check_frac",
    "check_horizon",
    "check_informative",
    "check_matrix",
    "check_scores",
    "check_times",
    "open_unit",
    "survival_sample",
]

SMALLEST_SHARE = 1e-12  # of the largest weight; what is less is lost when they are added up


@dataclass(frozen=True)
class SurvivalSample:
    """Follow-up times, event indicators and weights, all finite and of one length.

    `weight` is None where every row counts once.
    """

    time: FloatArray
    event: BoolArray
    weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def mass(self) -> FloatArray:
        """The weights, ones where none were given."""
        return np.ones(len(self.time)) if self.weight is None else self.weight

    @property
    def n_events(self) -> int:
        """Rows with an observed event."""
        return int(self.event.sum())

    @property
    def counted(self) -> BoolArray:
        """Rows with weight."""
        return np.ones(len(self.time), dtype=bool) if self.weight is None else self.weight > 0

    def median_event_time(self) -> float:
        """(Weighted) median of the observed event times: the default horizon."""
        times = self.time[self.event]
        if self.weight is None:
            return float(np.median(times))
        order = np.argsort(times)
        times, share = times[order], np.cumsum(self.weight[self.event][order])
        half = share[-1] / 2  # where the weight is cut exactly in half, the middle of the two
        low = np.searchsorted(share, half * (1 - 1e-12), side="left")
        high = np.searchsorted(share, half * (1 + 1e-12), side="right")
        return float((times[low] + times[high]) / 2)


def check_events(values: ArrayLike, n: int | None = None) -> BoolArray:
    """Event indicators as booleans: 1 = event, 0 = censored."""
    array = finite_array("event_indicators", values, n=n)
    if len(array) == 0:
        raise CJEError("there are no rows")
    bad = np.flatnonzero((array != 0) & (array != 1))
    if len(bad):
        raise CJEError(
            "event_indicators must be 0 (censored) or 1 (event)",
            where=f"row {bad[0]}",
            value=float(array[bad[0]]),
            hint="competing events need a model of their own; recode them as censored on purpose",
        )
    return np.asarray(array == 1)


def check_scores(values: ArrayLike, n: int) -> tuple[FloatArray, float]:
    """Risk scores that differ, and their standard deviation, by which a fit is scaled."""
    score = finite_array("risk_scores", values, n=n)
    refuse_rows(
        score,
        np.abs(score) > LARGEST,
        "risk_scores are too large to be log-hazards",
        "from_survival gives scores on that scale",
    )
    spread = float(score.std())
    if not spread > 1e-12 * max(1.0, float(np.abs(score).max())):
        raise CJEError(
            "every risk score is the same: the calibration slope is not defined",
            where="risk_scores",
            value=float(score[0]),
        )
    return score, spread


def survival_sample(
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    need_events: bool = True,
) -> SurvivalSample:
    """Check follow-up data once, at the boundary.

    Raises
    ------
    CJEError
        Negative or non-finite times, indicators other than 0/1, unequal lengths, no rows; no event
        or a single subject where `need_events`.
    """
    time = finite_array("event_times", event_times)
    event = check_events(event_indicators, len(time))
    weight = check_weights("sample_weight", sample_weight, len(time), smallest_share=SMALLEST_SHARE)
    bad = np.flatnonzero(time < 0)
    if len(bad):
        raise CJEError(
            "event_times must not be negative", where=f"row {bad[0]}", value=float(time[bad[0]])
        )
    refuse_rows(time, time > LARGEST, "event_times are too large", "count in a larger unit of time")
    if need_events:
        check_informative(event, weight)
    return SurvivalSample(time, event, weight)


def censoring_reference(
    given: tuple[ArrayLike, ArrayLike] | None,
) -> SurvivalSample | None:
    """The (times, events) whose censoring distribution is to be used, checked; None stays None."""
    if given is None:
        return None
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise CJEError("censoring_sample must be a pair (times, events)", value=given)
    return survival_sample(*given, need_events=False)


def check_informative(event: BoolArray, weight: FloatArray | None) -> None:
    """At least one event and two subjects: less says nothing about calibration."""
    counted = np.ones(len(event), dtype=bool) if weight is None else weight > 0
    if not (event & counted).any():
        raise CJEError(
            "there are no events: calibration cannot be assessed",
            value=f"{len(event)} rows",
            hint="check that event_indicators marks events with 1",
        )
    if int(counted.sum()) < 2:
        raise CJEError("one subject says nothing about calibration", value=f"{len(event)} rows")


def check_horizon(horizon: Any, sample: SurvivalSample, where: str = "time_horizon") -> float:
    """A positive horizon inside the follow-up; None means the median event time."""
    if horizon is None:
        return sample.median_event_time()
    t = check_number("the horizon", horizon, where=where)
    counted = sample.counted
    last = float(sample.time[counted].max())
    if t <= 0 or t > last:
        raise CJEError(
            "the horizon must be positive and inside the follow-up",
            where=where,
            value=t,
            hint=f"choose one in (0, {last:.6g}]; nothing was observed later",
        )
    events = sample.time[sample.event & counted]
    if events.min() > t:
        raise CJEError(
            "no event was observed by the horizon",
            where=where,
            value=t,
            hint=f"the first event is at {events.min():.6g}",
        )
    return t


def check_times(times: ArrayLike, sample: SurvivalSample) -> FloatArray:
    """An increasing grid of at least two times inside the follow-up."""
    grid = finite_array("times", times)
    if len(grid) < 2 or np.any(np.diff(grid) <= 0):
        raise CJEError("times must be at least two and increasing", where="times", value=grid)
    if grid[0] < 0 or grid[-1] > sample.time.max():
        raise CJEError("times must lie inside the follow-up", where="times",
                       value=(float(grid[0]), float(grid[-1])),
                       hint=f"the last observed time is {sample.time.max():.6g}")  # fmt: skip
    return grid


def check_matrix(survival: ArrayLike, sample: SurvivalSample, grid: FloatArray) -> FloatArray:
    """A matrix of survival probabilities, one row a subject and one column a time."""
    matrix = check_probabilities("survival_probs", survival, n=len(sample), ndim=2)
    if matrix.shape != (len(sample), len(grid)):
        raise CJEError(
            "survival_probs must have one row a subject and one column a time",
            value=matrix.shape, hint=f"expected {(len(sample), len(grid))}",
        )  # fmt: skip
    return matrix


def check_frac(frac: float) -> float:
    """A smoothing share in (0, 1]."""
    if not isinstance(frac, (int, float, np.integer, np.floating)) or not 0 < frac <= 1:
        raise CJEError("the smoothing share must lie in (0, 1]", where="frac", value=frac)
    return float(frac)


def open_unit(probability: FloatArray) -> FloatArray:
    """Probabilities with exact 0 and 1 moved inside, so that logarithms are finite.

    A 0 becomes the smaller of the smallest positive value and 1/(2n), the finest statement that n
    rows support; a 1 likewise. Order is kept.
    """
    n = len(probability)
    inside = probability[(probability > 0) & (probability < 1)]
    low = min(float(inside.min()) if len(inside) else 1.0, 0.5 / n)
    high = max(float(inside.max()) if len(inside) else 0.0, 1.0 - 0.5 / n)
    return np.where(probability == 0, low, np.where(probability == 1, high, probability))
