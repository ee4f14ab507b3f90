"""Does censoring follow the predicted risk? The assumption behind Kaplan-Meier-based metrics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from cje.checks import check_number, check_probabilities
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.metrics import CENSORING_DEPENDS_ON_RISK
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums
from cje.kernels.cox import CoxFit, cox_fit, cox_score_residuals, risk_sets
from cje.kernels.smooth import natural_spline_basis
from cje.survival.sample import SurvivalSample
from cje.survival.slope import from_survival

__all__ = ["CensoringTest", "censoring_findings", "censoring_test", "spline_of_risk"]

# Harrell's knot positions for 3, 4 and 5 knots.
KNOTS = {3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95), 5: (0.05, 0.275, 0.5, 0.725, 0.95)}


class CensoringTest(NamedTuple):
    """Likelihood-ratio test of the censoring hazard on a spline of the predicted risk."""

    statistic: float
    df: int
    p_value: float
    spread: float  # standard deviation of the fitted log-hazard of censoring
    hazard_ratio: float  # of censoring, 75th against 25th percentile of predicted risk


def spline_of_risk(cloglog: FloatArray, n_knots: int = 3) -> tuple[FloatArray, FloatArray]:
    """Restricted cubic spline basis of cloglog risk and its knots; plain linear where they tie."""
    knots = np.unique(np.quantile(cloglog, KNOTS[n_knots]))
    if len(knots) < 3:
        return cloglog[:, None], knots
    return natural_spline_basis(cloglog, knots), knots


def censoring_test(
    survival: ArrayLike, sample: SurvivalSample, horizon: float
) -> CensoringTest | None:
    """Cox model of the censoring time, up to the horizon, on the predicted risk.

    Returns None where nothing can be tested: fewer than ten rows are censored by then, or every
    prediction is the same. Follow-up is cut at the horizon because only earlier censoring matters.
    Weights only select rows (those above zero): the likelihood-ratio test has its distribution for
    whole subjects only. With clusters the statistic is Wald's, with the sandwich variance by
    cluster.
    """
    if not isinstance(sample, SurvivalSample):
        raise CJEError("sample must come from survival_sample", where="sample", value=sample)
    last = check_number("the horizon", horizon, where="horizon")
    survival = check_probabilities("survival", survival, n=len(sample))[sample.counted]
    observed = sample.time[sample.counted]
    censored = ~sample.any_event[sample.counted] & (observed < last)
    if int(censored.sum()) < 10 or float(np.ptp(survival)) == 0:
        return None
    basis, _ = spline_of_risk(from_survival(survival))
    basis = (basis - basis.mean(axis=0)) / basis.std(axis=0)
    entry = None if sample.entry is None else np.minimum(sample.entry[sample.counted], last)
    sets = risk_sets(np.minimum(observed, last), censored, entry)
    null = cox_fit(basis, sets, max_iter=0)
    fit = cox_fit(basis, sets, ridge=1e-6, max_iter=15, tol=1e-5)
    statistic = max(2.0 * (fit.log_likelihood - null.log_likelihood), 0.0)
    if sample.cluster is not None:
        residual = cox_score_residuals(basis, sets, fit.beta)
        statistic = _robust_wald(fit, residual, sample.cluster[sample.counted])
    df = basis.shape[1]
    score = basis @ fit.beta
    order = np.argsort(survival)
    low, high = score[order[3 * len(order) // 4]], score[order[len(order) // 4]]
    ratio = float(np.exp(np.clip(high - low, -20, 20)))
    return CensoringTest(statistic, df, float(chdtrc(df, statistic)), float(score.std()), ratio)


def _robust_wald(fit: CoxFit, residual: FloatArray, cluster: IntArray) -> float:
    sums = cluster_sums(residual, cluster, int(cluster.max()) + 1)
    move = fit.information @ fit.beta
    return float(move @ np.linalg.pinv(sums.T @ sums) @ move)


def censoring_findings(
    survival: FloatArray, sample: SurvivalSample, horizon: float, metric: str
) -> tuple[Finding, ...]:
    """A warning where censoring before the horizon follows the predicted risk, else nothing."""
    test = censoring_test(survival, sample, horizon)
    # Both are required: at large n a negligible dependence is significant too.
    if (
        test is None
        or test.p_value >= CENSORING_DEPENDS_ON_RISK["p_value"]
        or test.spread < CENSORING_DEPENDS_ON_RISK["spread"]
    ):
        return ()
    return (
        CENSORING_DEPENDS_ON_RISK.finding(metric=metric, details=test._asdict(), **test._asdict()),
    )
