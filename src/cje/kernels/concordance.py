"""Pair counts behind concordance indices, in O(n log n).

The pairs are counted by a merge over blocks of the time order (a wavelet-tree sweep): at each of
log2(n) levels the rows are in risk order inside blocks of the time order, so that one cumulative
sum counts, for every row of a block's left half, the rows of its right half that have less risk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["PairCounts", "concordance_pairs"]


class PairCounts(NamedTuple):
    """Weighted pair sums each row takes part in, in input order.

    ``*_first`` is the row as the subject with the earlier event (its partners' weight),
    ``*_second`` as the one that outlives it (its partners' weight times their `v`).
    """

    concordant_first: FloatArray
    tied_first: FloatArray
    comparable_first: FloatArray
    concordant_second: FloatArray
    tied_second: FloatArray
    comparable_second: FloatArray


def concordance_pairs(
    time: FloatArray,
    event: BoolArray,
    risk: FloatArray,
    w: FloatArray | None = None,
    v: FloatArray | None = None,
    entry: FloatArray | None = None,
) -> PairCounts:
    r"""Concordant, tied and comparable pairs.

    A pair (i, j) is comparable when i has an event and :math:`T_i<T_j`, or :math:`T_i=T_j` and j
    is censored; concordant when :math:`risk_i>risk_j`; tied when the risks are equal.

    Parameters
    ----------
    w : array, optional
        Row weights; a pair weighs :math:`w_i w_j v_i`.
    v : array, optional
        Weight of a pair through its first subject, such as :math:`\hat G(T_i-)^{-2}` (Uno); 0
        leaves the subject out as a first subject.
    entry : array, optional
        Delayed entry: j must also be at risk at the event, :math:`e_j<T_i`.
    """
    if entry is not None:
        return _of_those_present(time, event, risk, w, v, entry)
    n = len(time)
    weight = np.ones(n) if w is None else w
    first_weight = np.where(event, 1.0 if v is None else v, 0.0)
    # Deaths before censorings at one time; tied deaths in increasing risk, so that none of them
    # counts a later one as having less risk.
    order = np.lexsort((risk, ~event, time))
    t, e, r, mass = time[order], event[order], risk[order], weight[order]
    lead = first_weight[order] * mass
    stop = _end_of_tied_deaths(t, e)

    suffix = np.concatenate((np.cumsum(mass[::-1])[::-1], [0.0]))
    comparable_first = np.where(e, suffix[stop], 0.0)
    ends = np.bincount(stop[e], weights=lead[e], minlength=n + 1)
    comparable_second = np.cumsum(ends)[:n]

    rank = np.unique(r, return_inverse=True)[1].astype(np.int64)
    by_risk = np.argsort(rank, kind="stable")  # ties of risk stay in time order
    concordant_first, concordant_second = _count_less(by_risk, mass, lead)
    tied_first, tied_second = _count_equal(rank, by_risk, stop, e, mass, lead)

    out = (concordant_first, tied_first, comparable_first, concordant_second, tied_second,
           comparable_second)  # fmt: skip
    back = np.empty(n, dtype=np.intp)
    back[order] = np.arange(n)
    return PairCounts(*(np.asarray(column[back], dtype=np.float64) for column in out))


def _of_those_present(
    time: FloatArray, event: BoolArray, risk: FloatArray, w: FloatArray | None,
    v: FloatArray | None, entry: FloatArray,
) -> PairCounts:  # fmt: skip
    """All pairs less those whose second subject enters at or after the event.

    Each row gets a shadow that leaves at its entry, with negative weight: its pairs are those to be
    taken away.
    """
    n = len(time)
    weight = np.ones(n) if w is None else w
    first = np.ones(n) if v is None else v
    both = concordance_pairs(
        np.concatenate((time, entry)),
        np.concatenate((event, np.zeros(n, dtype=bool))),
        np.concatenate((risk, risk)),
        np.concatenate((weight, -weight)),
        np.concatenate((first, np.zeros(n))),
    )
    lead = [column[:n] for column in both[:3]]
    partner = [column[:n] - column[n:] for column in both[3:]]
    return PairCounts(*lead, *partner)


def _end_of_tied_deaths(t: FloatArray, e: BoolArray) -> IntArray:
    """Per row: first position after the deaths at the row's time (its comparable partners)."""
    n = len(t)
    change = np.concatenate(([True], (t[1:] != t[:-1]) | (e[1:] != e[:-1])))
    starts = np.flatnonzero(change)
    ends = np.append(starts[1:], n)
    return np.asarray(ends[np.cumsum(change) - 1])


def _count_less(
    by_risk: IntArray, mass: FloatArray, lead: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """For position i: mass of later positions with less risk; and the mirror sum over leads."""
    n = len(by_risk)
    bits = max(int(n - 1).bit_length(), 1)
    size = 1 << bits
    # Padding sits last in time and in risk, with no weight: it is never counted.
    sequence = np.concatenate((by_risk, np.arange(n, size)))
    mass, lead = (np.concatenate((a, np.zeros(size - n))) for a in (mass, lead))
    unit = bool(np.all(mass[:n] == 1.0))
    less, more = np.zeros(size), np.zeros(size)
    for level in range(bits - 1, -1, -1):
        half = 1 << level
        is_right = (sequence & half) != 0  # blocks of 2 * half positions; each holds `half` of both
        left_at, right_at = np.flatnonzero(~is_right), np.flatnonzero(is_right)
        left, right = sequence[left_at], sequence[right_at]
        # how many rows of the other half precede each row, in risk order, inside its block
        slot = np.arange(size >> 1) & (half - 1)
        rights_before = (left_at & (2 * half - 1)) - slot
        lefts_before = (right_at & (2 * half - 1)) - slot
        start = np.arange(size >> 1) - slot
        if unit:
            less[left] += rights_before
        else:
            cumulative = _running(mass[right])
            less[left] += cumulative[start + rights_before] - cumulative[start]
        cumulative = _running(lead[left])
        more[right] += cumulative[start + half] - cumulative[start + lefts_before]
        both = np.stack((left.reshape(-1, half), right.reshape(-1, half)), axis=1)
        sequence = both.reshape(-1)
    return np.where(lead[:n] > 0, less[:n], 0.0), more[:n]


def _running(values: FloatArray) -> FloatArray:
    return np.concatenate(([0.0], np.cumsum(values)))


def _count_equal(
    rank: IntArray, by_risk: IntArray, stop: IntArray, e: BoolArray, mass: FloatArray,
    lead: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Comparable pairs of equal risk, from both sides."""
    n = len(rank)
    zero = np.zeros(n)
    if rank.max() == n - 1:  # no two risks are equal
        return zero, zero
    key = rank[by_risk] * (n + 1) + by_risk  # sorted: risk, then time position
    running = _running(mass[by_risk])
    begin = np.searchsorted(key, rank * (n + 1) + stop)
    end = np.searchsorted(key, (rank + 1) * (n + 1))
    first = np.where(e, running[end] - running[begin], 0.0)
    # a lead at position i reaches the partners from stop[i] on: add at `begin`, read cumulatively
    lone = e & (begin < end)
    adds = np.cumsum(np.bincount(begin[lone], weights=lead[lone], minlength=n + 1))
    group_start = np.searchsorted(key, rank[by_risk] * (n + 1))
    base = np.concatenate(([0.0], adds))[group_start]
    second = np.empty(n)
    second[by_risk] = adds[:n] - base
    return first, second
