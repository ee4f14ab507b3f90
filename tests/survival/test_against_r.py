"""Values equal those of R's survival, riskRegression, cmprsk and prodlim (fixtures/)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cje.kernels.incidence import incidence_influence
from cje.kernels.kaplan_meier import pseudo_observations
from cje.survival import (
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    from_survival,
    harrell_c,
    index_of_prediction_accuracy,
    integrated_calibration_index,
    observed_expected_at_horizon,
    survival_sample,
    time_dependent_auc,
)
from cje.survival.cox_spline import proportional_hazards_test
from cje.survival.result import spread_of
from tests.survival.r_values import r_values, table

GBSG, MGUS2 = table("gbsg"), table("mgus2")
R_GBSG, R_MGUS2 = r_values()["gbsg"], r_values()["mgus2"]
FOLLOW_UP = (GBSG["years"], GBSG["event"])
COMPETING: dict[str, Any] = {"cause": 1}


def test_the_external_validation_on_gbsg_has_its_published_values() -> None:
    oe = observed_expected_at_horizon(GBSG["s5"], *FOLLOW_UP, 5.0)
    assert float(oe) == pytest.approx(1.0173902, abs=5e-8)
    assert float(oe) == pytest.approx(R_GBSG["oe_at_5"], abs=1e-10)
    slope = calibration_slope(GBSG["lp"], *FOLLOW_UP)
    assert float(slope) == pytest.approx(1.0562040, abs=5e-8)
    brier = brier_score(GBSG["s499"], *FOLLOW_UP, 4.99)
    assert float(brier) == pytest.approx(0.2247775, abs=5e-8)
    ipa = index_of_prediction_accuracy(GBSG["s499"], *FOLLOW_UP, 4.99)
    assert float(ipa) == pytest.approx(0.1006387, abs=5e-8)


def test_oe_at_own_times_equals_predict_expected() -> None:
    result = calibration_in_the_large(GBSG["own"], GBSG["event"])
    assert float(result) == pytest.approx(R_GBSG["oe_own"], abs=1e-10)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("slope", {}),
        ("slope_clustered", {"groups": "centre"}),
        ("slope_strata", {"strata": "grade3"}),
        ("slope_entry", {"entry": "entry"}),
    ],
)
def test_slope_and_its_robust_standard_error_equal_coxph(key: str, options: dict[str, str]) -> None:
    columns: dict[str, Any] = {name: GBSG[column] for name, column in options.items()}
    mine, r = calibration_slope(GBSG["lp"], *FOLLOW_UP, **columns), R_GBSG[key]
    units = 40 if "groups" in options else len(GBSG["lp"])
    assert float(mine) == pytest.approx(r["coef"], abs=1e-9)
    assert mine.details["model_se"] == pytest.approx(r["se"], abs=1e-10)
    # R does not multiply by units / (units - 1)
    assert mine.standard_error == pytest.approx(
        r["robust"] * np.sqrt(units / (units - 1)), abs=1e-10
    )


@pytest.mark.parametrize("key", ["c", "c_clustered", "c_entry"])
def test_concordance_equals_survivals(key: str) -> None:
    options: dict[str, Any] = {
        "c": {}, "c_clustered": {"groups": GBSG["centre"]}, "c_entry": {"entry": GBSG["entry"]},
    }[key]  # fmt: skip
    mine, r = harrell_c(GBSG["lp"], *FOLLOW_UP, **options), R_GBSG[key]
    assert float(mine) == pytest.approx(r["value"], abs=1e-10)
    assert mine.standard_error == pytest.approx(r["se"], rel=0.03)


def test_kaplan_meier_with_delayed_entry_equals_survfit() -> None:
    event = GBSG["event"] == 1
    risk, derivative = incidence_influence(
        GBSG["years"], event, event, np.array([3.0]), None, GBSG["entry"]
    )
    assert 1 - risk[0] == pytest.approx(R_GBSG["km_entry_3"], abs=1e-12)
    assert spread_of(derivative[:, 0]).se == pytest.approx(R_GBSG["km_entry_3_se"], rel=0.01)


def test_pseudo_observations_equal_survivals() -> None:
    values = pseudo_observations(GBSG["years"], GBSG["event"] == 1, 3.0)
    np.testing.assert_allclose(values[:10], R_GBSG["pseudo_first"], atol=1e-10)


def _score_row(block: list[dict[str, Any]], model: str, t: float) -> dict[str, Any]:
    return next(row for row in block if row["model"] == model and row["times"] == t)


@pytest.mark.parametrize(("column", "t"), [("s1", 1.0), ("s3", 3.0), ("s499", 4.99)])
def test_brier_ipa_and_auc_equal_risk_regression(column: str, t: float) -> None:
    brier = _score_row(R_GBSG["score"]["brier"], "m", t)
    mine = brier_score(GBSG[column], *FOLLOW_UP, t)
    assert float(mine) == pytest.approx(brier["Brier"], abs=1e-10)
    assert mine.standard_error == pytest.approx(brier["se"], rel=0.005)
    ipa = index_of_prediction_accuracy(GBSG[column], *FOLLOW_UP, t)
    assert float(ipa) == pytest.approx(brier["IPA"], abs=1e-9)
    auc = _score_row(R_GBSG["score"]["auc"], "m", t)
    mine = time_dependent_auc(1 - GBSG[column], *FOLLOW_UP, t)
    assert float(mine) == pytest.approx(auc["AUC"], abs=1e-10)
    assert mine.standard_error == pytest.approx(auc["se"], rel=0.01)


def test_the_curve_on_a_cox_spline_equals_coxph() -> None:
    index = integrated_calibration_index(GBSG["s499"], *FOLLOW_UP, 4.99, method="cox_rcs")
    # the same curve; here it is averaged over at most 500 cells and a grid of 64 points
    assert float(index) == pytest.approx(R_GBSG["rcs"]["ici"], abs=3e-4)
    assert float(index.emax) == pytest.approx(R_GBSG["rcs"]["emax"], abs=1e-3)


def test_non_proportional_hazards_on_gbsg_are_found_as_cox_zph_finds_them() -> None:
    sample = survival_sample(*FOLLOW_UP)
    test = proportional_hazards_test(GBSG["s499"], sample, 4.99, 3)
    assert R_GBSG["zph"]["p"] < 0.01
    assert test.p_value < 0.05
    index = integrated_calibration_index(GBSG["s499"], *FOLLOW_UP, 4.99, method="cox_rcs")
    assert [finding.code for finding in index.findings] == ["proportional-hazards"]


@pytest.mark.parametrize(("k", "t"), [(0, 60.0), (1, 120.0)])
def test_aalen_johansen_and_its_standard_error_equal_survfit(k: int, t: float) -> None:
    status = MGUS2["status"]
    value, derivative = incidence_influence(MGUS2["time"], status > 0, status == 1, np.array([t]))
    assert value[0] == pytest.approx(R_MGUS2["aj"][k], abs=1e-12)
    n = len(status)
    assert np.sqrt((derivative[:, 0] ** 2).sum()) == pytest.approx(R_MGUS2["aj_se"][k], abs=1e-12)
    oe = observed_expected_at_horizon(
        1 - MGUS2[f"fg{t:.0f}"], MGUS2["time"], status, t, **COMPETING
    )
    assert float(oe) == pytest.approx(R_MGUS2["oe"][k], abs=1e-9)
    assert oe.n == n


def test_pseudo_observations_of_the_incidence_equal_prodlims_jackknife() -> None:
    status = MGUS2["status"]
    mine = pseudo_observations(MGUS2["time"], status > 0, 120.0, None, status == 1)
    # the infinitesimal jackknife is the leave-one-out one up to 1/n
    np.testing.assert_allclose(mine[:20], R_MGUS2["jackknife_first"], atol=1e-4)


def test_the_cause_specific_slope_equals_coxph_and_own_time_oe_predict() -> None:
    r = R_MGUS2["cause_specific"]
    mine = calibration_slope(MGUS2["lp1"], MGUS2["time"], MGUS2["status"], **COMPETING)
    assert float(mine) == pytest.approx(r["coef"], abs=1e-9)
    n = len(MGUS2["time"])
    assert mine.standard_error == pytest.approx(r["robust"] * np.sqrt(n / (n - 1)), abs=1e-10)
    oe = calibration_in_the_large(MGUS2["own"], MGUS2["status"], **COMPETING)
    assert float(oe) == pytest.approx(R_MGUS2["oe_own"], abs=1e-9)


def test_the_subdistribution_slope_equals_crr() -> None:
    score = from_survival(1 - MGUS2["fg120"])
    time, status = MGUS2["time"], MGUS2["status"]
    for key, when, tolerance in (
        # crr keeps a death in the risk set of censorings at its own time: ties differ slightly
        ("subdistribution", time, 1e-3),
        ("subdistribution_untied", time + np.arange(1, len(time) + 1) * 1e-5, 1e-7),
    ):
        mine = calibration_slope(score, when, status, hazard="subdistribution", **COMPETING)
        assert float(mine) == pytest.approx(R_MGUS2[key]["coef"], abs=tolerance)
        assert mine.standard_error == pytest.approx(R_MGUS2[key]["se"], rel=2e-3)


@pytest.mark.parametrize("t", [60.0, 120.0])
def test_brier_ipa_and_auc_with_competing_risks_equal_risk_regression(t: float) -> None:
    survival = 1 - MGUS2[f"fg{t:.0f}"]
    follow_up = (MGUS2["time"], MGUS2["status"], t)
    brier = _score_row(R_MGUS2["score"]["brier"], "fg", t)
    mine = brier_score(survival, *follow_up, **COMPETING)
    assert float(mine) == pytest.approx(brier["Brier"], abs=1e-10)
    assert mine.standard_error == pytest.approx(brier["se"], rel=0.005)
    ipa = index_of_prediction_accuracy(survival, *follow_up, **COMPETING)
    assert float(ipa) == pytest.approx(brier["IPA"], abs=1e-9)
    auc = _score_row(R_MGUS2["score"]["auc"], "fg", t)
    mine = time_dependent_auc(1 - survival, *follow_up, **COMPETING)
    assert float(mine) == pytest.approx(auc["AUC"], abs=1e-10)
    assert mine.standard_error == pytest.approx(auc["se"], rel=0.01)
