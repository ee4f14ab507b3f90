"""Brier score with inverse-censoring weights, at a time and integrated."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.kaplan_meier import censoring_influence
from cje.survival.censoring import censoring_findings
from cje.survival.observed import event_free, ipcw_weights
from cje.survival.result import MetricEstimate, normal_interval, standard_error
from cje.survival.sample import (
    SurvivalSample,
    check_horizon,
    check_probabilities,
    check_real,
    survival_sample,
)

__all__ = ["brier_score", "integrated_brier_score"]


def brier_score(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    censoring_sample: tuple[ArrayLike, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Brier score at a horizon, weighted by the inverse probability of censoring (Graf 1999).

    .. math:: BS(t)=\frac1n\sum_i \frac{\hat S(t|x_i)^2\,1\{T_i\le t,\delta_i\}}{\hat G(T_i-)}
        + \frac{(1-\hat S(t|x_i))^2\,1\{T_i>t\}}{\hat G(t-)}

    A subject censored at t itself is known to be event-free then and counts with those after t.

    Parameters
    ----------
    censoring_sample : (times, events), optional
        Sample for the censoring distribution :math:`\hat G` (default: this one, whose estimation
        then enters the standard error).
    """
    sample = survival_sample(event_times, event_indicators, sample_weight)
    survival = check_probabilities(survival_probs_at_t, "survival_probs_at_t", len(sample))
    horizon = check_horizon(time_horizon, sample)
    reference = _reference(censoring_sample)
    value, influence = _brier(survival, sample, horizon, reference)
    se = standard_error(influence)
    interval = normal_interval(value, se, level)
    findings = censoring_findings(survival, sample, horizon, "the Brier score")
    details = {"horizon": horizon}
    return MetricEstimate("Brier score", value, interval, len(sample), se, details, findings)


def integrated_brier_score(
    survival_probs: ArrayLike,
    times: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    censoring_sample: tuple[ArrayLike, ArrayLike] | None = None,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> MetricEstimate:
    """Brier score averaged over `times` by the trapezoidal rule.

    Parameters
    ----------
    survival_probs : array (n, m)
        Predicted survival at each of `times`.
    times : array (m,)
        At least two, increasing, inside the follow-up.
    """
    sample = survival_sample(event_times, event_indicators, sample_weight)
    grid = check_times(times, sample)
    matrix = check_matrix(survival_probs, sample, grid)
    reference = _reference(censoring_sample)
    parts = [_brier(matrix[:, j], sample, t, reference) for j, t in enumerate(grid)]
    values = np.array([value for value, _ in parts])
    influences = np.column_stack([influence for _, influence in parts])
    span = float(grid[-1] - grid[0])
    value = float(np.trapezoid(values, grid)) / span
    se = standard_error(np.asarray(np.trapezoid(influences, grid, axis=1)) / span)
    return MetricEstimate(
        "integrated Brier score", value, normal_interval(value, se, level), len(sample), se,
        {"times": grid.tolist(), "scores": values.tolist()},
        censoring_findings(matrix[:, -1], sample, float(grid[-1]), "the integrated Brier score"),
    )  # fmt: skip


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


def _reference(censoring_sample: tuple[ArrayLike, ArrayLike] | None) -> SurvivalSample | None:
    if censoring_sample is None:
        return None
    return survival_sample(*censoring_sample, need_events=False)


def _brier(
    survival: FloatArray, sample: SurvivalSample, horizon: float, reference: SurvivalSample | None
) -> tuple[float, FloatArray]:
    mass = sample.mass / sample.mass.sum()
    loss = np.where(event_free(sample, horizon), (1.0 - survival) ** 2, survival**2)
    contribution = mass * ipcw_weights(sample, horizon, reference) * loss
    value = float(contribution.sum())
    influence = contribution - mass * value
    if reference is None:
        at = np.minimum(sample.time, horizon)
        influence = influence + sample.mass * censoring_influence(
            sample.time, sample.event, -contribution, at, sample.weight
        )
    return value, influence
