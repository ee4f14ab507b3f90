"""Checked survival data: the one place where times, events, weights and horizons are checked."""

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
    check_whole_number,
    finite_array,
    float_array,
    refuse_rows,
)
from cje.errors import CJEError
from cje.hints import by_interface, option_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.survival.arguments import SMALLEST_SHARE, check_groups

__all__ = [
    "SurvivalSample",
    "censoring_reference",
    "check_events",
    "check_horizon",
    "check_informative",
    "check_matrix",
    "check_scores",
    "check_times",
    "cluster_codes",
    "open_unit",
    "split_causes",
    "survival_sample",
]


@dataclass(frozen=True)
class SurvivalSample:
    """Follow-up times, event indicators, weights and clusters, all finite and of one length.

    Parameters
    ----------
    time : array (n,)
        Time of the event or of censoring.
    event : array of bool (n,)
        The event of interest happened.
    weight : array (n,), optional
        None where every row counts once.
    competing : array of bool (n,), optional
        Another event ended the follow-up.
    entry : array (n,), optional
        Time from which the row is under observation.
    cluster : array of int (n,), optional
        Cluster of the row.
    """

    time: FloatArray
    event: BoolArray
    weight: FloatArray | None = None
    competing: BoolArray | None = None
    entry: FloatArray | None = None
    cluster: IntArray | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def mass(self) -> FloatArray:
        """The weights; ones where none were given."""
        return np.ones(len(self.time)) if self.weight is None else self.weight

    @property
    def n_events(self) -> int:
        """Rows with an observed event of interest."""
        return int(self.event.sum())

    @property
    def any_event(self) -> BoolArray:
        """Rows whose follow-up ended with an event of any kind."""
        return self.event if self.competing is None else self.event | self.competing

    @property
    def counted(self) -> BoolArray:
        """Rows with positive weight."""
        return np.ones(len(self.time), dtype=bool) if self.weight is None else self.weight > 0

    @property
    def df(self) -> float:
        """Degrees of freedom of a standard error: clusters less one, else infinite."""
        return np.inf if self.cluster is None else float(self.cluster.max())

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
    return split_causes(values, n, None)[0]


def split_causes(
    values: ArrayLike, n: int | None, cause: int | None
) -> tuple[BoolArray, BoolArray | None]:
    """Events of interest, and competing events (None where there are none).

    Parameters
    ----------
    values : array (n,)
        0 = censored; without `cause`, 1 = event; with it, one positive integer per kind of event.
    cause : int, optional
        The code of the event of interest.

    Raises
    ------
    CJEError
        No rows, codes that are not integers from 0, or codes above 1 without `cause`.
    """
    array = finite_array("event_indicators", values, n=n)
    if len(array) == 0:
        raise CJEError("there are no rows")
    if cause is None:
        bad = np.flatnonzero((array != 0) & (array != 1))
        if len(bad):
            raise CJEError(
                "event_indicators must be 0 (censored) or 1 (event)",
                where=f"row {bad[0]}",
                value=float(array[bad[0]]),
                hint=_codes_hint(array, float(array[bad[0]])),
            )
        return np.asarray(array == 1), None
    wanted = check_whole_number("cause", cause)
    refuse_rows(
        array,
        (array < 0) | (array != np.round(array)),
        "event_indicators must be integers: 0 (censored) or the code of an event",
        "code each kind of event as 1, 2, ...",
    )
    competing = (array != 0) & (array != wanted)
    return np.asarray(array == wanted), competing if competing.any() else None


def _codes_hint(codes: FloatArray, bad: float) -> str:
    """What other codes than 0 and 1 probably mean."""
    if bad <= 1 or bad != int(bad):
        return "pass 0 and 1, or one integer per kind of event together with " + by_interface(
            "cause", "--cause"
        )
    hint = (
        "if the other codes are competing events, name the event of interest with "
        f"{option_hint('cause', 1)}; do not "
        "recode them as censored, which overstates the observed risk"
    )
    if set(np.unique(codes)) <= {1.0, 2.0}:
        return f"if 1 means censored and 2 event, as R's Surv reads them, subtract 1; {hint}"
    return hint


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
    cause: int | None = None,
    entry: ArrayLike | None = None,
    groups: Any = None,
    need_events: bool = True,
) -> SurvivalSample:
    """Check follow-up data once, at the boundary.

    Parameters
    ----------
    cause : int, optional
        Code of the event of interest; other codes above 0 are then competing events.
    entry : array (n,), optional
        Delayed entry: the time from which each row is under observation.
    groups : array of labels (n,), optional
        Cluster of each row (a patient with several rows, a centre).

    Raises
    ------
    CJEError
        Negative or non-finite times, interval-censored times, event codes without `cause`, an
        entry that is not before its time, unequal lengths, no rows; no event or a single subject
        where `need_events`.
    """
    _refuse_intervals(event_times)
    time = finite_array("event_times", event_times)
    event, competing = split_causes(event_indicators, len(time), cause)
    weight = check_weights("sample_weight", sample_weight, len(time), smallest_share=SMALLEST_SHARE)
    refuse_rows(time, time < 0, "event_times must not be negative",
                "count time from the start of follow-up")  # fmt: skip
    refuse_rows(time, time > LARGEST, "event_times are too large", "count in a larger unit of time")
    begin = None
    if entry is not None:
        begin = finite_array("entry", entry, n=len(time))
        refuse_rows(begin, begin < 0, "entry must not be negative", "use 0 for rows seen from 0")
        refuse_rows(
            begin,
            begin >= time,
            "entry must be before the event or censoring time",
            "a row is at risk where entry < t <= time; drop rows never at risk",
        )
        if not begin.any():
            begin = None
    if need_events:
        check_informative(event, weight)
    cluster = check_groups(groups, len(time))
    return SurvivalSample(time, event, weight, competing, begin, cluster)


def _refuse_intervals(event_times: ArrayLike) -> None:
    """Two times per row mean interval censoring, or an entry in the wrong argument."""
    shape = np.shape(float_array("event_times", event_times))
    if len(shape) == 2 and shape[1] == 2:
        raise interval_censored("event_times has two columns", "event_times", shape)


def interval_censored(what: str, where: str, value: Any) -> CJEError:
    """The refusal of two times per row."""
    return CJEError(
        f"{what}: interval-censored times are not supported, every metric here needs an exact or "
        "a right-censored time per row",
        where=where,
        value=value,
        hint="if the first column is the time of entry, pass it as "
        + by_interface("entry=...", "--entry COLUMN")
        + " and the second as the time; for intervals use a method made for them (icenReg in R)",
    )


def censoring_reference(
    given: tuple[ArrayLike, ArrayLike] | None,
) -> SurvivalSample | None:
    """The (times, events) whose censoring distribution is to be used, checked; None stays None."""
    if given is None:
        return None
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise CJEError("censoring_sample must be a pair (times, events)", value=given)
    times, events = given
    # any event but censoring ends a row's censoring time: its kind does not matter
    codes = finite_array("event_indicators", events, n=np.size(times))
    refuse_rows(
        codes,
        (codes < 0) | (codes != np.round(codes)),
        "event_indicators must be 0 (censored) or 1 (event)",
        "pass 0 or 1 per row",
    )
    return survival_sample(times, (codes > 0).astype(float), need_events=False)


def check_informative(
    event: BoolArray, weight: FloatArray | None, *, need_events: bool = True
) -> None:
    """Require two subjects and, with `need_events`, an event."""
    counted = np.ones(len(event), dtype=bool) if weight is None else weight > 0
    if need_events and not (event & counted).any():
        raise CJEError(
            "there are no events: calibration cannot be assessed",
            value=f"{len(event)} rows",
            hint="check that event_indicators marks events with 1",
        )
    if int(counted.sum()) < 2:
        raise CJEError("one subject is not enough for calibration", value=f"{len(event)} rows")


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
    """A matrix of survival probabilities, one row per subject and one column per time."""
    matrix = check_probabilities("survival_probs", survival, n=len(sample), ndim=2)
    if matrix.shape != (len(sample), len(grid)):
        raise CJEError(
            "survival_probs must have one row per subject and one column per time",
            value=matrix.shape, hint=f"expected {(len(sample), len(grid))}",
        )  # fmt: skip
    return matrix


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


def cluster_codes(sample: SurvivalSample, order: IntArray) -> IntArray:
    """Cluster of each row of `order`, numbered by first appearance; without clusters each row."""
    if sample.cluster is None:
        return np.arange(len(order))
    _, first, code = np.unique(sample.cluster[order], return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[code])
