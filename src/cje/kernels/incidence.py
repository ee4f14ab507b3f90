"""Cumulative incidence (Aalen-Johansen), its influence, and its version within neighbourhoods.

Kaplan-Meier is the special case in which every event is of interest. Rows may enter late: a row is
at risk at u where entry < u <= time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["RiskTable", "incidence_influence", "local_incidence", "risk_table"]


class RiskTable(NamedTuple):
    """The distinct times, and where each row leaves and enters the risk set."""

    times: FloatArray  # distinct observed times
    slot: IntArray  # per row: index of its own time
    gate: IntArray | None  # per row: index of the first time at which it is at risk; None: all 0


def risk_table(time: FloatArray, entry: FloatArray | None = None) -> RiskTable:
    """Sort the times once; every reweighting reuses the result."""
    times, slot = np.unique(time, return_inverse=True)
    gate = None if entry is None else np.searchsorted(times, entry, side="right")
    return RiskTable(times, slot, gate)


def incidence_influence(
    time: FloatArray,
    event: BoolArray,
    interest: BoolArray,
    horizon: FloatArray,
    w: FloatArray | None = None,
    entry: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Cumulative incidence at each horizon and its derivative in each row's weight.

    .. math:: F(t)=\sum_{u\le t} S(u-)\frac{d^1_u}{Y_u}

    with :math:`S` the Kaplan-Meier estimate for events of any kind, :math:`d^1` the events of
    interest and :math:`Y` the weight at risk. The derivative is the infinitesimal jackknife:

    .. math:: \frac{\partial F(t)}{\partial w_i} =
        1\{T_i\le t\}\Big[\delta^1_i\frac{S(T_i-)}{Y} - \delta_i\frac{F(t)-F(T_i)}{Y-d}\Big]
        + \sum_{e_i<u\le\min(t,T_i)}\Big[\frac{d_u\,(F(t)-F(u))}{Y_u(Y_u-d_u)}
        - \frac{S(u-)\,d^1_u}{Y_u^2}\Big]

    Parameters
    ----------
    event : array of bool
        Events of any kind.
    interest : array of bool
        Events of interest, a subset of `event`.

    Returns
    -------
    incidence : array (m,)
    derivative : array (n, m)
    """
    table = risk_table(time, entry)
    weight = np.ones(len(time)) if w is None else w
    stops = np.searchsorted(table.times, horizon, side="right")
    return _incidence(table, event, interest, stops, weight)


def local_incidence(
    table: RiskTable,
    event: BoolArray,
    interest: BoolArray,
    horizon: float,
    weights: FloatArray,
    code: IntArray,
    w: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Cumulative incidence at one horizon under each row of `weights`, and its row influences.

    Parameters
    ----------
    weights : array (grid, cells)
        Smoothing weight that grid point g gives to the rows of each cell, per unit of `w`.
    code : array (n,)
        Cell of each row.

    Returns
    -------
    incidence : array (grid,)
    influence : array (n, grid)
        In the sum convention (the derivative in the row's weight, times the weight).

    References
    ----------
    Beran (1981), for local constant weights.
    """
    stop = np.searchsorted(table.times, [horizon], side="right")
    value = np.empty(len(weights))
    influence = np.empty((len(code), len(weights)))
    for g, row in enumerate(weights):
        local = row[code] * w
        f, derivative = _incidence(table, event, interest, stop, local)
        value[g] = f[0]
        influence[:, g] = local * derivative[:, 0]
    return value, influence


def _incidence(
    table: RiskTable,
    event: BoolArray,
    interest: BoolArray,
    stops: IntArray,
    weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    m, slot = len(table.times), table.slot
    deaths = np.bincount(slot, weights=weight * event, minlength=m)
    chosen = np.bincount(slot, weights=weight * interest, minlength=m)
    at_risk = _suffix(np.bincount(slot, weights=weight, minlength=m))
    if table.gate is not None:
        late = _suffix(np.bincount(table.gate, weights=weight, minlength=m + 1))
        at_risk = at_risk - late[1 : m + 1]
    left = at_risk - deaths
    floor = 1e-12 * float(at_risk.max(initial=0.0)) + 1e-300
    inverse = np.divide(1.0, at_risk, out=np.zeros(m), where=at_risk > floor)
    own = np.divide(1.0, left, out=np.zeros(m), where=left > floor)
    survival = np.cumprod(np.clip(1.0 - deaths * inverse, 0.0, 1.0))
    before = np.concatenate(([1.0], survival[:-1]))
    direct = before * inverse
    incidence = np.cumsum(direct * chosen)
    rate = deaths * inverse * own
    drift = np.zeros((3, m + 1))
    np.cumsum(rate, out=drift[0, 1:])
    np.cumsum(rate * incidence, out=drift[1, 1:])
    np.cumsum(direct * inverse * chosen, out=drift[2, 1:])
    padded = np.concatenate(([0.0], incidence))
    value = padded[stops]
    derivative = np.empty((len(slot), len(stops)))
    for j, stop in enumerate(stops):
        path = value[j] * drift[0] - drift[1] - drift[2]
        until = np.minimum(slot + 1, stop)
        column = path[until]
        if table.gate is not None:
            column = column - path[np.minimum(table.gate, until)]
        jump = np.where(interest, direct[slot], 0.0)
        jump = jump - np.where(event, own[slot] * (value[j] - incidence[slot]), 0.0)
        derivative[:, j] = column + np.where(slot < stop, jump, 0.0)
    return value, derivative


def _suffix(values: NDArray[Any]) -> FloatArray:
    return np.asarray(np.cumsum(values[::-1])[::-1], dtype=np.float64)
