"""Inverse probability of censoring weights, and what estimating them adds to an influence."""

from __future__ import annotations

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.kaplan_meier import StepFunction, censoring_influence, censoring_survival
from cje.survival.sample import SurvivalSample

__all__ = ["censoring_curve", "estimated_censoring", "event_free", "ipcw_weights", "refuse_entry"]


def refuse_entry(sample: SurvivalSample, metric: str, instead: str) -> None:
    """Raise for a metric that is not defined under delayed entry."""
    if sample.entry is not None:
        raise CJEError(f"{metric} does not support delayed entry", where="entry", hint=instead)


def event_free(sample: SurvivalSample, horizon: float) -> BoolArray:
    """Rows known to be event-free at the horizon.

    Deaths come before censorings at one time, so a row censored at the horizon itself is known to
    have reached it: the end of a study, where everybody left is censored, is such a time.
    """
    return np.asarray((sample.time > horizon) | (~sample.any_event & (sample.time == horizon)))


def censoring_curve(sample: SurvivalSample) -> StepFunction:
    """Kaplan-Meier estimate of the censoring time's survival."""
    return censoring_survival(sample.time, sample.any_event, sample.weight)


def ipcw_weights(
    sample: SurvivalSample, horizon: float, reference: SurvivalSample | None = None
) -> FloatArray:
    r"""Inverse probability of being uncensored: :math:`1/G(\min(T_i,t)-)` for those whose state at
    the horizon is known (an event by then, or `event_free`), 0 for those censored before.

    `reference` is the sample whose censoring distribution is used (`sample` itself by default).
    """
    source = sample if reference is None else reference
    known = (sample.any_event | (sample.time >= horizon)) & sample.counted
    g = censoring_curve(source)
    before = g.before(np.minimum(sample.time, horizon))
    if known.any() and before[known].min() <= 0:
        raise CJEError(
            "everybody is censored before the horizon: inverse-censoring weights do not exist",
            where="time_horizon",
            value=horizon,
            hint="choose an earlier horizon",
        )
    return np.where(known, 1.0 / np.where(known, before, 1.0), 0.0)


def estimated_censoring(
    sample: SurvivalSample, coefficient: FloatArray, at: FloatArray
) -> FloatArray:
    """Each row's influence through the censoring distribution, where the sample itself gave it.

    `coefficient` and `at` as in `cje.kernels.kaplan_meier.censoring_influence`.
    """
    return sample.mass * censoring_influence(
        sample.time, sample.any_event, coefficient, at, sample.weight
    )
