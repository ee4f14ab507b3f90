"""Calibration-in-the-large: observed over expected events."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_choice, check_level, check_probabilities, check_weights, refuse_rows
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.metrics import NO_EVENTS, ONE_MINUS_SURVIVAL, SURVIVAL_ONE, SURVIVAL_ZERO
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.survival.arguments import SMALLEST_SHARE, check_groups
from cje.survival.censoring import censoring_findings
from cje.survival.observed import check_method, observed_average
from cje.survival.result import MetricEstimate, log_interval, spread_of, undefined
from cje.survival.sample import (
    check_horizon,
    check_informative,
    open_unit,
    split_causes,
    survival_sample,
)

__all__ = ["calibration_in_the_large", "observed_expected_at_horizon"]

Expected = Literal["cumulative_hazard", "one_minus_survival"]


def calibration_in_the_large(
    survival_probs: ArrayLike,
    event_indicators: ArrayLike,
    *,
    expected: Expected = "cumulative_hazard",
    survival_at_entry: ArrayLike | None = None,
    cause: int | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    strict: bool = False,
) -> MetricEstimate:
    r"""Observed over expected events, O/E, each subject at its own follow-up time.

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
        With competing events: :math:`\exp(-\hat H_1(T_i|x_i))` of the cause-specific hazard (not
        one minus the cumulative incidence).
    event_indicators : array (n,)
        1 = event, 0 = censored; with `cause`, one integer per kind of event.
    expected : {"cumulative_hazard", "one_minus_survival"}
        ``"one_minus_survival"`` takes :math:`E_i = 1-\hat S(T_i|x_i)`. It is kept to reproduce
        earlier work only: without censoring :math:`S(T_i|x_i)` is uniform for a perfect model, so
        :math:`E_i` averages 1/2 and a perfect model scores O/E = 2.
    survival_at_entry : array (n,), optional
        Delayed entry: :math:`\hat S(e_i|x_i)` at the time from which each subject is observed; then
        :math:`E_i=\hat H(T_i)-\hat H(e_i)`.
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    sample_weight : array (n,), optional
    groups : array of labels (n,), optional
        Cluster of each row; the standard error then counts clusters.
    level : float
        Coverage of the interval, which is normal on the log scale with a robust standard error.
    strict : bool
        Raise where O/E is not defined or there are no events, instead of returning NaN or 0.

    Returns
    -------
    MetricEstimate
        ``details``: observed, expected, and how many survival probabilities were exactly 0 or 1.
        A probability of exactly 0 has infinite hazard; it is taken as the smaller of the smallest
        positive one and 1/(2n), counted, and reported as a finding. Without events the value is 0,
        with the exact Poisson upper limit; where nothing is expected it is NaN. Both carry a
        finding and issue a `RuntimeWarning`.

    Raises
    ------
    CJEError
        Invalid input; with `strict`, no events or no expected events.

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
    check_level(level)
    event, _ = split_causes(event_indicators, None, cause)
    n = len(event)
    survival = check_probabilities("survival_probs", survival_probs, n=n)
    weight = check_weights("sample_weight", sample_weight, n, smallest_share=SMALLEST_SHARE)
    cluster = check_groups(groups, n)
    mass = np.ones(n) if weight is None else weight
    check_informative(event, weight, need_events=strict)
    choices = ("cumulative_hazard", "one_minus_survival")
    if check_choice("expectation", expected, choices) == choices[0]:
        hazard, findings = _cumulative_hazard(survival, event)
    else:
        hazard, findings = 1.0 - survival, (ONE_MINUS_SURVIVAL.finding(),)
    if survival_at_entry is not None:
        hazard = _since_entry(hazard, survival, survival_at_entry, expected)
    observed, total = float(mass @ event), float(mass @ hazard)
    details = {
        "observed": observed,
        "expected": total,
        "expected_as": expected,
        "poisson_intercept": float(np.log(observed / total)) if observed > 0 < total else None,
        "n_survival_zero": int((survival == 0).sum()),
        "n_survival_one": int((survival == 1).sum()),
    }
    if total <= 0 and strict:
        raise CJEError("the model expects no events at all", where="survival_probs",
                       value="every probability is 1")  # fmt: skip
    if total <= 0:
        why = "O/E is not defined: the model expects no events (every survival probability is 1)"
        return undefined("O/E", n, level, why, details)
    if observed == 0:
        return _no_events(total, mass, n, level, details, findings)
    ratio = observed / total
    spread = spread_of(mass * (event - ratio * hazard) / total, cluster)
    return MetricEstimate(
        "O/E", ratio, log_interval(ratio, spread, level), n, spread.se, details, findings,
        spread.influence, cluster is not None,
    )  # fmt: skip


def _since_entry(
    hazard: FloatArray, survival: FloatArray, survival_at_entry: ArrayLike, expected: Expected
) -> FloatArray:
    """H(T) - H(entry)."""
    if expected != "cumulative_hazard":
        raise CJEError("survival_at_entry goes with expected='cumulative_hazard'",
                       where="expected", value=expected)  # fmt: skip
    entry = check_probabilities("survival_at_entry", survival_at_entry, n=len(survival))
    refuse_rows(
        entry,
        entry < survival,
        "survival at entry is below survival at the end of follow-up",
        "pass predicted survival at the time of entry, which comes first",
    )
    refuse_rows(entry, entry == 0, "survival at entry is 0 for a subject who entered",
                "the model rules out that this subject entered: smooth its tail")  # fmt: skip
    return np.asarray(np.maximum(hazard + np.log(entry), 0.0))


def _no_events(
    total: float, mass: FloatArray, n: int, level: float, details: dict[str, Any],
    findings: tuple[Finding, ...],
) -> MetricEstimate:  # fmt: skip
    """O/E = 0, up to the largest ratio at which observing no event is plausible (Poisson)."""
    finding = NO_EVENTS.finding()
    warnings.warn(finding.message, RuntimeWarning, stacklevel=3)
    # weighted rows: the expectation of the effective number of events
    effective = float(mass.sum() ** 2 / (mass @ mass)) / float(mass.sum())
    high = float(-np.log((1 - level) / 2) / (total * effective))
    interval = Interval(0.0, high, level, "exact Poisson")
    return MetricEstimate("O/E", 0.0, interval, n, None, details, (finding, *findings))


def _cumulative_hazard(
    survival: FloatArray, event: NDArray[np.bool_]
) -> tuple[FloatArray, tuple[Finding, ...]]:
    findings: list[Finding] = []
    zero = survival == 0
    if zero.any():
        survival = np.where(zero, open_unit(survival), survival)
        floor = float(survival[zero][0])
        findings.append(SURVIVAL_ZERO.finding(count=int(zero.sum()), floor=floor))
    sure = int(((survival == 1) & event).sum())
    if sure:
        findings.append(SURVIVAL_ONE.finding(count=sure))
    return -np.log(survival) + 0.0, tuple(findings)  # + 0.0: no negative zeros


def observed_expected_at_horizon(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    method: Literal["auto", "marginal", "conditional"] = "auto",
    frac: float = 0.3,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> MetricEstimate:
    r"""O/E at a horizon: observed risk over mean predicted risk.

    :math:`\hat F(t)/\overline{1-\hat S(t|x)}`, with :math:`\hat F=1-\hat S_{KM}`, or the
    Aalen-Johansen cumulative incidence where there are competing events.

    Parameters
    ----------
    survival_probs_at_t : array (n,)
        Predicted survival at `time_horizon` (default: the median event time). With competing
        events: one minus the predicted cumulative incidence of the cause.
    method : {"auto", "marginal", "conditional"}
        ``marginal`` (``auto`` without `entry`) is one Kaplan-Meier (Aalen-Johansen) curve of all
        rows; it assumes censoring independent of the covariates, and a finding reports where
        censoring follows the predicted risk. ``conditional`` averages the estimates within
        neighbourhoods of the predicted risk (`integrated_calibration_index`, the method of that
        name), so that censoring and entry may depend on it; ``auto`` with `entry`, because rows
        that survive to a late entry are not a sample of the population.
    frac : float
        Share of the rows in a neighbourhood (``conditional``).
    cause, entry, sample_weight, groups
        As in `calibration_slope`.

    Raises
    ------
    CJEError
        Invalid input; a horizon outside the follow-up; no risk is predicted.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    check_level(level)
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    usual = "marginal" if sample.entry is None else "conditional"
    check_choice("method", method, ("auto", "marginal", "conditional"))
    chosen = usual if method == "auto" else method
    check_method("pseudo" if chosen == "marginal" else "conditional", sample)
    mass = sample.mass / sample.mass.sum()
    predicted = float(mass @ (1.0 - survival))
    if predicted <= 0:
        raise CJEError("the model predicts no risk at the horizon", value=predicted)
    observed, influence = observed_average(survival, sample, horizon, chosen, frac)
    ratio = observed / predicted
    gap = influence - ratio * mass * ((1.0 - survival) - predicted)
    spread = spread_of(gap / predicted, sample.cluster)
    findings: tuple[Finding, ...] = ()
    if chosen == "marginal":
        findings = censoring_findings(survival, sample, horizon, "Kaplan-Meier O/E")
    return MetricEstimate(
        "O/E at horizon",
        ratio,
        log_interval(ratio, spread, level),
        len(sample),
        spread.se,
        {"observed": observed, "expected": predicted, "horizon": horizon, "method": chosen},
        findings,
        spread.influence,
        sample.cluster is not None,
    )
