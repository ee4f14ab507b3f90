"""Observed risk at a horizon as a smooth function of the predicted risk.

Every estimator returns the curve on a grid together with the covariance of its error, which the
metrics and the bands are built from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from cje.checks import check_choice
from cje.errors import CJEError, require_extra
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums
from cje.kernels.incidence import incidence_influence, local_incidence, risk_table
from cje.kernels.kaplan_meier import pseudo_observations
from cje.kernels.local_linear import LocalLinear, cell_means, local_linear, smoother_matrix
from cje.survival.arguments import check_frac
from cje.survival.ipcw import ipcw_weights
from cje.survival.sample import SurvivalSample

__all__ = [
    "METHODS",
    "Method",
    "ObservedRisk",
    "check_method",
    "covariance_of",
    "observed_average",
    "observed_risk",
    "proportion_band",
]

Method = Literal["auto", "pseudo", "ipcw", "conditional", "cox_rcs", "naive"]
METHODS = ("auto", "pseudo", "ipcw", "conditional", "cox_rcs", "naive")
Band = Callable[[float], tuple[FloatArray, FloatArray]]


class ObservedRisk(NamedTuple):
    """Observed risk on a grid of predicted risk."""

    grid: FloatArray  # predicted risk, increasing
    observed: FloatArray  # at the grid, within [0, 1]
    covariance: FloatArray  # of the error of `observed`
    band_covariance: FloatArray  # on the scale on which the band is drawn
    band: Band  # critical value -> (low, high)
    cell_x: FloatArray  # predicted risk of each cell of neighbouring rows
    cell_mass: FloatArray  # share of the weight in each cell
    interpolate: FloatArray  # (cells, grid)
    project: Callable[[FloatArray], FloatArray]  # v (grid,) -> row influences on v @ observed

    @property
    def at_cells(self) -> FloatArray:
        """The curve at the cells."""
        return np.asarray(self.interpolate @ self.observed)

    @property
    def grid_mass(self) -> FloatArray:
        """Share of the weight that each grid point stands for."""
        return np.asarray(self.cell_mass @ self.interpolate)


def check_method(method: str, sample: SurvivalSample) -> str:
    """`method`, ``auto`` resolved for this sample; refused where its assumptions cannot hold.

    Raises
    ------
    CJEError
        Unknown method; a method without support for delayed entry or for competing events.
    """
    if check_choice("method", method, METHODS) == "auto":
        return "pseudo" if sample.entry is None else "conditional"
    if sample.entry is not None and method not in ("conditional", "cox_rcs"):
        raise CJEError(
            "delayed entry needs a method that conditions on the predicted risk",
            where="method", value=method, hint="use the method 'conditional'",
        )  # fmt: skip
    if sample.competing is not None and method == "cox_rcs":
        raise CJEError(
            "cox_rcs does not support competing events: one minus exp(-H) is not their incidence",
            where="method", value=method, hint="use the method 'pseudo' or 'conditional'",
        )  # fmt: skip
    return method


def observed_risk(
    survival: FloatArray,
    sample: SurvivalSample,
    horizon: float,
    *,
    method: str = "pseudo",
    frac: float = 0.3,
    knots: int = 3,
) -> ObservedRisk:
    """Estimate the observed risk by the method named; see `integrated_calibration_index`."""
    check_frac(frac)
    if method == "cox_rcs":
        from cje.survival.cox_spline import cox_spline_risk

        return cox_spline_risk(survival, sample, horizon, frac, knots)
    prepared = local_linear(1.0 - survival, sample.mass, frac=frac)
    if method == "conditional":
        return _conditional(prepared, sample, horizon)
    outcome, weight = _OUTCOMES[method](sample, horizon)
    curve = _smooth_outcome(prepared, outcome, weight, sample)
    if method == "naive":
        robust = _robust_lowess(1.0 - survival, outcome, frac, curve.grid)
        shift = robust - curve.observed
        inner = curve.band

        def band(critical: float) -> tuple[FloatArray, FloatArray]:
            low, high = inner(critical)
            return np.clip(low + shift, 0.0, 1.0), np.clip(high + shift, 0.0, 1.0)

        return curve._replace(observed=np.clip(robust, 0.0, 1.0), band=band)
    return curve


def observed_average(
    survival: FloatArray, sample: SurvivalSample, horizon: float, method: str, frac: float
) -> tuple[float, FloatArray]:
    """Observed risk of the whole sample at the horizon, and each row's influence on it."""
    share = sample.mass / sample.mass.sum()
    if method == "marginal":
        value, derivative = incidence_influence(
            sample.time, sample.any_event, sample.event, np.array([horizon]), sample.weight
        )
        return float(value[0]), sample.mass * derivative[:, 0]
    prepared = local_linear(1.0 - survival, sample.mass, frac=check_frac(frac))
    risk = _conditional(prepared, sample, horizon)
    at_row = risk.at_cells[prepared.cells.code]
    average = float(share @ at_row)
    return average, risk.project(risk.grid_mass) + share * (at_row - average)


def covariance_of(influence: FloatArray, sample: SurvivalSample) -> FloatArray:
    """Covariance of estimates from their row influences (n, m), by cluster where there are any."""
    if sample.cluster is None:
        return np.asarray(influence.T @ influence)
    m = int(sample.cluster.max()) + 1
    sums = cluster_sums(influence, sample.cluster, m)
    return np.asarray(sums.T @ sums) * (m / (m - 1))


def _pseudo(sample: SurvivalSample, horizon: float) -> tuple[FloatArray, FloatArray]:
    values = pseudo_observations(
        sample.time, sample.any_event, horizon, sample.weight, sample.event
    )
    return values, sample.mass


def _ipcw(sample: SurvivalSample, horizon: float) -> tuple[FloatArray, FloatArray]:
    outcome = (sample.event & (sample.time <= horizon)).astype(float)
    return outcome, sample.mass * ipcw_weights(sample, horizon)


def _naive(sample: SurvivalSample, horizon: float) -> tuple[FloatArray, FloatArray]:
    return (sample.event & (sample.time <= horizon)).astype(float), sample.mass


_OUTCOMES: dict[str, Callable[[SurvivalSample, float], tuple[FloatArray, FloatArray]]] = {
    "pseudo": _pseudo,
    "ipcw": _ipcw,
    "naive": _naive,
}


def _smooth_outcome(
    prepared: LocalLinear, outcome: FloatArray, weight: FloatArray, sample: SurvivalSample
) -> ObservedRisk:
    """Local linear smooth of an outcome and the covariance of its error.

    Residuals are inflated by leverage (HC2), so that the variance is not too small at the ends.
    """
    cells, n_cells = prepared.cells, len(prepared.cells.x)
    mass, mean = cell_means(cells, outcome, weight)
    matrix = smoother_matrix(prepared, mass)
    fitted = matrix @ mean
    at_cells = prepared.interpolate @ fitted
    share = np.divide(weight, mass[cells.code], out=np.zeros_like(weight), where=weight > 0)
    residual = share * (outcome - at_cells[cells.code])
    residual /= np.sqrt(1.0 - _leverage(prepared, matrix, share))
    if sample.cluster is None:
        variance = np.bincount(cells.code, weights=residual * residual, minlength=n_cells)
        covariance = (matrix * variance) @ matrix.T
    else:
        covariance = covariance_of(matrix.T[cells.code] * residual[:, None], sample)
    concentration = (matrix * matrix) @ np.bincount(
        cells.code, weights=share * share, minlength=n_cells
    )
    return _proportions(
        prepared,
        fitted,
        covariance,
        concentration,
        lambda v: (v @ matrix)[cells.code] * residual,
    )


def _proportions(
    prepared: LocalLinear,
    fitted: FloatArray,
    covariance: FloatArray,
    concentration: FloatArray,
    project: Callable[[FloatArray], FloatArray],
) -> ObservedRisk:
    """The fitted curve within [0, 1], with the band of a proportion."""
    cells = prepared.cells
    observed = np.clip(fitted, 0.0, 1.0)
    return ObservedRisk(
        prepared.grid,
        observed,
        covariance,
        covariance,
        proportion_band(observed, np.diag(covariance), concentration),
        cells.x,
        cells.weight / cells.weight.sum(),
        prepared.interpolate,
        project,
    )


def _leverage(prepared: LocalLinear, matrix: FloatArray, share: FloatArray) -> FloatArray:
    """Share of its own fitted value that each row determines, at most 0.9."""
    leverage = np.einsum("cg,gc->c", prepared.interpolate, matrix)
    return np.asarray(np.clip(leverage[prepared.cells.code] * share, 0.0, 0.9))


def _conditional(prepared: LocalLinear, sample: SurvivalSample, horizon: float) -> ObservedRisk:
    """Cumulative incidence within neighbourhoods of the predicted risk, local linear weights.

    Hazards are ratios of local sums, so that censoring and entry may depend on the predicted risk,
    and no hazards need to be proportional.
    """
    cells, mass = prepared.cells, sample.mass
    in_cell, _ = cell_means(cells, mass, mass)
    matrix = smoother_matrix(prepared, in_cell)
    per_row = np.divide(matrix, in_cell, out=np.zeros_like(matrix), where=in_cell > 0)
    table = risk_table(sample.time, sample.entry)
    value, influence = local_incidence(
        table, sample.any_event, sample.event, horizon, per_row, cells.code, mass
    )
    share = np.divide(mass, in_cell[cells.code], out=np.zeros_like(mass), where=mass > 0)
    influence /= np.sqrt(1.0 - _leverage(prepared, matrix, share))[:, None]
    covariance = covariance_of(influence, sample)
    concentration = (per_row[:, cells.code] ** 2) @ (mass * mass)
    return _proportions(prepared, value, covariance, concentration, lambda v: influence @ v)


def proportion_band(observed: FloatArray, variance: FloatArray, concentration: FloatArray) -> Band:
    """The union of Wilson's band and an adjusted Wald band.

    Wilson keeps the candidates m with |observed - m| <= c sqrt(k m (1 - m)): each is tested with
    its own variance, which matters where the residuals are few or skewed. k is the sum of squared
    smoothing weights (one over the effective sample size), inflated by what censoring adds to a
    proportion's variance. But an m near 0 or 1 has neighbours in its window that are not, so the
    Wald band, with Agresti and Coull's adjusted variance, is kept beside it.
    """
    adjusted = (observed + 2.0 * concentration) / (1.0 + 4.0 * concentration)
    binomial = adjusted * (1.0 - adjusted) * concentration
    k = concentration * np.maximum(variance / np.where(binomial > 0, binomial, 1.0), 1.0)

    wald = np.sqrt(np.maximum(variance, binomial))

    def band(critical: float) -> tuple[FloatArray, FloatArray]:
        square = critical * critical * k
        centre = (observed + square / 2.0) / (1.0 + square)
        spread = critical * np.sqrt(k * observed * (1.0 - observed) + square * k / 4.0)
        half = spread / (1.0 + square)
        low = np.minimum(centre - half, observed - critical * wald)
        high = np.maximum(centre + half, observed + critical * wald)
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    return band


def _robust_lowess(
    predicted: FloatArray, outcome: FloatArray, frac: float, grid: FloatArray
) -> FloatArray:
    """statsmodels' lowess with its default robust iterations: biased for 0/1 outcomes."""
    module = require_extra(
        "statsmodels.nonparametric.smoothers_lowess", "survival", "the naive ICI"
    )
    order = np.argsort(predicted, kind="stable")
    smooth = module.lowess(outcome, predicted, frac=frac, return_sorted=False)
    return np.asarray(np.interp(grid, predicted[order], smooth[order]))
