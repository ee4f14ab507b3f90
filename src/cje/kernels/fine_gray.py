"""Fine and Gray's subdistribution hazard regression on one covariate.

A row that had a competing event stays in the risk set with the weight G(u-)/G(T-) that its chance
of not being censored meanwhile gives it. Both parts of a risk-set sum are cumulative sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.kaplan_meier import censoring_influence, censoring_survival
from cje.kernels.root import concave_maximum

__all__ = ["FineGrayFit", "fine_gray"]


class FineGrayFit(NamedTuple):
    """Slope, information, whether a maximum exists, and each row's influence on the slope."""

    beta: float
    information: float
    converged: bool
    influence: FloatArray


class _Sorted(NamedTuple):
    """Rows in time order, and the distinct times at which events of interest happen."""

    x: FloatArray
    mass: FloatArray
    waiting: FloatArray  # w / G(T-) of rows with a competing event, else 0
    starts: np.ndarray  # per event time: first row still under observation
    deaths: FloatArray  # per event time: weight of its events of interest
    total: FloatArray  # per event time: weighted covariate sum of those events
    g: FloatArray  # per event time: G(u-)


def fine_gray(
    x: FloatArray,
    time: FloatArray,
    event: BoolArray,
    interest: BoolArray,
    w: FloatArray | None = None,
) -> FineGrayFit:
    r"""Maximise the weighted partial likelihood of the subdistribution hazard (Breslow's ties).

    The influence includes the estimation of the censoring distribution (the :math:`\psi` of Fine
    & Gray 1999, section 4).

    References
    ----------
    Fine & Gray (1999), JASA 94, 496-509.
    """
    weight = np.ones(len(time)) if w is None else w
    g = censoring_survival(time, event, w)
    g_own = g.before(time)
    competing = event & ~interest
    waiting = np.divide(weight, g_own, out=np.zeros(len(time)), where=competing & (g_own > 0))
    order = np.argsort(time, kind="stable")
    t = time[order]
    when, first = np.unique(time[interest], return_inverse=True)
    rows = _Sorted(
        x[order], weight[order], waiting[order],
        np.searchsorted(t, when, side="left"),
        np.bincount(first, weights=weight[interest]).astype(np.float64),
        np.bincount(first, weights=(weight * x)[interest]).astype(np.float64),
        g.before(when),
    )  # fmt: skip

    def score(beta: float) -> tuple[float, float]:
        s0, s1, s2 = _sums(rows, beta, 3)
        mean = s1 / s0
        return (
            float((rows.total - rows.deaths * mean).sum()),
            float((rows.deaths * (s2 / s0 - mean * mean)).sum()),
        )

    reach = float(np.ptp(x)) or 1.0
    beta, information, converged = concave_maximum(score, limit=250.0 / reach)
    influence = _influence(rows, beta, x, time, event, interest, weight, waiting, when)
    return FineGrayFit(beta, information, converged, influence / max(information, 1e-300))


def _sums(rows: _Sorted, beta: float, powers: int) -> list[FloatArray]:
    """Risk-set sums of r, r x, r x^2 at each event time, per unit of exp(shift)."""
    eta = beta * rows.x
    risk = np.exp(eta - eta.max())
    out = []
    for power in range(powers):
        value = risk * rows.x**power
        under = np.cumsum((rows.mass * value)[::-1])[::-1][rows.starts]
        gone = np.concatenate(([0.0], np.cumsum(rows.waiting * value)))[rows.starts]
        out.append(under + rows.g * gone)
    return out


def _influence(
    rows: _Sorted, beta: float, x: FloatArray, time: FloatArray, event: BoolArray,
    interest: BoolArray, weight: FloatArray, waiting: FloatArray, when: FloatArray,
) -> FloatArray:  # fmt: skip
    """Each row's share of the score, with its share through the censoring distribution."""
    s0, s1 = _sums(rows, beta, 2)
    mean, hazard = s1 / s0, rows.deaths / s0
    risk = np.exp(beta * x - float((beta * x).max()))

    def until(values: FloatArray) -> FloatArray:
        return np.concatenate(([0.0], np.cumsum(values)))

    reach = np.searchsorted(when, time, side="right")
    plain = (until(hazard), until(hazard * mean))
    later = (until(hazard * rows.g), until(hazard * rows.g * mean))
    inside = x * plain[0][reach] - plain[1][reach]
    after = x * (later[0][-1] - later[0][reach]) - (later[1][-1] - later[1][reach])
    score = -weight * risk * inside - waiting * risk * after
    own = np.searchsorted(when, time[interest])
    score[interest] += weight[interest] * (x[interest] - mean[own])
    # w_i(s) = G(s-)/G(T_i-): how the score moves with log G at s and at T_i
    scaled = rows.waiting * np.exp(beta * rows.x - float((beta * x).max()))
    gone, gone_x = until(scaled), until(scaled * rows.x)
    at_event = -hazard * rows.g * (gone_x[rows.starts] - mean * gone[rows.starts])
    at_own = waiting * risk * after
    coefficient, at = np.concatenate((at_event, at_own)), np.concatenate((when, time))
    censoring = censoring_influence(time, event, coefficient, at, weight)
    return np.asarray(score + weight * censoring)
