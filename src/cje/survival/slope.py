"""Calibration slope: is the spread of the predicted risks right?"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    check_choice,
    check_level,
    check_number,
    check_probabilities,
    finite_array,
    float_array,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.cox import cox_partial_likelihood, cox_score_residuals, cox_slope, risk_sets
from cje.kernels.fine_gray import fine_gray
from cje.survival.arguments import check_groups
from cje.survival.result import MetricEstimate, normal_interval, spread_of, undefined
from cje.survival.sample import (
    SurvivalSample,
    check_informative,
    check_scores,
    open_unit,
    survival_sample,
)

__all__ = ["calibration_slope", "from_survival"]


def from_survival(
    survival: ArrayLike, t0: float | None = None, *, times: ArrayLike | None = None
) -> FloatArray:
    r"""Risk on the log-hazard scale from predicted survival: :math:`\log(-\log \hat S(t_0|x))`.

    For models whose own score is not a log-hazard, such as random survival forests, whose score is
    a sum of cumulative hazards. Under proportional hazards it is the linear predictor up to a
    constant.

    Parameters
    ----------
    survival : array (n,) or (n, m)
        Survival at one time, or at each of `times` (m,).
    t0 : float, optional
        With a matrix: the time at which to read it (the last of `times` at or before `t0`).
    times : array (m,), optional

    Examples
    --------
    >>> from_survival([np.exp(-1.0), np.exp(-np.e)]).round(6).tolist()
    [0.0, 1.0]
    """
    values: ArrayLike = float_array("survival", survival)
    if np.ndim(values) == 2:
        if times is None or t0 is None:
            raise CJEError("a survival matrix needs `times` and `t0`", where="from_survival")
        matrix = finite_array("survival", values, ndim=2)
        grid = finite_array("times", times, n=matrix.shape[1])
        if np.any(np.diff(grid) <= 0):
            raise CJEError("`times` must increase", where="from_survival", value=grid)
        at = check_number("t0", t0, where="from_survival")
        column = int(np.searchsorted(grid, at, side="right")) - 1
        if column < 0:
            raise CJEError("t0 lies before the first of `times`", where="from_survival", value=t0)
        values = matrix[:, column]
    probability = check_probabilities("survival", values)
    if len(probability) == 0:
        raise CJEError("there are no rows", where="from_survival")
    return np.asarray(np.log(-np.log(open_unit(probability))))


def calibration_slope(
    risk_scores: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    cause: int | None = None,
    hazard: Literal["cause_specific", "subdistribution"] = "cause_specific",
    entry: ArrayLike | None = None,
    strata: Any = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    strict: bool = False,
) -> MetricEstimate:
    r"""Coefficient of the linear predictor in a Cox model that has it as sole covariate.

    :math:`\lambda(t|x)=\lambda_0(t)\,e^{\beta\,\eta(x)}`, with :math:`\beta` by Efron's partial
    likelihood. One: the spread of the risks is right. Below one: predictions are too extreme, as
    after overfitting. Above one: they are too close together. A constant factor on the hazard
    moves O/E, not the slope: the baseline absorbs it.

    Parameters
    ----------
    risk_scores : array (n,)
        Predicted risk **on the log-hazard scale** (larger = earlier event). `from_survival` gives
        it for models that have survival probabilities only.
    event_times, event_indicators, sample_weight : arrays (n,)
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    hazard : {"cause_specific", "subdistribution"}
        With competing events: ``cause_specific`` treats a competing event as the end of follow-up,
        which is right for a score on the scale of the cause-specific log-hazard.
        ``subdistribution`` is Fine and Gray's regression, for a score on the scale of the
        cumulative incidence: ``from_survival(1 - F)`` with the predicted incidence F.
    entry : array (n,), optional
        Delayed entry: the time from which each row is under observation (left truncation).
    strata : array of labels (n,), optional
        A baseline hazard of its own for each stratum (a centre, a study).
    groups : array of labels (n,), optional
        Cluster of each row; the standard error then counts clusters.
    level : float
        Coverage of the interval, normal with the robust (sandwich) standard error of Lin & Wei
        (1989), which holds when proportional hazards does not; ``details["model_se"]`` is the
        inverse-information one.
    strict : bool
        Raise where there are no events, instead of returning NaN with a warning.

    Raises
    ------
    CJEError
        Invalid input, scores that are all the same, an infinite slope; with `strict`, no events.

    References
    ----------
    Royston & Altman (2013), BMC Med Res Methodol 13, 33. Fine & Gray (1999), JASA 94, 496-509.
    """
    check_level(level)
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups,
        need_events=strict,
    )  # fmt: skip
    check_informative(sample.event, sample.weight, need_events=strict)
    score, spread = check_scores(risk_scores, len(sample))
    codes = check_groups(strata, len(sample), name="strata")
    check_choice("hazard", hazard, ("cause_specific", "subdistribution"))
    if not (sample.event & sample.counted).any():
        return undefined("calibration slope", len(sample), level,
                         "the calibration slope is not defined: there are no events")  # fmt: skip
    x = (score - score.mean()) / spread  # scaled: the step size is then of order one
    fit = _subdistribution(x, sample, codes) if hazard == "subdistribution" else _cox(
        x, sample, codes)  # fmt: skip
    beta = fit.beta / spread
    if not fit.finite:
        raise CJEError(
            "the calibration slope is infinite: the risk scores order the events perfectly",
            where="risk_scores",
            value=beta,
            hint="collect more events, or report the concordance",
        )
    error = spread_of(fit.influence / spread, sample.cluster)
    return MetricEstimate(
        "calibration slope",
        beta,
        normal_interval(beta, error, level),
        len(sample),
        error.se,
        {
            "model_se": float((fit.information * spread**2) ** -0.5),
            "n_events": sample.n_events,
            "hazard": hazard if sample.competing is not None else "cause_specific",
            "log_likelihood": fit.log_likelihood,
        },
        (),
        error.influence,
        sample.cluster is not None,
    )


class _Fit(NamedTuple):
    beta: float
    information: float
    finite: bool
    influence: FloatArray
    log_likelihood: float | None


def _cox(x: FloatArray, sample: SurvivalSample, strata: IntArray | None) -> _Fit:
    sets = risk_sets(sample.time, sample.event, sample.entry, strata)
    beta, information, finite = cox_slope(x, sets, sample.weight)
    if not finite:
        return _Fit(beta, information, False, np.zeros(len(x)), None)
    at = np.array([beta])
    residual = cox_score_residuals(x[:, None], sets, at, sample.weight)[:, 0]
    value = cox_partial_likelihood(x[:, None], sets, at, sample.weight)
    return _Fit(beta, information, True, residual / information, value)


def _subdistribution(x: FloatArray, sample: SurvivalSample, strata: IntArray | None) -> _Fit:
    if sample.entry is not None or strata is not None:
        raise CJEError(
            "the subdistribution slope does not support delayed entry or strata",
            where="hazard",
            value="subdistribution",
            hint="use hazard='cause_specific'",
        )
    fit = fine_gray(x, sample.time, sample.any_event, sample.event, sample.weight)
    return _Fit(fit.beta, fit.information, fit.converged, fit.influence, None)
