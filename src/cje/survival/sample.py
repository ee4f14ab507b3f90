"""Checked survival data: the one place where times, events, weights and horizons are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data.arrays import float_array
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = [
    "SurvivalSample",
    "censoring_reference",
    "check_choice",
    "check_count",
    "check_events",
    "check_frac",
    "check_horizon",
    "check_informative",
    "check_matrix",
    "check_number",
    "check_probabilities",
    "check_real",
    "check_scores",
    "check_seed",
    "check_times",
    "check_weights",
    "open_unit",
    "survival_sample",
]

_LARGEST_FLOAT = float(np.finfo(np.float64).max)
_LARGEST = 1e100  # squares and products of times, weights and scores stay finite
_SMALLEST_SHARE = 1e-12  # of the largest weight; what is less is lost when they are added up


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


def check_real(values: ArrayLike, name: str, *, n: int | None = None, ndim: int = 1) -> FloatArray:
    """`values` as a finite float array of `ndim` dimensions, or an error naming the first bad row.

    `n` is the number of rows it must have.
    """
    given = float_array(name, values)
    if given.ndim != ndim:
        shape = "one dimension" if ndim == 1 else "rows and columns"
        raise CJEError(f"{name} must have {shape}", value=given.shape)
    array = np.ascontiguousarray(given)
    if n is not None and len(array) != n:
        raise CJEError(f"{name} must have one value per row", value=f"{len(array)} for {n} rows")
    _refuse(
        array,
        ~np.isfinite(array),
        f"{name} must be finite",
        "drop or repair these rows first; nothing is dropped silently",
    )
    return array


def check_probabilities(
    values: ArrayLike, name: str, n: int | None = None, *, ndim: int = 1
) -> FloatArray:
    """`values` as probabilities in [0, 1]."""
    array = check_real(values, name, n=n, ndim=ndim)
    _refuse(
        array,
        (array < 0) | (array > 1),
        f"{name} must lie between 0 and 1",
        "pass survival probabilities, not risk scores or percentages",
    )
    return array


def _refuse(array: FloatArray, bad: BoolArray, what: str, hint: str) -> None:
    """An error that names the first bad place, if there is one."""
    if not bad.any():
        return
    place = tuple(int(part) for part in np.argwhere(bad)[0])
    where = ", ".join(
        f"{axis} {part}" for axis, part in zip(("row", "column"), place, strict=False)
    )
    rows = int(bad.reshape(len(bad), -1).any(axis=1).sum())
    raise CJEError(what, where=f"{where}; {rows} rows in all", value=float(array[place]), hint=hint)


def check_events(values: ArrayLike, n: int | None = None) -> BoolArray:
    """Event indicators as booleans: 1 = event, 0 = censored."""
    array = check_real(values, "event_indicators", n=n)
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


def check_weights(values: ArrayLike | None, n: int) -> FloatArray | None:
    """Non-negative weights with a positive sum, or None."""
    if values is None:
        return None
    array = check_real(values, "sample_weight", n=n)
    least, most = float(array.min(initial=0.0)), float(array.max(initial=0.0))
    if least < 0 or most <= 0:
        raise CJEError("sample_weight must be non-negative, with a positive sum", value=least)
    if not 1 / _LARGEST <= most <= _LARGEST:
        raise CJEError("sample_weight cannot be added up at this size", value=most,
                       hint="divide the weights by their mean")  # fmt: skip
    _refuse(
        array,
        (array > 0) & (array < _SMALLEST_SHARE * most),
        "sample_weight is lost in rounding beside the largest weight",
        "give such rows weight 0 to leave them out",
    )
    return array


def check_scores(values: ArrayLike, n: int) -> tuple[FloatArray, float]:
    """Risk scores that differ, and their standard deviation, by which a fit is scaled."""
    score = check_real(values, "risk_scores", n=n)
    _refuse(
        score,
        np.abs(score) > _LARGEST,
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
    time = check_real(event_times, "event_times")
    event = check_events(event_indicators, len(time))
    weight = check_weights(sample_weight, len(time))
    bad = np.flatnonzero(time < 0)
    if len(bad):
        raise CJEError(
            "event_times must not be negative", where=f"row {bad[0]}", value=float(time[bad[0]])
        )
    _refuse(time, time > _LARGEST, "event_times are too large", "count in a larger unit of time")
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
    t = check_number(horizon, "the horizon", where)
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


def check_number(value: Any, name: str, where: str) -> float:
    """`value` as a finite float."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or not abs(value) <= _LARGEST_FLOAT:
        raise CJEError(f"{name} must be a finite number", where=where, value=value)
    return float(value)


def check_count(value: Any, name: str, what: str, *, least: int = 2, most: int = 1_000_000) -> int:
    """`value` as an int between `least` and `most`; `what` says why it must be."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise CJEError(what, where=name, value=value, hint=f"a whole number up to {most:,}")
    return int(value)


def check_choice(value: Any, name: str, what: str, choices: Sequence[str]) -> str:
    """`value`, one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise CJEError(what, where=name, value=value, hint=f"use one of {', '.join(choices)}")
    return value


def check_seed(seed: Any) -> np.random.Generator:
    """A generator that starts at `seed`."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise CJEError("the seed must be a whole number from 0 on", where="seed", value=seed)
    return np.random.default_rng(seed)


def check_times(times: ArrayLike, sample: SurvivalSample) -> FloatArray:
    """An increasing grid of at least two times inside the follow-up."""
    grid = check_real(times, "times")
    if len(grid) < 2 or np.any(np.diff(grid) <= 0):
        raise CJEError("times must be at least two and increasing", where="times", value=grid)
    if grid[0] < 0 or grid[-1] > sample.time.max():
        raise CJEError("times must lie inside the follow-up", where="times",
                       value=(float(grid[0]), float(grid[-1])),
                       hint=f"the last observed time is {sample.time.max():.6g}")  # fmt: skip
    return grid


def check_matrix(survival: ArrayLike, sample: SurvivalSample, grid: FloatArray) -> FloatArray:
    """A matrix of survival probabilities, one row a subject and one column a time."""
    matrix = check_probabilities(survival, "survival_probs", len(sample), ndim=2)
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
