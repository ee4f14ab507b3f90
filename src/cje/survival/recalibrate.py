"""Recalibration of a survival model on new data: slope and baseline, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, finite_array, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.cox import cox_baseline, risk_sets
from cje.kernels.kaplan_meier import StepFunction
from cje.survival.sample import survival_sample
from cje.survival.slope import calibration_slope

__all__ = ["BaselineHazard", "Recalibration", "fit_baseline", "recalibrate"]


@dataclass(frozen=True)
class BaselineHazard:
    """Cumulative baseline hazard as a step function; flat after the last event.

    `log_cumulative` keeps what `cumulative` cannot hold: hazards beyond the range of float64.
    """

    times: FloatArray
    cumulative: FloatArray
    log_cumulative: FloatArray | None = None

    def at(self, t: ArrayLike) -> FloatArray:
        """Cumulative hazard at `t`."""
        return StepFunction(self.times, self.cumulative, 0.0).at(self._when(t))

    @staticmethod
    def _when(t: ArrayLike) -> FloatArray:
        when = float_array("times", t)
        if np.isnan(when).any():
            raise CJEError("a time is NaN", where="times")
        return when

    def survival(self, log_risk: ArrayLike, times: ArrayLike) -> FloatArray:
        """S(t|x) = exp(-H0(t) exp(log_risk)) for each subject (rows) and time (columns)."""
        eta = finite_array("log_risk", log_risk)
        return _survival(eta[:, None] + self._log_at(times))

    def own_survival(self, log_risk: ArrayLike, times: ArrayLike) -> FloatArray:
        """S(T_i|x_i): each subject at its own time."""
        log_hazard = self._log_at(finite_array("times", times))
        return _survival(finite_array("log_risk", log_risk, n=len(log_hazard)) + log_hazard)

    def _log_at(self, times: ArrayLike) -> FloatArray:
        when = np.atleast_1d(self._when(times))
        if self.log_cumulative is None:
            with np.errstate(divide="ignore"):  # before the first event the hazard is zero
                return np.log(self.at(when))
        return StepFunction(self.times, self.log_cumulative, -np.inf).at(when)


def _survival(log_hazard: FloatArray) -> FloatArray:
    """exp(-H) from log H; infinite log H gives 0 and 1."""
    return np.asarray(np.exp(-np.exp(np.clip(log_hazard, -750.0, 700.0))))


def fit_baseline(
    log_risk: ArrayLike, event_times: ArrayLike, event_indicators: ArrayLike
) -> BaselineHazard:
    """Breslow's baseline (Efron's form at ties) given log-hazards, from the *training* data.

    The log-hazards must belong to the rows that carry the times: a baseline built with any other
    rows' risks is not the model's. They may be hundreds apart, as those of a network that was
    trained for long are: the sums are taken in logarithms.
    """
    sample = survival_sample(event_times, event_indicators)
    eta = finite_array("log_risk", log_risk, n=len(sample), largest=LARGEST)
    times, log_cumulative = cox_baseline(risk_sets(sample.time, sample.event), eta)
    cumulative = np.exp(np.clip(log_cumulative, -700.0, 700.0))
    return BaselineHazard(times, cumulative, log_cumulative)


@dataclass(frozen=True)
class Recalibration:
    """S(t|x) = exp(-H0(t) exp(slope * log_risk)), slope and H0 from the recalibration data."""

    slope: float
    baseline: BaselineHazard

    def log_risk(self, log_risk: ArrayLike) -> FloatArray:
        """Recalibrated risk on the log-hazard scale."""
        return self.slope * finite_array("log_risk", log_risk)

    def survival(self, log_risk: ArrayLike, times: ArrayLike) -> FloatArray:
        """Recalibrated survival, subjects by times."""
        return self.baseline.survival(self.log_risk(log_risk), times)

    def own_survival(self, log_risk: ArrayLike, times: ArrayLike) -> FloatArray:
        """Recalibrated survival of each subject at its own time."""
        return self.baseline.own_survival(self.log_risk(log_risk), times)


def recalibrate(
    log_risk: ArrayLike, event_times: ArrayLike, event_indicators: ArrayLike
) -> Recalibration:
    """Fit slope and baseline on data the model was not trained on; assess the result on a third
    set.

    On the recalibration data themselves the slope of the result is one by construction.
    """
    eta = finite_array("log_risk", log_risk)
    slope = calibration_slope(eta, event_times, event_indicators, strict=True).value
    return Recalibration(slope, fit_baseline(slope * eta, event_times, event_indicators))
