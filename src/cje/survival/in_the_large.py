"""Calibration-in-the-large: observed over expected events."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_choice, check_probabilities, check_weights
from cje.errors import CJEError
from cje.findings import Finding, Severity
from cje.kernels.arrays import FloatArray
from cje.kernels.kaplan_meier import pseudo_observations
from cje.survival.censoring import censoring_findings
from cje.survival.result import MetricEstimate, log_interval, standard_error
from cje.survival.sample import (
    SMALLEST_SHARE,
    check_events,
    check_horizon,
    check_informative,
    open_unit,
    survival_sample,
)

__all__ = ["calibration_in_the_large", "observed_expected_at_horizon"]

Expected = Literal["cumulative_hazard", "one_minus_survival"]


def calibration_in_the_large(
    survival_probs: ArrayLike,
    event_indicators: ArrayLike,
    *,
    expected: Expected = "cumulative_hazard",
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""Observed over expected events, O/E, each subject judged at its own follow-up time.

    .. math:: O/E = \frac{\sum_i \delta_i}{\sum_i E_i}, \qquad
        E_i = -\log \hat S(T_i \mid x_i) = \hat H(T_i \mid x_i).

    For a calibrated model :math:`\delta_i - H(T_i|x_i)` is a martingale residual with mean zero,
    whatever the censoring (independent given x), so O/E has expectation one; its logarithm is the
    intercept of the Poisson regression of the events with offset :math:`\log H` (Crowson 2016).
    Below 1: the model predicts too many events; above 1: too few.

    Parameters
    ----------
    survival_probs : array (n,)
        :math:`\hat S(T_i|x_i)`: each subject's predicted survival at its **own** observed time.
    event_indicators : array (n,)
        1 = event, 0 = censored.
    expected : {"cumulative_hazard", "one_minus_survival"}
        ``"one_minus_survival"`` takes :math:`E_i = 1-\hat S(T_i|x_i)`. It is kept to reproduce
        earlier work only: without censoring :math:`S(T_i|x_i)` is uniform for a perfect model, so
        :math:`E_i` averages 1/2 and a perfect model scores O/E = 2.
    sample_weight : array (n,), optional
    level : float
        Coverage of the interval, which is normal on the log scale with a robust standard error.

    Returns
    -------
    MetricEstimate
        ``details``: observed, expected, and how many survival probabilities were exactly 0 or 1.
        A probability of exactly 0 has infinite hazard; it is taken as the smaller of the smallest
        positive one and 1/(2n), counted, and reported as a finding.

    References
    ----------
    Crowson, Atkinson & Therneau (2016), Stat Methods Med Res 25, 1692-1706.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = calibration_in_the_large(rng.uniform(size=2000), np.ones(2000))
    >>> 1.0 in result.interval
    True
    """
    event = check_events(event_indicators)
    n = len(event)
    survival = check_probabilities("survival_probs", survival_probs, n=n)
    weight = check_weights("sample_weight", sample_weight, n, smallest_share=SMALLEST_SHARE)
    mass = np.ones(n) if weight is None else weight
    check_informative(event, weight)
    observed = float(mass @ event)
    choices = ("cumulative_hazard", "one_minus_survival")
    if check_choice("expectation", expected, choices) == choices[0]:
        hazard, findings = _cumulative_hazard(survival, event)
    else:
        hazard, findings = 1.0 - survival, (_wrong_expectation(),)
    total = float(mass @ hazard)
    if total <= 0:
        raise CJEError("the model expects no events at all", where="survival_probs",
                       value="every probability is 1")  # fmt: skip
    ratio = observed / total
    se = standard_error(mass * (event - ratio * hazard) / total)
    return MetricEstimate(
        "O/E",
        ratio,
        log_interval(ratio, se, level),
        n,
        se,
        {
            "observed": observed,
            "expected": total,
            "expected_as": expected,
            "poisson_intercept": float(np.log(ratio)),
            "n_survival_zero": int((survival == 0).sum()),
            "n_survival_one": int((survival == 1).sum()),
        },
        findings,
    )


def _cumulative_hazard(
    survival: FloatArray, event: NDArray[np.bool_]
) -> tuple[FloatArray, tuple[Finding, ...]]:
    findings: list[Finding] = []
    zero = survival == 0
    if zero.any():
        survival = np.where(zero, open_unit(survival), survival)
        floor = float(survival[zero][0])
        findings.append(
            Finding(
                "survival-zero",
                f"{int(zero.sum())} predicted survival probabilities are exactly 0; "
                f"they were taken as {floor:.3g}",
                Severity.WARNING,
                "smooth the model's tail, or judge it at a horizon with "
                "observed_expected_at_horizon",
                details={"count": int(zero.sum()), "floor": floor},
            )
        )
    sure = int(((survival == 1) & event).sum())
    if sure:
        findings.append(
            Finding(
                "survival-one",
                f"{sure} subjects had an event where the model gave survival exactly 1",
                Severity.WARNING,
                "the model calls these events impossible: look at its early times",
                details={"count": sure},
            )
        )
    return -np.log(survival) + 0.0, tuple(findings)  # + 0.0: no negative zeros


def _wrong_expectation() -> Finding:
    return Finding(
        "one-minus-survival",
        "expected events were taken as 1 - S(T), which is not the expected number of events: "
        "a perfect model scores about 2 without censoring",
        Severity.WARNING,
        "use expected='cumulative_hazard'",
    )


def observed_expected_at_horizon(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""O/E at a horizon: Kaplan-Meier risk over mean predicted risk.

    :math:`(1-\hat S_{KM}(t))/\overline{1-\hat S(t|x)}`. Kaplan-Meier assumes censoring independent
    of the covariates; where censoring follows the predicted risk, a finding says so.

    Parameters
    ----------
    survival_probs_at_t : array (n,)
        Predicted survival at `time_horizon` (default: the median event time).
    """
    sample = survival_sample(event_times, event_indicators, sample_weight)
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    mass = sample.mass / sample.mass.sum()
    predicted = float(mass @ (1.0 - survival))
    if predicted <= 0:
        raise CJEError("the model predicts no risk at the horizon", value=predicted)
    pseudo = pseudo_observations(sample.time, sample.event, horizon, sample.weight)
    observed = float(mass @ pseudo)
    ratio = observed / predicted
    se = standard_error(mass * (pseudo - ratio * (1.0 - survival)) / predicted)
    return MetricEstimate(
        "O/E at horizon",
        ratio,
        log_interval(ratio, se, level),
        len(sample),
        se,
        {"observed": observed, "expected": predicted, "horizon": horizon},
        censoring_findings(survival, sample, horizon, "Kaplan-Meier O/E"),
    )
