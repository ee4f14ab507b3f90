"""Calibration slope: is the spread of the predicted risks right?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_number, check_probabilities, finite_array, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.cox import cox_fit, cox_score_residuals, risk_sets
from cje.survival.result import MetricEstimate, normal_interval, standard_error
from cje.survival.sample import check_scores, open_unit, survival_sample

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
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Coefficient of the linear predictor in a Cox model that has it as sole covariate.

    :math:`\lambda(t|x)=\lambda_0(t)\,e^{\beta\,\eta(x)}`, with :math:`\beta` by Efron's partial
    likelihood. One: the spread of the risks is right. Below one: predictions are too extreme, as
    after overfitting. Above one: too timid. A constant factor on the hazard moves O/E, not the
    slope: the baseline absorbs it.

    Parameters
    ----------
    risk_scores : array (n,)
        Predicted risk **on the log-hazard scale** (larger = earlier event). `from_survival` gives
        it for models that have survival probabilities only.
    event_times, event_indicators, sample_weight : arrays (n,)
    level : float
        Coverage of the interval, normal with the robust (sandwich) standard error of Lin & Wei
        (1989), which holds when proportional hazards does not; ``details["model_se"]`` is the
        inverse-information one.

    References
    ----------
    Royston & Altman (2013), BMC Med Res Methodol 13, 33.
    """
    sample = survival_sample(event_times, event_indicators, sample_weight)
    score, spread = check_scores(risk_scores, len(sample))
    x = score[:, None]
    sets = risk_sets(sample.time, sample.event)
    fit = cox_fit(x / spread, sets, sample.weight)  # scaled: the step size is then of order one
    beta = float(fit.beta[0]) / spread
    # Where the scores order the events perfectly the likelihood rises for ever, ever more flatly.
    if not fit.converged or float(fit.information[0, 0]) < 1e-6 * float(sample.mass.mean()):
        raise CJEError(
            "the calibration slope is infinite: the risk scores order the events perfectly",
            where="risk_scores",
            value=beta,
            hint="more events are needed",
        )
    information = float(fit.information[0, 0]) * spread**2
    residual = cox_score_residuals(x, sets, np.array([beta]), sample.weight)[:, 0]
    se = standard_error(residual / information)
    return MetricEstimate(
        "calibration slope",
        beta,
        normal_interval(beta, se, level),
        len(sample),
        se,
        {
            "model_se": float(information**-0.5),
            "n_events": sample.n_events,
            "log_likelihood": fit.log_likelihood,
        },
    )
