"""Observed risk at a horizon as a smooth function of the predicted risk, four ways.

Every estimator returns the curve on a grid together with the covariance of its error, which the
metrics and the bands are built from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from cje.checks import check_choice
from cje.errors import CJEError, require_extra
from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.cox import cox_fit, cox_hazard_influence, risk_sets
from cje.kernels.kaplan_meier import censoring_influence, censoring_survival, pseudo_observations
from cje.kernels.local_linear import LocalLinear, cell_means, local_linear, smoother_matrix
from cje.kernels.smooth import natural_spline_basis
from cje.survival.censoring import spline_of_risk
from cje.survival.sample import SurvivalSample, check_frac
from cje.survival.slope import from_survival

__all__ = ["METHODS", "Method", "ObservedRisk", "observed_risk"]

Method = Literal["pseudo", "ipcw", "cox_rcs", "naive"]


class ObservedRisk(NamedTuple):
    """Observed risk on a grid of predicted risk."""

    grid: FloatArray  # predicted risk, increasing
    observed: FloatArray  # at the grid, within [0, 1]
    covariance: FloatArray  # of the error of `observed`
    band_covariance: FloatArray  # on the scale on which the band is drawn
    band: Callable[[float], tuple[FloatArray, FloatArray]]  # critical value -> (low, high)
    cell_x: FloatArray  # predicted risk of each cell of neighbouring rows
    cell_mass: FloatArray  # share of the weight in each cell
    interpolate: FloatArray  # (cells, grid)

    @property
    def at_cells(self) -> FloatArray:
        """The curve at the cells."""
        return np.asarray(self.interpolate @ self.observed)

    @property
    def grid_mass(self) -> FloatArray:
        """Share of the weight that each grid point stands for."""
        return np.asarray(self.cell_mass @ self.interpolate)


def observed_risk(
    survival: FloatArray,
    sample: SurvivalSample,
    horizon: float,
    *,
    method: Method = "pseudo",
    frac: float = 0.3,
    knots: int = 3,
) -> ObservedRisk:
    """Estimate the observed risk by the method named; see `integrated_calibration_index`."""
    check_frac(frac)
    if check_choice("method", method, METHODS) == "cox_rcs":
        return _cox_rcs(survival, sample, horizon, frac, knots)
    prepared = local_linear(1.0 - survival, sample.mass, frac=frac)
    outcome, weight = _OUTCOMES[method](sample, horizon)
    curve = smooth_outcome(prepared, outcome, weight)
    if method == "naive":
        return curve._replace(observed=_robust_lowess(1.0 - survival, outcome, frac, curve.grid))
    return curve


def _pseudo(sample: SurvivalSample, horizon: float) -> tuple[FloatArray, FloatArray]:
    return pseudo_observations(sample.time, sample.event, horizon, sample.weight), sample.mass


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
METHODS = ("pseudo", "ipcw", "cox_rcs", "naive")


def event_free(sample: SurvivalSample, horizon: float) -> BoolArray:
    """Rows known to be event-free at the horizon.

    Deaths come before censorings at one time, so a row censored at the horizon itself is known to
    have reached it: the end of a study, where everybody left is censored, is such a time.
    """
    return np.asarray((sample.time > horizon) | (~sample.event & (sample.time == horizon)))


def ipcw_weights(
    sample: SurvivalSample, horizon: float, reference: SurvivalSample | None = None
) -> FloatArray:
    r"""Inverse probability of being uncensored: :math:`1/G(\min(T_i,t)-)` for those whose state at
    the horizon is known (an event by then, or `event_free`), 0 for those censored before.

    `reference` is the sample whose censoring distribution is used (`sample` itself by default).
    """
    source = sample if reference is None else reference
    known = (sample.event | (sample.time >= horizon)) & sample.counted
    g = censoring_survival(source.time, source.event, source.weight)
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
        sample.time, sample.event, coefficient, at, sample.weight
    )


def smooth_outcome(prepared: LocalLinear, outcome: FloatArray, weight: FloatArray) -> ObservedRisk:
    """Local linear smooth of an outcome and the covariance of its error.

    Residuals are inflated by leverage (HC2), so that the variance is not too small at the ends.
    """
    cells, n_cells = prepared.cells, len(prepared.cells.x)
    mass, mean = cell_means(cells, outcome, weight)
    matrix = smoother_matrix(prepared, mass)
    fitted = matrix @ mean
    at_cells = prepared.interpolate @ fitted
    leverage = np.einsum("cg,gc->c", prepared.interpolate, matrix)
    share = np.divide(weight, mass[cells.code], out=np.zeros_like(weight), where=weight > 0)
    residual = share * (outcome - at_cells[cells.code])
    residual /= np.sqrt(1.0 - np.clip(leverage[cells.code] * share, 0.0, 0.9))
    variance = np.bincount(cells.code, weights=residual * residual, minlength=n_cells)
    covariance = (matrix * variance) @ matrix.T
    concentration = (matrix * matrix) @ np.bincount(
        cells.code, weights=share * share, minlength=n_cells
    )
    observed = np.clip(fitted, 0.0, 1.0)
    return ObservedRisk(
        prepared.grid,
        observed,
        covariance,
        covariance,
        _proportion_band(observed, np.diag(covariance), concentration),
        cells.x,
        cells.weight / cells.weight.sum(),
        prepared.interpolate,
    )


def _proportion_band(
    observed: FloatArray, variance: FloatArray, concentration: FloatArray
) -> Callable[[float], tuple[FloatArray, FloatArray]]:
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


def _cox_rcs(
    survival: FloatArray, sample: SurvivalSample, horizon: float, frac: float, n_knots: int
) -> ObservedRisk:
    """Cox regression on a restricted cubic spline of cloglog risk; delta-method covariance."""
    if not isinstance(n_knots, int) or n_knots not in (3, 4, 5):
        raise CJEError("cox_rcs takes 3, 4 or 5 knots", where="knots", value=n_knots)
    prepared = local_linear(1.0 - survival, sample.mass, frac=frac)
    # survival below 1e-15 cannot be told from 0 on the risk scale of the grid
    cloglog = from_survival(np.clip(survival, 1e-15, 1 - 1e-15))
    if float(np.ptp(cloglog)) == 0:
        raise CJEError("every prediction is the same: cox_rcs has nothing to regress on",
                       where="survival_probs_at_t", value=float(survival[0]),
                       hint="use method='pseudo'")  # fmt: skip
    basis, places = spline_of_risk(cloglog, n_knots)
    grid_cloglog = from_survival(np.clip(1.0 - prepared.grid, 1e-15, 1 - 1e-15))
    grid_basis = (
        natural_spline_basis(grid_cloglog, places) if len(places) > 2 else grid_cloglog[:, None]
    )
    scale = basis.std(axis=0)
    sets = risk_sets(sample.time, sample.event)
    unit = float(sample.mass.mean())
    fit = cox_fit(basis / scale, sets, sample.weight, ridge=1e-8 * unit)
    # where the risks order the events perfectly the likelihood rises for ever, ever more flatly
    if not fit.converged or float(np.linalg.eigvalsh(fit.information)[0]) < 1e-6 * unit:
        raise CJEError("the Cox spline has no finite estimate", where="method='cox_rcs'",
                       value=f"{sample.n_events} events", hint="use fewer knots")  # fmt: skip
    log_hazard, influence = cox_hazard_influence(
        basis / scale, sets, fit, horizon, grid_basis / scale, sample.weight
    )
    hazard = np.exp(log_hazard)
    log_covariance = influence.T @ influence
    log_se = np.sqrt(np.diag(log_covariance))
    slope = np.exp(-hazard) * hazard  # d(1 - exp(-H)) = exp(-H) H dlogH

    def band(critical: float) -> tuple[FloatArray, FloatArray]:
        margin = np.clip(critical * log_se, 0.0, 50.0)
        low, high = hazard * np.exp(-margin), hazard * np.exp(margin)
        return -np.expm1(-low), -np.expm1(-high)

    cells = prepared.cells
    return ObservedRisk(
        prepared.grid,
        -np.expm1(-hazard),
        log_covariance * np.outer(slope, slope),
        log_covariance,
        band,
        cells.x,
        cells.weight / cells.weight.sum(),
        prepared.interpolate,
    )


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
