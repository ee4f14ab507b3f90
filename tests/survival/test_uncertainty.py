"""Intervals cover, also for folded quantities and a perfect model; bootstrap and optimism work."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.survival import (
    bootstrap_calibration,
    brier_score,
    calibration_curve,
    calibration_in_the_large,
    calibration_slope,
    d_calibration,
    fit_baseline,
    harrell_c,
    integrated_brier_score,
    integrated_calibration_index,
    km_calibration,
    observed_expected_at_horizon,
    optimism_corrected,
    recalibrate,
    time_dependent_auc,
    uno_c,
)
from cje.survival.experiment import CoxPHBaseline, simulate_survival
from cje.survival.experiment.reference import perfect_model


@pytest.mark.parametrize("censoring", [0.0, 0.5])
def test_oe_and_slope_intervals_cover(censoring: float) -> None:
    oe, slope = 0, 0
    for seed in range(400):
        r = perfect_model(seed, censoring, n=500)
        oe += 1.0 in calibration_in_the_large(r.own, r.data.event).interval
        slope += 1.0 in calibration_slope(r.data.log_risk, r.data.time, r.data.event).interval
    # three binomial standard errors around 95%; the 4,000-repetition study is in benchmarks
    assert 0.917 < oe / 400 < 0.983
    assert 0.917 < slope / 400 < 0.983


@pytest.mark.parametrize("method", ["pseudo", "cox_rcs"])
def test_folded_intervals_cover_zero_for_a_perfect_model(method: str) -> None:
    hits = {"ici": 0, "emax": 0}
    high = []
    for seed in range(100):
        r = perfect_model(seed, 0.3, n=600)
        result = integrated_calibration_index(
            r.at_horizon,
            r.data.time,
            r.data.event,
            method=method,  # type: ignore[arg-type]
        )
        hits["ici"] += 0.0 in result.interval
        hits["emax"] += 0.0 in result.emax.interval
        high.append(result.interval.high)
    assert hits["ici"] >= 88
    assert hits["emax"] >= 86
    assert np.mean(high) < 0.12  # covering is easy for an interval without an end


def test_percentile_bootstrap_of_ici_never_covers_a_perfect_model_and_is_refused() -> None:
    r = perfect_model(0, 0.3, n=400)
    draws = bootstrap_calibration(
        r.own, r.data.log_risk, r.at_horizon, r.data.time, r.data.event, n_draws=50
    )
    assert draws.ici.min() > 0
    with pytest.raises(CJEError, match="unknown metric of a percentile interval"):
        draws.interval("ici")


def test_bootstrap_agrees_with_the_influence_standard_errors() -> None:
    r = perfect_model(1, 0.3, n=800)
    time, event = r.data.time, r.data.event
    draws = bootstrap_calibration(
        r.own, r.data.log_risk, r.at_horizon, time, event, n_draws=300, seed=3
    )
    oe = calibration_in_the_large(r.own, event)
    slope = calibration_slope(r.data.log_risk, time, event)
    assert draws.in_the_large.std() == pytest.approx(oe.standard_error, rel=0.15)
    assert draws.slope.std() == pytest.approx(slope.standard_error, rel=0.15)
    assert float(slope) in draws.interval("slope")
    again = bootstrap_calibration(
        r.own, r.data.log_risk, r.at_horizon, time, event, n_draws=300, seed=3
    )
    np.testing.assert_array_equal(draws.ici, again.ici)


def test_bootstrap_takes_weights() -> None:
    r = perfect_model(1, 0.3, n=400)
    time, event, eta = r.data.time, r.data.event, r.data.log_risk
    arrays = (r.own, eta, r.at_horizon, time, event)
    plain = bootstrap_calibration(*arrays, n_draws=20)
    equal = bootstrap_calibration(*arrays, n_draws=20, sample_weight=np.full(400, 3.0))
    for name in ("in_the_large", "slope", "ici"):
        np.testing.assert_allclose(getattr(equal, name), getattr(plain, name), atol=1e-6)
    weight = np.random.default_rng(0).uniform(0, 2, 400)
    draws = bootstrap_calibration(*arrays, n_draws=300, sample_weight=weight)
    oe = calibration_in_the_large(r.own, event, sample_weight=weight)
    slope = calibration_slope(eta, time, event, sample_weight=weight)
    assert draws.in_the_large.mean() == pytest.approx(float(oe), abs=0.02)
    assert draws.in_the_large.std() == pytest.approx(oe.standard_error, rel=0.15)
    assert draws.slope.std() == pytest.approx(slope.standard_error, rel=0.15)


def test_bootstrap_of_clusters_counts_five_copies_of_a_row_once() -> None:
    r = perfect_model(1, 0.3, n=300)
    copies = np.repeat(np.arange(300), 5)
    arrays = [a[copies] for a in (r.own, r.data.log_risk, r.at_horizon, r.data.time, r.data.event)]
    clustered = bootstrap_calibration(*arrays, groups=copies, n_draws=200)
    naive = bootstrap_calibration(*arrays, n_draws=200)
    oe = calibration_in_the_large(r.own, r.data.event)
    assert clustered.in_the_large.std() == pytest.approx(oe.standard_error, rel=0.2)
    assert naive.in_the_large.std() < 0.6 * oe.standard_error
    renamed = bootstrap_calibration(*arrays, groups=(7 * copies) % 1009, n_draws=20)
    again = bootstrap_calibration(*arrays, groups=copies, n_draws=20)
    np.testing.assert_array_equal(renamed.slope, again.slope)
    with pytest.raises(CJEError, match="groups"):
        bootstrap_calibration(*arrays, groups=copies[:5])


def test_optimism_of_clusters_is_that_of_the_rows_they_copy() -> None:
    data = simulate_survival("gaussian", 120, seed=7, correlation=0.0)
    copies = np.repeat(np.arange(120), 3)
    rows = (data.x, data.time, data.event)
    plain = optimism_corrected(CoxPHBaseline, *rows, n_bootstrap=40)
    tripled = [a[copies] for a in rows]
    whole = optimism_corrected(CoxPHBaseline, *tripled, groups=copies, n_bootstrap=40)
    naive = optimism_corrected(CoxPHBaseline, *tripled, n_bootstrap=40)
    assert whole["slope"].optimism == pytest.approx(plain["slope"].optimism, rel=0.25)
    assert naive["slope"].optimism < 0.6 * plain["slope"].optimism


def test_standard_errors_of_the_other_metrics_match_their_spread() -> None:
    values, errors = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        eta = 0.6 * rng.normal(size=250)
        latent = 2 * np.sqrt(rng.exponential(size=250) * np.exp(-eta))
        limit = rng.exponential(4.0, size=250)
        time, event = np.minimum(latent, limit), latent <= limit
        grid = np.array([0.5, 1.0, 1.5])
        matrix = np.exp(-np.outer(np.exp(eta), (grid / 2) ** 2))
        parts = [
            harrell_c(eta, time, event),
            uno_c(eta, time, event, tau=2.5),
            time_dependent_auc(eta, time, event, 1.5),
            brier_score(matrix[:, 2], time, event, 1.5),
            integrated_brier_score(matrix, grid, time, event),
            observed_expected_at_horizon(matrix[:, 2], time, event, 1.5),
        ]
        values.append([p.value for p in parts])
        errors.append([p.standard_error for p in parts])
    ratio = np.mean(errors, axis=0) / np.std(values, axis=0)
    assert np.all((ratio > 0.84) & (ratio < 1.19)), ratio


def test_d_calibration_keeps_its_size_under_censoring_where_pearson_does_not() -> None:
    robust = pearson = covered = 0
    for seed in range(400):
        r = perfect_model(seed, 0.5, n=300)
        result = d_calibration(r.own, r.data.event)
        robust += result.details["p_value"] < 0.05
        covered += 0.0 in result.interval
        pearson += d_calibration(r.own, r.data.event, test="pearson").details["p_value"] < 0.05
    assert 0.02 <= robust / 400 <= 0.085
    assert pearson / 400 < 0.01
    assert covered / 400 > 0.91


def test_km_calibration_covers_zero_for_a_perfect_model() -> None:
    hits = 0
    times = np.array([0.4, 0.8, 1.2])
    for seed in range(150):
        r = perfect_model(seed, 0.3, n=300)
        matrix = np.column_stack([r.data.true_survival(t) for t in times])
        hits += 0.0 in km_calibration(matrix, times, r.data.time, r.data.event).interval
    assert 0.89 <= hits / 150 <= 0.995


def test_curve_has_a_simultaneous_band_that_holds_the_diagonal() -> None:
    r = perfect_model(2, 0.3)
    curve = calibration_curve(r.at_horizon, r.data.time, r.data.event)
    assert curve.band == "simultaneous"
    assert curve.low is not None
    assert curve.high is not None
    assert np.all((curve.low <= curve.observed) & (curve.observed <= curve.high))
    assert np.all((curve.low <= curve.x) & (curve.x <= curve.high))
    assert curve.counts is not None
    assert curve.counts.sum() == pytest.approx(1000)
    off = calibration_curve(r.at_horizon**3, r.data.time, r.data.event)
    assert off.high is not None
    assert np.any(off.high < off.x)


def test_recalibration_restores_slope_and_oe_on_new_data() -> None:
    ratios, slopes = [], []
    for seed in range(10):
        data = simulate_survival("gaussian", 2000, seed=seed, correlation=0.0)
        first, last = slice(0, 1000), slice(1000, 2000)
        bad = 2.0 * data.log_risk + 1.0
        fixed = recalibrate(bad[first], data.time[first], data.event[first])
        time, event = data.time[last], data.event[last]
        own = fixed.own_survival(bad[last], time)
        ratios.append(float(calibration_in_the_large(own, event)))
        slopes.append(float(calibration_slope(fixed.log_risk(bad[last]), time, event)))
        matrix = fixed.survival(bad[:20], time[:20])
        np.testing.assert_allclose(np.diag(matrix), fixed.own_survival(bad[:20], time[:20]))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.055)  # three standard errors
    assert np.mean(slopes) == pytest.approx(1.0, abs=0.055)


def test_baseline_recovers_the_true_cumulative_hazard() -> None:
    data = simulate_survival("gaussian", 5000, seed=6)
    baseline = fit_baseline(data.log_risk, data.time, data.event)
    np.testing.assert_allclose(baseline.at([1.0, 2.0]), [0.25, 1.0], rtol=0.1)
    assert baseline.at(0.0) == 0.0


def test_optimism_correction_moves_an_overfitted_model_towards_the_truth() -> None:
    data = simulate_survival("gaussian", 2000, seed=7, correlation=0.0)
    train, test = slice(0, 150), slice(150, 2000)
    result = optimism_corrected(
        CoxPHBaseline, data.x[train], data.time[train], data.event[train], n_bootstrap=40
    )
    model = CoxPHBaseline().fit(data.x[train], data.time[train], data.event[train])
    score = model.predict_log_risk(data.x[test])
    honest = float(calibration_slope(score, data.time[test], data.event[test]))
    slope = result["slope"]
    assert slope.apparent == pytest.approx(1.0, abs=0.02)
    assert abs(float(slope) - honest) < abs(slope.apparent - honest)
    assert result["c"].corrected < result["c"].apparent
    assert result["ici"].corrected > result["ici"].apparent
    last = float(data.time[train].max())
    with pytest.raises(CJEError, match=r"bootstrap sample.*inside the follow-up.*of 20"):
        optimism_corrected(
            CoxPHBaseline, data.x[train], data.time[train], data.event[train], last, n_bootstrap=20
        )
    with pytest.raises(CJEError, match="n_bootstrap must be a whole number of at least 2"):
        optimism_corrected(
            CoxPHBaseline, data.x[train], data.time[train], data.event[train], n_bootstrap=1
        )
