"""Brier score with inverse-censoring weights, at a time and integrated."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_probabilities
from cje.kernels.arrays import FloatArray
from cje.survival.censoring import censoring_findings
from cje.survival.observed import estimated_censoring, event_free, ipcw_weights
from cje.survival.result import MetricEstimate, normal_interval, standard_error
from cje.survival.sample import (
    SurvivalSample,
    censoring_reference,
    check_horizon,
    check_matrix,
    check_times,
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
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    reference = censoring_reference(censoring_sample)
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
    reference = censoring_reference(censoring_sample)
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
        influence = influence + estimated_censoring(sample, -contribution, at)
    return value, influence
