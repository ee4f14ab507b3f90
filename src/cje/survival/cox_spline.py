"""Observed risk by a Cox regression on a spline of the predicted risk (Austin et al. 2020)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.metrics import PROPORTIONAL_HAZARDS
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums
from cje.kernels.cox import (
    CoxFit,
    RiskSets,
    cox_fit,
    cox_hazard_influence,
    cox_time_score,
    risk_sets,
)
from cje.kernels.local_linear import local_linear
from cje.kernels.smooth import natural_spline_basis
from cje.survival.censoring import spline_of_risk
from cje.survival.observed import ObservedRisk, covariance_of
from cje.survival.sample import SurvivalSample
from cje.survival.slope import from_survival

__all__ = ["ProportionalHazardsTest", "cox_spline_risk", "hazards_findings"]


class ProportionalHazardsTest(NamedTuple):
    """Score test of the fitted log-hazard times (ranked) time."""

    statistic: float
    p_value: float


class _Spline(NamedTuple):
    basis: FloatArray
    scale: FloatArray
    places: FloatArray
    sets: RiskSets
    fit: CoxFit


def cox_spline_risk(
    survival: FloatArray, sample: SurvivalSample, horizon: float, frac: float, n_knots: int
) -> ObservedRisk:
    """Cox regression on a restricted cubic spline of cloglog risk; delta-method covariance.

    Follow-up is cut at the horizon: only proportional hazards before it is assumed.
    """
    prepared = local_linear(1.0 - survival, sample.mass, frac=frac)
    spline = _fit(survival, sample, horizon, n_knots)
    grid_cloglog = from_survival(np.clip(1.0 - prepared.grid, 1e-15, 1 - 1e-15))
    grid_basis = (
        natural_spline_basis(grid_cloglog, spline.places)
        if len(spline.places) > 2
        else grid_cloglog[:, None]
    )
    log_hazard, influence = cox_hazard_influence(
        spline.basis, spline.sets, spline.fit, horizon, grid_basis / spline.scale, sample.weight
    )
    hazard = np.exp(log_hazard)
    log_covariance = covariance_of(influence, sample)
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
        lambda v: influence @ (slope * v),
    )


def _fit(survival: FloatArray, sample: SurvivalSample, horizon: float, n_knots: int) -> _Spline:
    if not isinstance(n_knots, int) or n_knots not in (3, 4, 5):
        raise CJEError("cox_rcs takes 3, 4 or 5 knots", where="knots", value=n_knots)
    # survival below 1e-15 rounds to 0 on the risk scale of the grid
    cloglog = from_survival(np.clip(survival, 1e-15, 1 - 1e-15))
    if float(np.ptp(cloglog)) == 0:
        raise CJEError("every prediction is the same: cox_rcs has nothing to regress on",
                       where="survival_probs_at_t", value=float(survival[0]),
                       hint="use the method 'pseudo'")  # fmt: skip
    basis, places = spline_of_risk(cloglog, n_knots)
    scale = basis.std(axis=0)
    event = sample.event & (sample.time <= horizon)
    sets = risk_sets(np.minimum(sample.time, horizon), event, _entry(sample, horizon))
    unit = float(sample.mass.mean())
    fit = cox_fit(basis / scale, sets, sample.weight, ridge=1e-8 * unit)
    # where the risks order the events perfectly the likelihood has no maximum
    if not fit.converged or float(np.linalg.eigvalsh(fit.information)[0]) < 1e-6 * unit:
        raise CJEError("the Cox spline has no finite estimate", where="method='cox_rcs'",
                       value=f"{int(event.sum())} events by the horizon",
                       hint="use fewer knots, or the method 'conditional'")  # fmt: skip
    return _Spline(basis / scale, scale, places, sets, fit)


def _entry(sample: SurvivalSample, horizon: float) -> FloatArray | None:
    """Entry times; a row that enters after the horizon is never at risk before it."""
    return None if sample.entry is None else np.minimum(sample.entry, horizon)


def proportional_hazards_test(
    survival: FloatArray, sample: SurvivalSample, horizon: float, n_knots: int
) -> ProportionalHazardsTest:
    r"""Does the effect of the predicted risk change with time before the horizon?

    Score test of the product :math:`\hat\eta\,g(t)` of the fitted log-hazard and the rank of the
    event time, with a robust variance (by cluster where there are any).

    References
    ----------
    Grambsch & Therneau (1994), Biometrika 81, 515-526.
    """
    spline = _fit(survival, sample, horizon, n_knots)
    linear = (spline.basis @ spline.fit.beta)[:, None]
    fit = cox_fit(linear, spline.sets, sample.weight)
    g = spline.sets.group[: len(spline.sets.deaths)].astype(np.float64)
    g = (g - g.mean()) / (g.std() or 1.0)
    total, residual = cox_time_score(linear, spline.sets, fit, g, sample.weight)
    if sample.cluster is not None:
        residual = cluster_sums(residual, sample.cluster, int(sample.cluster.max()) + 1)
    statistic = float(total @ np.linalg.pinv(residual.T @ residual) @ total)
    return ProportionalHazardsTest(statistic, float(chdtrc(1, statistic)))


def hazards_findings(
    survival: FloatArray, sample: SurvivalSample, horizon: float, n_knots: int
) -> tuple[Finding, ...]:
    """A warning where proportional hazards fails before the horizon, else nothing."""
    test = proportional_hazards_test(survival, sample, horizon, n_knots)
    if test.p_value >= PROPORTIONAL_HAZARDS["p_value"]:
        return ()
    return (PROPORTIONAL_HAZARDS.finding(details=test._asdict(), p_value=test.p_value),)
