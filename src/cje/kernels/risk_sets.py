"""Risk sets: who is under observation at each death, with delayed entry and strata.

Sorted once, reused for every reweighting; sums over risk sets are cumulative sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = [
    "LateEntry",
    "RiskSets",
    "accumulate",
    "at_risk",
    "group_mean",
    "group_sum",
    "risk_sets",
]


class LateEntry(NamedTuple):
    """Where rows that enter late join the risk sets: at risk at u where entry < u <= time."""

    order: IntArray  # sorted positions, by entry
    starts: IntArray  # per death: first position of `order` that has not entered yet
    missed: IntArray  # per sorted row: number of deaths at or before its entry


class RiskSets(NamedTuple):
    """Rows sorted by time, and where each death's risk set begins.

    A "death" is an event row; deaths at one time form a tied group.
    """

    order: IntArray  # row of the input at each sorted position
    time: FloatArray  # sorted
    event: BoolArray  # sorted
    deaths: IntArray  # sorted positions of the events
    starts: IntArray  # per death: first sorted position still at risk
    fraction: FloatArray  # per death: Efron's l/d
    group: IntArray  # per death: its tied group
    group_first: IntArray  # per group: index (into deaths) of its first member
    group_time: FloatArray  # per group: its time
    reach: IntArray  # per sorted row: number of deaths at or before its time
    tied: bool
    late: LateEntry | None = None  # None: every row is at risk from the start


def risk_sets(
    time: FloatArray,
    event: BoolArray,
    entry: FloatArray | None = None,
    strata: IntArray | None = None,
) -> RiskSets:
    """Sort once and describe every risk set.

    Parameters
    ----------
    entry : array (n,), optional
        Time from which each row is under observation.
    strata : array of int (n,), optional
        Only rows of one stratum share risk sets. `group_time` is then not a time.
    """
    if strata is not None:
        time, entry = _one_after_another(time, entry, strata)
    order = np.argsort(time)  # ties are treated alike, so the faster unstable sort will do
    t, e = time[order], event[order]
    deaths = np.flatnonzero(e)
    death_time = t[deaths]
    new = np.concatenate(([True], death_time[1:] != death_time[:-1]))[: len(deaths)]
    group = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    size = np.diff(np.append(first, len(deaths)))
    fraction = (np.arange(len(deaths)) - first[group]) / size[group]
    starts = np.searchsorted(t, death_time, side="left")
    reach = np.searchsorted(death_time, t, side="right")
    tied = bool(len(first) < len(deaths))
    late = None
    if entry is not None:
        begin = entry[order]
        by_entry = np.argsort(begin)
        late = LateEntry(
            by_entry,
            np.searchsorted(begin[by_entry], death_time, side="left"),
            np.searchsorted(death_time, begin, side="right"),
        )
    return RiskSets(
        order, t, e, deaths, starts, fraction, group, first, death_time[first], reach, tied, late
    )


def _one_after_another(
    time: FloatArray, entry: FloatArray | None, strata: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Times and entries by rank, each stratum's after all of the one before it."""
    distinct, rank = np.unique(time, return_inverse=True)
    offset = strata.astype(np.float64) * (len(distinct) + 1)
    begin = np.zeros(len(time)) if entry is None else np.searchsorted(distinct, entry, side="right")
    return offset + rank + 1.0, offset + begin


def suffix(values: FloatArray) -> FloatArray:
    return np.cumsum(values[::-1], axis=0)[::-1]


def at_risk(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Sum of `values` over each death's risk set."""
    total = suffix(values)[sets.starts]
    if sets.late is None:
        return np.asarray(total)
    pad = np.zeros((1, *values.shape[1:]))
    outside = np.concatenate((suffix(values[sets.late.order]), pad))[sets.late.starts]
    return np.asarray(total - outside)


def group_sum(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Sum over each tied group, given back per death."""
    return np.add.reduceat(values, sets.group_first, axis=0)[sets.group]


def group_mean(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Mean over each tied group, given back per death: tied deaths are treated alike."""
    if not sets.tied:
        return values
    size = np.diff(np.append(sets.group_first, len(sets.deaths)))[sets.group]
    return np.asarray(group_sum(sets, values).T / size).T


def accumulate(sets: RiskSets, increments: FloatArray) -> FloatArray:
    """Per sorted row: increments of all deaths while it is at risk, less Efron's share of its own.

    A tied death belongs to the l-th term of its group with factor 1 - l/d only.
    """
    pad = np.zeros((1, *increments.shape[1:]))
    running = np.concatenate((pad, np.cumsum(increments, axis=0)))
    total = running[sets.reach]
    if sets.late is not None:
        total = total - running[sets.late.missed]
    if sets.tied:
        share = sets.fraction.reshape((-1,) + (1,) * (increments.ndim - 1)) * increments
        total[sets.deaths] -= group_sum(sets, share)
    return np.asarray(total)
