"""Kaplan-Meier, its influence on each subject, pseudo-observations and the censoring distribution.

Everything is O(n log n) in one sort. Ties follow the usual convention: at one and the same time,
deaths come before censorings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.incidence import incidence_influence

__all__ = [
    "StepFunction",
    "censoring_influence",
    "censoring_survival",
    "kaplan_meier",
    "km_influence",
    "pseudo_observations",
]


class StepFunction(NamedTuple):
    """A right-continuous step function: `start` before the first of `times`, then `values`."""

    times: FloatArray
    values: FloatArray
    start: float

    def at(self, t: FloatArray) -> FloatArray:
        """Value at `t` (right-continuous)."""
        return self._pick(np.searchsorted(self.times, t, side="right"))

    def before(self, t: FloatArray) -> FloatArray:
        """Left limit at `t`: the value just before it."""
        return self._pick(np.searchsorted(self.times, t, side="left"))

    def _pick(self, index: NDArray[np.intp]) -> FloatArray:
        return np.concatenate(([self.start], self.values))[index]


def _counts(
    time: FloatArray, event: BoolArray, w: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct times, weight of events at each, weight at risk (time >= u) at each."""
    weight = np.ones(len(time)) if w is None else w
    order = np.argsort(time)  # ties are summed: their order does not matter
    t, mass = time[order], weight[order]
    first = np.flatnonzero(np.concatenate(([True], t[1:] != t[:-1])))
    deaths = np.add.reduceat(np.where(event[order], mass, 0.0), first)
    at_risk = np.cumsum(mass[::-1])[::-1][first]
    return t[first], deaths, at_risk


def _product_limit(deaths: FloatArray, at_risk: FloatArray) -> FloatArray:
    """Running product of 1 - d/Y, exactly 0 where everybody at risk dies."""
    # Weights of resampled rows may be zero, so the risk set may be empty at the end.
    share = np.divide(deaths, at_risk, out=np.zeros_like(deaths), where=at_risk > 0)
    return np.asarray(np.cumprod(np.clip(1.0 - share, 0.0, 1.0)), dtype=np.float64)


def kaplan_meier(time: FloatArray, event: BoolArray, w: FloatArray | None = None) -> StepFunction:
    r"""Kaplan-Meier estimate :math:`S(t)=\prod_{u\le t}(1-d_u/Y_u)`, weighted.

    Examples
    --------
    >>> kaplan_meier(np.array([1.0, 2.0, 3.0]), np.array([True, False, True])).values.round(3)
    array([0.667, 0.667, 0.   ])
    """
    times, deaths, at_risk = _counts(time, event, w)
    return StepFunction(times, _product_limit(deaths, at_risk), 1.0)


def censoring_survival(
    time: FloatArray, event: BoolArray, w: FloatArray | None = None
) -> StepFunction:
    """Kaplan-Meier estimate of the censoring time's survival G; deaths leave the risk set first."""
    times, censored, at_risk = _counts(time, ~event, w)
    _, deaths, _ = _counts(time, event, w)
    return StepFunction(times, _product_limit(censored, at_risk - deaths), 1.0)


def km_influence(
    time: FloatArray, event: BoolArray, horizon: FloatArray, w: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Kaplan-Meier at each horizon and its derivative with respect to each subject's weight.

    .. math:: \frac{\partial S(t)}{\partial w_i} = -S(t)\Big[\frac{1\{T_i\le t,\delta_i\}}{Y-d}
        - \sum_{u\le \min(t,T_i)} \frac{d_u}{Y_u(Y_u-d_u)}\Big]

    Returns
    -------
    survival : array (m,)
    derivative : array (n, m)
        The infinitesimal jackknife (Jaeckel 1972); each column sums, with the weights, to zero.
    """
    incidence, derivative = incidence_influence(time, event, event, horizon, w)
    return 1.0 - incidence, -derivative


def pseudo_observations(
    time: FloatArray,
    event: BoolArray,
    horizon: float,
    w: FloatArray | None = None,
    interest: BoolArray | None = None,
) -> FloatArray:
    r"""Jackknife pseudo-observations of the risk F(t), one per subject.

    :math:`\theta_i = F(t) + W\,\partial F(t)/\partial w_i`, the infinitesimal-jackknife form:
    it is defined for weights, equals the leave-one-out form up to O(1/n), has weighted mean
    exactly F(t), and is the indicator of an event by t where nobody is censored before t.

    Parameters
    ----------
    event : array of bool
        Events of any kind.
    interest : array of bool, optional
        Events of interest (default: all of `event`); F is then their cumulative incidence.

    References
    ----------
    Andersen, Klein & Rosthoj (2003), Biometrika 90. Parner, Andersen & Overgaard (2023) for the
    infinitesimal form.
    """
    chosen = event if interest is None else interest
    incidence, derivative = incidence_influence(time, event, chosen, np.array([horizon]), w)
    total = float(len(time)) if w is None else float(w.sum())
    return np.asarray(incidence[0] + total * derivative[:, 0])


def censoring_influence(
    time: FloatArray,
    event: BoolArray,
    coefficient: FloatArray,
    at: FloatArray,
    w: FloatArray | None = None,
) -> FloatArray:
    r"""What estimating G adds to each subject's influence.

    A statistic that moves by :math:`\sum_i c_i\, d\log G(s_i-)` gets, for subject k,
    :math:`-\sum_i c_i\int_0^{s_i-} dM^c_k(u)/Y(u)` (per unit of k's weight).
    """
    times, censored, at_risk = _counts(time, ~event, w)
    _, deaths, _ = _counts(time, event, w)
    risk = at_risk - deaths
    left = risk - censored
    inverse = np.divide(1.0, left, out=np.zeros_like(left), where=left > 1e-12 * at_risk[0])
    drift = np.divide(censored * inverse, risk, out=np.zeros_like(risk), where=risk > 0)
    # later[u] = sum of the coefficients whose time s_i lies strictly after u
    slot = np.searchsorted(times, at, side="left")
    binned = np.bincount(slot, weights=coefficient, minlength=len(times) + 1)
    later = np.cumsum(binned[::-1])[::-1][1:]
    path = np.cumsum(later * drift)
    position = np.searchsorted(times, time, side="left")
    own = np.where(event, 0.0, (later * inverse)[position])
    # a death at u has left before the censorings at u
    before = np.concatenate(([0.0], path))
    compensator = np.where(event, before[position], path[position])
    return np.asarray(-(own - compensator))
