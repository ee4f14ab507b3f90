"""Brier score with inverse-censoring weights at a time, integrated, and relative to no model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_probabilities
from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.kernels.incidence import incidence_influence
from cje.survival.censoring import censoring_findings
from cje.survival.ipcw import (
    censoring_curve,
    estimated_censoring,
    event_free,
    ipcw_weights,
    refuse_entry,
)
from cje.survival.result import MetricEstimate, normal_interval, spread_of
from cje.survival.sample import (
    SurvivalSample,
    censoring_reference,
    check_horizon,
    check_matrix,
    check_times,
    survival_sample,
)

__all__ = ["brier_score", "index_of_prediction_accuracy", "integrated_brier_score"]

_INSTEAD = "judge calibration with integrated_calibration_index and discrimination with harrell_c"


def brier_score(
    survival_probs_at_t: ArrayLike,
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
    r"""Brier score at a horizon, weighted by the inverse probability of censoring (Graf 1999).

    .. math:: BS(t)=\frac1n\sum_i \frac{\hat S(t|x_i)^2\,1\{T_i\le t,\delta_i\}}{\hat G(T_i-)}
        + \frac{(1-\hat S(t|x_i))^2\,1\{T_i>t\}}{\hat G(t-)}

    A subject censored at t itself is known to be event-free then and counts with those after t. A
    competing event by t is a known outcome without the event of interest, with weight
    :math:`1/\hat G(T_i-)`.

    Parameters
    ----------
    survival_probs_at_t : array (n,)
        Predicted survival at the horizon; with competing events one minus the predicted
        cumulative incidence of the cause.
    censoring_sample : (times, events), optional
        Sample for the censoring distribution :math:`\hat G` (default: this one, whose estimation
        then enters the standard error).
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    groups : array of labels (n,), optional
        Cluster of each row.

    Raises
    ------
    CJEError
        Invalid input; delayed entry (`entry`), which inverse-censoring weights do not support.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    refuse_entry(sample, "the Brier score", _INSTEAD)
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    reference = censoring_reference(censoring_sample)
    value, influence = _brier(survival, sample, horizon, reference)
    spread = spread_of(influence, sample.cluster)
    return MetricEstimate(
        "Brier score", value, normal_interval(value, spread, level), len(sample), spread.se,
        {"horizon": horizon}, censoring_findings(survival, sample, horizon, "the Brier score"),
        spread.influence, sample.cluster is not None,
    )  # fmt: skip


def index_of_prediction_accuracy(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Index of prediction accuracy: one minus the Brier score over that of no model.

    .. math:: IPA(t) = 1 - BS(t)/BS_0(t)

    with :math:`BS_0` the Brier score of the same risk for everybody, the Kaplan-Meier
    (Aalen-Johansen) estimate. Zero: no better than the average risk; negative: worse.

    Raises
    ------
    CJEError
        Invalid input; delayed entry; an average risk of exactly 0 or 1.

    References
    ----------
    Kattan & Gerds (2018), Diagn Progn Res 2, 7.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    refuse_entry(sample, "IPA", _INSTEAD)
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    average, _ = incidence_influence(
        sample.time, sample.any_event, sample.event, np.array([horizon]), sample.weight
    )
    model, moved = _brier(survival, sample, horizon, None)
    flat = np.full(len(sample), float(np.clip(1.0 - average[0], 0.0, 1.0)))
    # the average risk minimises BS_0, so that estimating it adds nothing to the first order
    null, null_moved = _brier(flat, sample, horizon, None)
    if null <= 0:
        raise CJEError("IPA is not defined: the average risk is 0 or 1", where="time_horizon",
                       value=horizon, hint="choose another horizon")  # fmt: skip
    value = 1.0 - model / null
    spread = spread_of((model / null * null_moved - moved) / null, sample.cluster)
    return MetricEstimate(
        "IPA", value, _below_one(normal_interval(value, spread, level)), len(sample), spread.se,
        {"horizon": horizon, "brier": model, "brier_without_model": null},
        censoring_findings(survival, sample, horizon, "IPA"),
        spread.influence, sample.cluster is not None,
    )  # fmt: skip


def _below_one(interval: Interval) -> Interval:
    return Interval(interval.low, min(interval.high, 1.0), interval.level, interval.method)


def integrated_brier_score(
    survival_probs: ArrayLike,
    times: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    censoring_sample: tuple[ArrayLike, ArrayLike] | None = None,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    """Brier score averaged over `times` by the trapezoidal rule.

    Parameters
    ----------
    survival_probs : array (n, m)
        Predicted survival at each of `times`.
    times : array (m,)
        At least two, increasing, inside the follow-up.
    censoring_sample, cause, entry, groups
        As in `brier_score`.

    Raises
    ------
    CJEError
        Invalid input; delayed entry.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    refuse_entry(sample, "the integrated Brier score", _INSTEAD)
    grid = check_times(times, sample)
    matrix = check_matrix(survival_probs, sample, grid)
    reference = censoring_reference(censoring_sample)
    values, influence = _integrated(matrix, sample, grid, reference)
    span = float(grid[-1] - grid[0])
    value = float(np.trapezoid(values, grid)) / span
    spread = spread_of(influence / span, sample.cluster)
    return MetricEstimate(
        "integrated Brier score", value, normal_interval(value, spread, level), len(sample),
        spread.se, {"times": grid.tolist(), "scores": values.tolist()},
        censoring_findings(matrix[:, -1], sample, float(grid[-1]), "the integrated Brier score"),
        spread.influence, sample.cluster is not None,
    )  # fmt: skip


def _integrated(
    matrix: FloatArray, sample: SurvivalSample, grid: FloatArray, reference: SurvivalSample | None
) -> tuple[FloatArray, FloatArray]:
    """Brier scores on the grid, and each row's influence on their trapezoidal integral."""
    mass = sample.mass / sample.mass.sum()
    gap = np.diff(grid) / 2
    node = np.append(gap, 0.0) + np.append(0.0, gap)
    values = np.empty(len(grid))
    influence = np.zeros(len(sample))
    g = censoring_curve(sample if reference is None else reference)
    inverse, at_grid = _inverse(g.before(sample.time)), _inverse(g.before(grid))
    on_own, on_grid = np.zeros(len(sample)), np.zeros(len(grid))
    scaled = mass * inverse
    columns = np.ascontiguousarray(matrix.T)
    for j, t in enumerate(grid):
        early = sample.time < t
        weight = np.where(early, np.where(sample.any_event, scaled, 0.0), mass * at_grid[j])
        if at_grid[j] == 0.0 or np.any(early & sample.any_event & (scaled == 0.0) & (mass > 0)):
            ipcw_weights(sample, t, reference)  # raises, with the reason
        contribution = weight * _loss(columns[j], sample, t)
        values[j] = contribution.sum()
        influence += node[j] * (contribution - mass * values[j])
        part = np.where(early, contribution, 0.0)
        on_own -= node[j] * part
        on_grid[j] = -node[j] * float((contribution - part).sum())
    if reference is None:  # linear in its coefficients: once for all times
        influence += estimated_censoring(
            sample, np.concatenate((on_own, on_grid)), np.concatenate((sample.time, grid))
        )
    return values, influence


def _inverse(probability: FloatArray) -> FloatArray:
    """1/p, and 0 where p is 0."""
    return np.divide(1.0, probability, out=np.zeros_like(probability), where=probability > 0)


def _loss(survival: FloatArray, sample: SurvivalSample, horizon: float) -> FloatArray:
    without = event_free(sample, horizon)
    if sample.competing is not None:
        without = without | (sample.competing & (sample.time <= horizon))
    gap = np.where(without, 1.0 - survival, survival)
    return np.asarray(gap * gap)


def _brier(
    survival: FloatArray, sample: SurvivalSample, horizon: float, reference: SurvivalSample | None
) -> tuple[float, FloatArray]:
    mass = sample.mass / sample.mass.sum()
    weights = ipcw_weights(sample, horizon, reference)
    contribution = mass * weights * _loss(survival, sample, horizon)
    value = float(contribution.sum())
    influence = contribution - mass * value
    if reference is None:
        at = np.minimum(sample.time, horizon)
        influence = influence + estimated_censoring(sample, -contribution, at)
    return value, influence
