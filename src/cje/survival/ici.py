"""The integrated calibration index and its relatives E50, E90 and Emax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from cje.checks import check_level, check_probabilities
from cje.findings import Finding
from cje.findings.metrics import FEW_AT_RISK, NAIVE_ICI
from cje.inference.curve import CalibrationCurve
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.survival.bands import ErrorBand, error_band, weighted_quantile_of
from cje.survival.censoring import censoring_findings
from cje.survival.cox_spline import hazards_findings
from cje.survival.observed import Method, ObservedRisk, check_method, observed_risk
from cje.survival.result import MetricEstimate, spread_of
from cje.survival.sample import SurvivalSample, check_horizon, survival_sample

__all__ = ["CalibrationIndex", "calibration_curve", "integrated_calibration_index"]


@dataclass(frozen=True, kw_only=True)
class CalibrationIndex(MetricEstimate):
    """ICI with E50, E90, Emax, the null reference and the curve behind them.

    `null_reference` is the ICI a perfect model is expected to score at this n and censoring: noise
    alone keeps the mean absolute error above zero. `p_value` is the probability of an ICI at least
    as large as the one seen under perfect calibration.
    """

    e50: MetricEstimate
    e90: MetricEstimate
    emax: MetricEstimate
    null_reference: float
    p_value: float
    horizon: float
    curve: CalibrationCurve


def integrated_calibration_index(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    method: Method = "auto",
    frac: float = 0.3,
    knots: int = 3,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> CalibrationIndex:
    r"""ICI: mean absolute difference between predicted and smoothed observed risk at a horizon.

    .. math:: ICI = \frac1n\sum_i \big|\hat m(p_i) - p_i\big|,\qquad p_i = 1-\hat S(t\mid x_i)

    E50 and E90 are quantiles and Emax is the maximum of the same absolute differences.

    Parameters
    ----------
    survival_probs_at_t : array (n,)
        Predicted survival at the horizon. With competing events: one minus the predicted
        cumulative incidence of the cause.
    event_times, event_indicators : arrays (n,)
    time_horizon : float, optional
        Default: the median event time.
    method : {"auto", "pseudo", "ipcw", "conditional", "cox_rcs", "naive"}
        How the observed risk :math:`\hat m` is estimated. ``auto`` is ``pseudo``, and
        ``conditional`` with `entry`.

        - ``pseudo``: jackknife pseudo-observations (of the cumulative incidence where there are
          competing events) smoothed by local linear regression, without robust iterations.
          Assumes censoring independent of the covariates.
        - ``ipcw``: outcomes weighted by the inverse probability of being uncensored. Same
          assumption.
        - ``conditional``: Kaplan-Meier (Aalen-Johansen) within neighbourhoods of the predicted
          risk, with local linear weights. Censoring and entry may depend on the predicted risk,
          and no hazards need to be proportional.
        - ``cox_rcs``: Cox regression up to the horizon on a restricted cubic spline (3-5 `knots`)
          of :math:`\log(-\log \hat S)`. Censoring may depend on the predicted risk; assumes
          proportional hazards in it (Austin 2020), which is tested and reported. Not for
          competing events.
        - ``naive``: the earlier recipe, kept for comparison. It counts everybody censored before
          the horizon as event-free, and lowess's robust iterations down-weight the rarer outcome;
          it is biased even for a perfect model, and its interval inherits that.
    frac : float
        Share of the rows in each neighbourhood of the smoother.
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    entry : array (n,), optional
        Delayed entry: the time from which each row is under observation.
    groups : array of labels (n,), optional
        Cluster of each row; bands and intervals then count clusters.
    level, seed
        Coverage of the intervals, and the seed of the Gaussian draws behind them.

    Raises
    ------
    CJEError
        Invalid input; a horizon outside the follow-up; a method that does not support `entry` or
        competing events.

    Notes
    -----
    Intervals invert a test (`cje.survival.bands`): they cover at a perfect model too, where the
    percentile bootstrap never does. They are conservative far from it.

    References
    ----------
    Austin, Harrell & van Klaveren (2020), Stat Med 39, 2714-2742.
    """
    check_level(level)
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    survival = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    chosen = check_method(method, sample)
    risk = observed_risk(survival, sample, horizon, method=chosen, frac=frac, knots=knots)
    band = error_band(
        risk.covariance, risk.band_covariance, risk.grid_mass, level, seed=seed, df=sample.df
    )
    error = np.abs(risk.at_cells - risk.cell_x)
    value = float(risk.cell_mass @ error)
    moved = spread_of(
        risk.project(np.sign(risk.observed - risk.grid) * risk.grid_mass), sample.cluster
    )
    e50, e90, emax = (m.at_horizon(horizon) for m in _quantiles(risk, band, level, len(sample)))
    return CalibrationIndex(
        name="ICI",
        value=value,
        interval=_mean_interval(risk, band, value, level),
        n=len(sample),
        details={
            "method": chosen,
            "frac": frac,
            "n_events": sample.n_events,
            "horizon": horizon,
            "folding_bias": _folding_bias(risk),
        },
        findings=_findings(survival, sample, horizon, chosen, knots),
        influence=moved.influence,
        clustered=sample.cluster is not None,
        e50=e50,
        e90=e90,
        emax=emax,
        null_reference=band.null_mean,
        p_value=float((1 + (band.mean_draws >= value).sum()) / (1 + len(band.mean_draws))),
        horizon=horizon,
        curve=_curve(risk, band, level, horizon, float(sample.mass.sum())),
    )


def calibration_curve(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    method: Method = "auto",
    frac: float = 0.3,
    knots: int = 3,
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> CalibrationCurve:
    """Observed against predicted risk at a horizon, with a simultaneous band.

    Parameters are those of `integrated_calibration_index`. The band holds for the whole curve at
    once with probability `level`; a diagonal that leaves it anywhere is miscalibration.
    """
    return integrated_calibration_index(
        survival_probs_at_t,
        event_times,
        event_indicators,
        time_horizon,
        method=method,
        frac=frac,
        knots=knots,
        cause=cause,
        entry=entry,
        sample_weight=sample_weight,
        groups=groups,
        level=level,
        seed=seed,
    ).curve


def _error_edges(risk: ObservedRisk, band: ErrorBand) -> tuple[FloatArray, FloatArray]:
    """Least and largest |observed - predicted| at each cell that the simultaneous band allows."""
    below, above = (risk.interpolate @ edge for edge in risk.band(band.critical))
    low = np.maximum(np.maximum(below - risk.cell_x, risk.cell_x - above), 0.0)
    return low, np.maximum(np.abs(below - risk.cell_x), np.abs(above - risk.cell_x))


def _mean_interval(risk: ObservedRisk, band: ErrorBand, value: float, level: float) -> Interval:
    """By test inversion; by the band where every outcome lies on the curve and no error is seen."""
    if band.mean_radius > 1e-9:
        low, high = value - band.mean_radius, value + band.mean_radius
        return Interval(max(0.0, low), min(1.0, high), level, "test")
    least, largest = (float(risk.cell_mass @ edge) for edge in _error_edges(risk, band))
    return Interval(least, largest, level, "simultaneous band")


def _quantiles(
    risk: ObservedRisk, band: ErrorBand, level: float, n: int
) -> tuple[MetricEstimate, MetricEstimate, MetricEstimate]:
    """E50, E90, Emax: order statistics of |d| lie between those of its band's edges."""
    low, high = _error_edges(risk, band)
    error = np.abs(risk.at_cells - risk.cell_x)
    out = []
    for name, q in (("E50", 0.5), ("E90", 0.9), ("Emax", 1.0)):
        value, a, b = (weighted_quantile_of(e, risk.cell_mass, q) for e in (error, low, high))
        out.append(MetricEstimate(name, value, Interval(a, b, level, "simultaneous band"), n))
    return out[0], out[1], out[2]


def _curve(
    risk: ObservedRisk, band: ErrorBand, level: float, horizon: float, total: float
) -> CalibrationCurve:
    low, high = risk.band(band.critical)
    return CalibrationCurve(
        x=risk.grid,
        observed=risk.observed,
        low=low,
        high=high,
        counts=risk.grid_mass * total,
        level=level,
        band="simultaneous",
        x_label=f"predicted risk by t = {horizon:.4g}",
        y_label="observed risk",
    )


def _folding_bias(risk: ObservedRisk) -> float:
    """How much the noise of the curve may add to the mean absolute error.

    At each point, the bias of |d + e| for e ~ N(0, s^2), at the smallest error that lies one
    standard error inside the one seen.
    """
    sd = np.sqrt(np.clip(np.diag(risk.covariance), 1e-300, None))
    least = np.maximum(np.abs(risk.observed - risk.grid) - sd, 0.0) / sd
    density = np.exp(-0.5 * least * least) / np.sqrt(2.0 * np.pi)
    return float(risk.grid_mass @ (2.0 * sd * (density - least * ndtr(-least))))


def _findings(
    survival: FloatArray, sample: SurvivalSample, horizon: float, method: str, knots: int
) -> tuple[Finding, ...]:
    """Findings on the assumptions of the method."""
    findings: tuple[Finding, ...] = ()
    if method in ("pseudo", "ipcw"):
        findings = censoring_findings(survival, sample, horizon, f"ICI by {method}")
    elif method == "cox_rcs":
        findings = hazards_findings(survival, sample, horizon, knots)
    elif method == "naive":
        findings = (NAIVE_ICI.finding(),)
    if sample.entry is not None:
        findings += _few_at_risk(sample, horizon)
    return findings


def _few_at_risk(sample: SurvivalSample, horizon: float) -> tuple[Finding, ...]:
    """Delayed entry leaves few rows at risk early, where one event then moves the whole curve."""
    assert sample.entry is not None
    events = np.sort(sample.time[sample.event & (sample.time <= horizon)])
    present = len(sample) - np.searchsorted(np.sort(sample.time), events, side="left")
    present -= len(sample) - np.searchsorted(np.sort(sample.entry), events, side="left")
    least = int(present.min())
    if least >= FEW_AT_RISK["rows"]:
        return ()
    return (FEW_AT_RISK.finding(least_at_risk=least, time=float(events[int(present.argmin())])),)
