"""Every metric of a fitted model on one split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray
from cje.survival.brier import brier_score, integrated_brier_score
from cje.survival.discrimination import harrell_c, time_dependent_auc, uno_c
from cje.survival.distribution import d_calibration, km_calibration
from cje.survival.ici import integrated_calibration_index
from cje.survival.in_the_large import calibration_in_the_large, observed_expected_at_horizon
from cje.survival.slope import calibration_slope, from_survival

__all__ = ["METRICS", "FittedModel", "MetricEvaluator", "MetricResult"]


class FittedModel(Protocol):
    """What the evaluator needs of a fitted model; `predict_log_risk` is used where present."""

    def predict_survival(self, x: FloatArray, times: FloatArray) -> FloatArray:
        """S(t|x), rows by times."""
        ...

    def predict_own_survival(self, x: FloatArray, time: FloatArray) -> FloatArray:
        """S(T_i|x_i)."""
        ...


@dataclass
class MetricResult:
    """One row of numbers; None where a metric is not defined, with the reason in `reasons`."""

    n: int = 0
    n_events: int = 0
    horizon: float | None = None
    # Discrimination
    c_index: float | None = None
    uno_c: float | None = None
    auc: float | None = None
    # Overall error
    ibs: float | None = None
    brier: float | None = None
    # Calibration decomposition
    calibration_in_the_large: float | None = None
    oe_at_horizon: float | None = None
    calibration_slope: float | None = None
    ici: float | None = None
    ici_null: float | None = None
    e50: float | None = None
    e90: float | None = None
    emax: float | None = None
    d_calibration_p: float | None = None
    km_calibration: float | None = None
    reasons: dict[str, str] = field(default_factory=dict)


METRICS = tuple(
    name for name in MetricResult.__dataclass_fields__ if name not in ("n", "n_events", "reasons")
)


class MetricEvaluator:
    """Metrics at a fixed horizon and time grid, with the training sample's censoring weights.

    Parameters
    ----------
    time, event : arrays
        Training follow-up: gives the horizon (median event time), the grid of times (20 points
        between the 10th and 90th percentile of the event times) and the censoring distribution.
    """

    def __init__(self, time: FloatArray, event: BoolArray) -> None:
        self.censoring_sample = (time, event)
        deaths = time[event]
        if len(deaths) < 5:
            raise CJEError("fewer than five training events", value=len(deaths))
        self.horizon = float(np.median(deaths))
        low, high = np.quantile(deaths, [0.1, 0.9])
        self.times = np.linspace(low, high, 20)

    def evaluate(
        self, model: FittedModel, x: FloatArray, time: FloatArray, event: BoolArray
    ) -> MetricResult:
        """Compute all metrics; one that is not defined here is None, with its reason kept."""
        result = MetricResult(n=len(time), n_events=int(event.sum()), horizon=self.horizon)
        at_horizon = model.predict_survival(x, np.array([self.horizon]))[:, 0]
        own_score = getattr(model, "predict_log_risk", None)
        score = from_survival(at_horizon) if own_score is None else own_score(x)
        self._compute_discrimination(result, score, time, event)
        self._compute_ibs(result, model, x, at_horizon, time, event)
        own = model.predict_own_survival(x, time)
        self._compute_calibration(result, own, score, at_horizon, time, event)
        return result

    def _compute_discrimination(
        self, result: MetricResult, score: FloatArray, time: FloatArray, event: BoolArray
    ) -> None:
        reference = self.censoring_sample
        tau = float(self.times[-1])
        _try(result, "c_index", lambda: harrell_c(score, time, event))
        _try(
            result, "uno_c",
            lambda: uno_c(score, time, event, tau=tau, censoring_sample=reference),
        )  # fmt: skip
        _try(
            result, "auc",
            lambda: time_dependent_auc(
                score, time, event, self.horizon, censoring_sample=reference
            ),
        )  # fmt: skip

    def _compute_ibs(
        self,
        result: MetricResult,
        model: FittedModel,
        x: FloatArray,
        at_horizon: FloatArray,
        time: FloatArray,
        event: BoolArray,
    ) -> None:
        reference = self.censoring_sample
        grid = self.times[self.times <= time.max()]
        matrix = model.predict_survival(x, grid)
        _try(
            result, "ibs",
            lambda: integrated_brier_score(matrix, grid, time, event, censoring_sample=reference),
        )  # fmt: skip
        _try(
            result, "brier",
            lambda: brier_score(
                at_horizon, time, event, self.horizon, censoring_sample=reference
            ),
        )  # fmt: skip
        _try(result, "km_calibration", lambda: km_calibration(matrix, grid, time, event))

    def _compute_calibration(
        self,
        result: MetricResult,
        own: FloatArray,
        score: FloatArray,
        at_horizon: FloatArray,
        time: FloatArray,
        event: BoolArray,
    ) -> None:
        horizon = self.horizon
        _try(result, "calibration_in_the_large", lambda: calibration_in_the_large(own, event))
        _try(
            result, "oe_at_horizon",
            lambda: observed_expected_at_horizon(at_horizon, time, event, horizon),
        )  # fmt: skip
        _try(result, "calibration_slope", lambda: calibration_slope(score, time, event))
        _try(result, "d_calibration_p", lambda: d_calibration(own, event).details["p_value"])
        try:
            index = integrated_calibration_index(at_horizon, time, event, horizon)
        except CJEError as error:
            result.reasons["ici"] = str(error)
            return
        result.ici, result.ici_null = index.value, index.null_reference
        result.e50, result.e90, result.emax = map(float, (index.e50, index.e90, index.emax))


def _try(result: MetricResult, name: str, compute: Callable[[], Any]) -> None:
    """Store a metric; a data problem (and nothing else) leaves None and its reason."""
    try:
        setattr(result, name, float(compute()))
    except CJEError as error:
        result.reasons[name] = str(error)
