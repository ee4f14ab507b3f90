"""Discrimination: Harrell's and Uno's C, and the time-dependent AUC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_number, finite_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.concordance import PairCounts, concordance_pairs
from cje.kernels.kaplan_meier import censoring_survival
from cje.survival.ipcw import estimated_censoring, event_free, ipcw_weights, refuse_entry
from cje.survival.result import MetricEstimate, logit_interval, spread_of
from cje.survival.sample import (
    SurvivalSample,
    censoring_reference,
    check_horizon,
    survival_sample,
)

__all__ = ["harrell_c", "time_dependent_auc", "uno_c"]


def harrell_c(
    risk_scores: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Harrell's C: the share of comparable pairs that the risk orders correctly; ties count half.

    A pair is comparable when the earlier time is an event (or both times are equal and one is
    censored). Counted in O(n log n); the interval is normal on the logit scale with the
    U-statistic's (Hajek) standard error.

    Parameters
    ----------
    risk_scores : array (n,)
        Larger = earlier event expected; any increasing scale.
    entry : array (n,), optional
        Delayed entry: a pair is comparable only where the second subject is already under
        observation at the first one's event.
    groups : array of labels (n,), optional
        Cluster of each row.

    Raises
    ------
    CJEError
        Invalid input; no comparable pair; competing events (use `time_dependent_auc`).

    References
    ----------
    Harrell, Lee & Mark (1996), Stat Med 15, 361-387.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, entry=entry, groups=groups
    )
    risk = finite_array("risk_scores", risk_scores, n=len(sample))
    pairs = concordance_pairs(sample.time, sample.event, risk, sample.weight, entry=sample.entry)
    value, influence, details = _index(pairs, sample, np.ones(len(sample)))
    spread = spread_of(influence, sample.cluster)
    interval = logit_interval(value, spread, level, int(details["pairs"]))
    return MetricEstimate("Harrell C", value, interval, len(sample), spread.se, details, (),
                          spread.influence, sample.cluster is not None)  # fmt: skip


def uno_c(
    risk_scores: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    tau: float | None = None,
    censoring_sample: tuple[ArrayLike, ArrayLike] | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Uno's C: concordance weighted by :math:`\hat G(T_i-)^{-2}`, free of the censoring pattern.

    Parameters
    ----------
    tau : float, optional
        Pairs whose earlier event is at or after `tau` are left out (default: all are used).
    censoring_sample : (times, events), optional
        Sample from which the censoring distribution is estimated (default: this one).
    groups : array of labels (n,), optional
        Cluster of each row.

    Raises
    ------
    CJEError
        Invalid input; delayed entry (`entry`), which inverse-censoring weights do not support.

    References
    ----------
    Uno, Cai, Pencina, D'Agostino & Wei (2011), Stat Med 30, 1105-1117.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, entry=entry, groups=groups
    )
    refuse_entry(sample, "Uno's C", "use harrell_c")
    risk = finite_array("risk_scores", risk_scores, n=len(sample))
    last = np.inf if tau is None else check_number("tau", tau, where="tau")
    reference = censoring_reference(censoring_sample)
    source = sample if reference is None else reference
    g = censoring_survival(source.time, source.event, source.weight).before(sample.time)
    used = sample.event & sample.counted & (sample.time < last)
    if not used.any():
        raise CJEError("no event before tau", where="tau", value=tau)
    if g[used].min() <= 0:
        raise CJEError(
            "an event lies beyond the last time at which any row is uncensored",
            where="tau",
            value=tau,
            hint="pass tau inside the follow-up of the censoring sample",
        )
    v = np.where(used, 1.0 / np.where(used, g, 1.0) ** 2, 0.0)
    pairs = concordance_pairs(sample.time, sample.event, risk, sample.weight, v)
    value, influence, details = _index(pairs, sample, v)
    if reference is None:
        lead = sample.mass * v
        score = pairs.concordant_first + 0.5 * pairs.tied_first - value * pairs.comparable_first
        coefficient = -2.0 * lead * score / (lead @ pairs.comparable_first)
        influence = influence + estimated_censoring(sample, coefficient, sample.time)
    spread = spread_of(influence, sample.cluster)
    interval = logit_interval(value, spread, level, int(details["pairs"]))
    return MetricEstimate("Uno C", value, interval, len(sample), spread.se,
                          {"tau": tau} | details, (), spread.influence,
                          sample.cluster is not None)  # fmt: skip


def _index(
    pairs: PairCounts, sample: SurvivalSample, v: FloatArray
) -> tuple[float, FloatArray, dict[str, float]]:
    """Ratio of pair sums and each row's influence on it."""
    mass = sample.mass
    lead = mass * np.where(sample.event, v, 0.0)
    comparable = float(lead @ pairs.comparable_first)
    if comparable <= 0:
        raise CJEError(
            "no two subjects can be compared",
            value=f"{sample.n_events} events",
            hint="every event is at the last time, or has weight zero",
        )
    top_first = pairs.concordant_first + 0.5 * pairs.tied_first
    value = float(lead @ top_first) / comparable
    first = lead * (top_first - value * pairs.comparable_first)
    second = mass * (
        pairs.concordant_second + 0.5 * pairs.tied_second - value * pairs.comparable_second
    )
    details = {
        "comparable": comparable,
        "concordant": float(lead @ pairs.concordant_first),
        "tied_risk": float(lead @ pairs.tied_first),
        # each event with the next one: so many comparable pairs have no subject in common
        "pairs": max(int((lead * pairs.comparable_first > 0).sum()) // 2, 1),
    }
    return value, (first + second) / comparable, details


def time_dependent_auc(
    risk_scores: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    censoring_sample: tuple[ArrayLike, ArrayLike] | None = None,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Cumulative/dynamic AUC: events by the horizon against those without the event then.

    .. math:: AUC(t)=\frac{\sum_{i,j} 1\{T_i\le t\}\,\delta_i\,\hat G(T_i-)^{-1}\,1\{T_j>t\}
        \,1\{r_i>r_j\}}{\sum_i 1\{T_i\le t\}\,\delta_i\,\hat G(T_i-)^{-1}\;\sum_j 1\{T_j>t\}}

    With competing events the controls are the event-free and, with weight
    :math:`\hat G(T_j-)^{-1}`, those with a competing event by t.

    Parameters
    ----------
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    groups : array of labels (n,), optional
        Cluster of each row.

    Raises
    ------
    CJEError
        Invalid input; delayed entry (`entry`); nobody without the event at the horizon.

    References
    ----------
    Uno, Cai, Tian & Wei (2007), JASA 102, 527-537. Hung & Chiang (2010). Blanche, Dartigues &
    Jacqmin-Gadda (2013), Stat Med 32, 5381-5397.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    refuse_entry(sample, "AUC(t)", "use harrell_c")
    risk = finite_array("risk_scores", risk_scores, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    reference = censoring_reference(censoring_sample)
    weights = sample.mass * ipcw_weights(sample, horizon, reference)
    case = np.where(sample.event & (sample.time <= horizon), weights, 0.0)
    control = _controls(sample, weights, horizon)
    if control.sum() <= 0:
        raise CJEError("nobody is without the event at the horizon", where="time_horizon",
                       value=horizon, hint="choose an earlier horizon")  # fmt: skip
    below, above = _placements(risk, case, control)
    value = float(case @ below) / float(case.sum())
    cases, controls = case * (below - value) / case.sum(), control * (above - value) / control.sum()
    influence = cases + controls
    if reference is None:
        moved = cases if sample.competing is None else influence
        at = np.minimum(sample.time, horizon)
        influence = influence + estimated_censoring(sample, -moved, at)
    spread = spread_of(influence, sample.cluster)
    n_cases, n_controls = int((case > 0).sum()), int((control > 0).sum())
    return MetricEstimate(
        "AUC(t)",
        value,
        logit_interval(value, spread, level, min(n_cases, n_controls)),
        len(sample),
        spread.se,
        {"horizon": horizon, "n_cases": n_cases, "n_controls": n_controls},
        (),
        spread.influence,
        sample.cluster is not None,
    )


def _controls(sample: SurvivalSample, weights: FloatArray, horizon: float) -> FloatArray:
    """Weight of each row as a subject without the event of interest by the horizon."""
    free = event_free(sample, horizon)
    if sample.competing is None:  # one weight 1/G(t-) for all: it cancels
        return np.where(free, sample.mass, 0.0)
    return np.where(free | (sample.competing & (sample.time <= horizon)), weights, 0.0)


def _placements(
    risk: FloatArray, case: FloatArray, control: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Share of controls below each row, share of cases above each row; ties count half."""
    _, code = np.unique(risk, return_inverse=True)
    out = []
    for mass in (control, case):
        at = np.bincount(code, weights=mass)
        out.append(((np.cumsum(at) - 0.5 * at) / mass.sum())[code])
    return out[0], 1.0 - out[1]
