"""The models of the experiment: one protocol, and baselines that follow it.

All of them build their baseline hazard from *training* risks, and each has `evaluate`, which
returns every metric, calibration included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cje.errors import CJEError, require_extra
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.cox import cox_fit, risk_sets
from cje.survival.recalibrate import BaselineHazard, fit_baseline

if TYPE_CHECKING:
    from cje.survival.experiment.evaluator import MetricEvaluator, MetricResult

__all__ = ["CoxPHBaseline", "KnownRisk", "ProportionalHazards", "RandomSurvivalForestBaseline"]


class ProportionalHazards(ABC):
    """Shared by models with a log-risk: Breslow's baseline, survival, evaluation."""

    baseline_: BaselineHazard

    @abstractmethod
    def predict_log_risk(self, x: FloatArray) -> FloatArray:
        """Risk on the log-hazard scale."""

    def _fit_baseline(self, x: FloatArray, time: FloatArray, event: BoolArray) -> None:
        self.baseline_ = fit_baseline(self.predict_log_risk(x), time, event)

    def predict_survival(self, x: FloatArray, times: FloatArray) -> FloatArray:
        """S(t|x), rows by times."""
        return self.baseline_.survival(self.predict_log_risk(x), times)

    def predict_own_survival(self, x: FloatArray, time: FloatArray) -> FloatArray:
        """S(T_i|x_i)."""
        return self.baseline_.own_survival(self.predict_log_risk(x), time)

    def evaluate(
        self, x: FloatArray, time: FloatArray, event: BoolArray, evaluator: MetricEvaluator
    ) -> MetricResult:
        """Every metric on these rows, calibration included."""
        return evaluator.evaluate(self, x, time, event)


class KnownRisk(ProportionalHazards):
    """The true linear predictor, handed over as the one covariate: the control of the experiment.

    With a baseline estimated from training risks its predictions must be calibrated.
    """

    def fit(self, x: FloatArray, time: FloatArray, event: BoolArray) -> Self:
        """Estimate the baseline only."""
        self._fit_baseline(x, time, event)
        return self

    def predict_log_risk(self, x: FloatArray) -> FloatArray:
        """The covariate itself."""
        if x.shape[1] != 1:
            raise CJEError("KnownRisk takes the log-risk as its one covariate", value=x.shape)
        return x[:, 0]


class CoxPHBaseline(ProportionalHazards):
    """Cox regression on all covariates (Efron ties) with a slight ridge.

    Parameters
    ----------
    ridge : float
        Penalty ``ridge / 2 * |beta|^2`` on standardised covariates; just enough to identify one-hot
        columns, which are collinear.
    """

    def __init__(self, ridge: float = 1e-3) -> None:
        self.ridge = ridge

    def fit(self, x: FloatArray, time: FloatArray, event: BoolArray) -> Self:
        """Maximise the penalised partial likelihood."""
        self.centre_ = x.mean(axis=0)
        scale = x.std(axis=0)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        z = (x - self.centre_) / self.scale_
        fit = cox_fit(z, risk_sets(time, event), ridge=self.ridge, max_iter=100)
        if not fit.converged:
            raise CJEError("the Cox model did not converge", value=f"{int(event.sum())} events",
                           hint="raise ridge")  # fmt: skip
        self.coef_ = fit.beta
        self._fit_baseline(x, time, event)
        return self

    def predict_log_risk(self, x: FloatArray) -> FloatArray:
        """Linear predictor, centred at the training means."""
        return np.asarray((x - self.centre_) / self.scale_ @ self.coef_)


class RandomSurvivalForestBaseline:
    """scikit-survival's random survival forest behind the same protocol.

    It has no log-risk of its own (its score is a sum of cumulative hazards), so the evaluator
    takes cloglog of its survival at the horizon for the slope.
    """

    def __init__(self, n_trees: int = 100, min_samples_leaf: int = 15, seed: int = 0) -> None:
        self.n_trees, self.min_samples_leaf, self.seed = n_trees, min_samples_leaf, seed

    def fit(self, x: FloatArray, time: FloatArray, event: BoolArray) -> Self:
        """Grow the forest."""
        purpose = "RandomSurvivalForestBaseline"
        ensemble = require_extra("sksurv.ensemble", "survival", purpose)
        util = require_extra("sksurv.util", "survival", purpose)
        self.forest_: Any = ensemble.RandomSurvivalForest(
            n_estimators=self.n_trees,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.seed,
            n_jobs=1,
        )
        self.forest_.fit(x, util.Surv.from_arrays(event, time))
        return self

    def predict_survival(self, x: FloatArray, times: FloatArray) -> FloatArray:
        """S(t|x), rows by times; 1 before the first training time, flat after the last."""
        return self._curves(x)[:, self._column(times)]

    def predict_own_survival(self, x: FloatArray, time: FloatArray) -> FloatArray:
        """S(T_i|x_i)."""
        return self._curves(x)[np.arange(len(x)), self._column(time)]

    def _curves(self, x: FloatArray) -> FloatArray:
        """Survival before the first training time, then at each of them."""
        curves = self.forest_.predict_survival_function(x, return_array=True)
        return np.column_stack((np.ones(len(x)), curves))

    def _column(self, times: FloatArray) -> IntArray:
        """The column of `_curves` that holds at each time."""
        return np.asarray(np.searchsorted(self.forest_.unique_times_, times, side="right"))

    def evaluate(
        self, x: FloatArray, time: FloatArray, event: BoolArray, evaluator: MetricEvaluator
    ) -> MetricResult:
        """Every metric on these rows, calibration included."""
        return evaluator.evaluate(self, x, time, event)
