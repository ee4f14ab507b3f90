"""What each metric must give: reference values, identities, peers, weights."""

from __future__ import annotations

import numpy as np
import pytest

from cje.survival import (
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    d_calibration,
    from_survival,
    harrell_c,
    integrated_brier_score,
    integrated_calibration_index,
    km_calibration,
    observed_expected_at_horizon,
    survival_sample,
    time_dependent_auc,
    uno_c,
)
from cje.survival.brier import _brier
from cje.survival.experiment.reference import dependent_censoring, perfect_model


@pytest.mark.parametrize(("censoring", "wrong"), [(0.0, 1.99), (0.3, 1.82), (0.5, 1.71)])
def test_a_perfect_model_has_its_reference_values(censoring: float, wrong: float) -> None:
    rows = []
    for seed in range(60):
        r = perfect_model(seed, censoring)
        time, event = r.data.time, r.data.event
        rows.append(
            [
                float(calibration_in_the_large(r.own, event)),
                float(calibration_in_the_large(r.own, event, expected="one_minus_survival")),
                float(integrated_calibration_index(r.at_horizon, time, event)),
                float(calibration_slope(r.data.log_risk, time, event)),
                float(observed_expected_at_horizon(r.at_horizon, time, event)),
            ]
        )
    oe, oe_wrong, ici, slope, oe_horizon = np.mean(rows, axis=0)
    assert 0.98 < oe < 1.02
    assert abs(oe_wrong - wrong) < 0.04
    assert 0.015 < ici < 0.027
    assert abs(slope - 1) < 0.02
    assert 0.98 < oe_horizon < 1.02


def test_the_naive_ici_of_a_perfect_model_is_many_times_too_large() -> None:
    for censoring in (0.0, 0.3, 0.5):
        ratios = []
        for seed in range(3):
            r = perfect_model(seed, censoring)
            naive, right = (
                float(
                    integrated_calibration_index(
                        r.at_horizon, r.data.time, r.data.event, method=method
                    )
                )
                for method in ("naive", "pseudo")
            )
            ratios.append(naive / right)
        assert 5 < np.mean(ratios) < 16


def test_naive_ici_is_the_published_formula() -> None:
    lowess = pytest.importorskip("statsmodels.nonparametric.smoothers_lowess").lowess
    r = perfect_model(0, 0.3, n=400)
    time, event = r.data.time, r.data.event
    observed = ((time <= r.horizon) & event).astype(float)
    risk = 1 - r.at_horizon
    expected = np.abs(risk - lowess(observed, risk, frac=0.3, return_sorted=False)).mean()
    mine = integrated_calibration_index(r.at_horizon, time, event, r.horizon, method="naive")
    assert float(mine) == pytest.approx(expected, abs=2e-3)
    assert mine.findings[0].code == "naive-ici"


def test_censoring_that_follows_the_risk_is_reported_and_conditional_methods_withstand_it() -> None:
    ratios, pseudo, spline = [], [], []
    for seed in range(12):
        r = dependent_censoring(seed)
        time, event = r.data.time, r.data.event
        at_horizon = observed_expected_at_horizon(r.at_horizon, time, event)
        broken = integrated_calibration_index(r.at_horizon, time, event)
        matrix = np.column_stack([r.data.true_survival(t) for t in (0.5 * r.horizon, r.horizon)])
        grid = [0.5 * r.horizon, r.horizon]
        others = (
            brier_score(r.at_horizon, time, event),
            integrated_brier_score(matrix, grid, time, event),
            km_calibration(matrix, grid, time, event),
        )
        for result in (at_horizon, broken, *others):
            assert [f.code for f in result.findings] == ["censoring-depends-on-risk"]
            assert "the method 'conditional'" in result.findings[0].action
        ratios.append(float(at_horizon))
        pseudo.append(float(broken))
        rcs = integrated_calibration_index(r.at_horizon, time, event, method="cox_rcs")
        spline.append(float(rcs))
        assert 1.0 in calibration_in_the_large(r.own, event, level=0.999).interval
        local = integrated_calibration_index(r.at_horizon, time, event, method="conditional")
        assert local.findings == ()
        assert float(local) < 0.06
        assert (
            1.0
            in observed_expected_at_horizon(
                r.at_horizon, time, event, method="conditional", level=0.999
            ).interval
        )
    assert 0.70 < np.mean(ratios) < 0.83
    assert np.mean(pseudo) > 3 * np.mean(spline)
    assert np.mean(spline) < 0.025


def test_independent_censoring_is_seldom_called_dependent() -> None:
    flagged = 0
    for seed in range(60):
        r = perfect_model(seed, 0.5, n=500)
        result = observed_expected_at_horizon(r.at_horizon, r.data.time, r.data.event)
        flagged += bool(result.findings)
    assert flagged <= 3  # nominal 1%


def test_oe_is_the_poisson_intercept() -> None:
    sm = pytest.importorskip("statsmodels.api")
    r = perfect_model(1, 0.3, n=300)
    hazard = -np.log(r.own) * 1.3
    fit = sm.GLM(
        r.data.event.astype(float), np.ones(300), family=sm.families.Poisson(),
        offset=np.log(hazard),
    ).fit()  # fmt: skip
    mine = calibration_in_the_large(np.exp(-hazard), r.data.event)
    assert mine.details["poisson_intercept"] == pytest.approx(float(fit.params[0]), abs=1e-8)
    assert float(mine) == pytest.approx(np.exp(fit.params[0]), abs=1e-8)


def test_a_constant_factor_on_the_hazard_moves_oe_and_not_the_slope() -> None:
    r = perfect_model(2, 0.3)
    time, event, eta = r.data.time, r.data.event, r.data.log_risk
    assert float(calibration_in_the_large(r.own**2, event)) == pytest.approx(
        0.5 * float(calibration_in_the_large(r.own, event))
    )
    plain, shifted = (float(calibration_slope(s, time, event)) for s in (eta, eta + np.log(2)))
    assert plain == pytest.approx(shifted, abs=1e-9)
    assert float(calibration_slope(2 * eta, time, event)) == pytest.approx(plain / 2, abs=1e-9)


@pytest.mark.parametrize("tied", [False, True])
def test_slope_equals_lifelines(tied: bool) -> None:
    pd = pytest.importorskip("pandas")
    lifelines = pytest.importorskip("lifelines")
    r = perfect_model(3, 0.3, n=500)
    time = np.ceil(r.data.time * 8) if tied else r.data.time
    score = 0.8 * r.data.log_risk
    frame = pd.DataFrame({"T": time, "E": r.data.event, "risk": score})
    other = lifelines.CoxPHFitter().fit(frame, "T", "E", fit_options={"precision": 1e-14})
    mine = calibration_slope(score, time, r.data.event)
    assert float(mine) == pytest.approx(float(other.params_["risk"]), abs=1e-6)
    assert mine.details["model_se"] == pytest.approx(
        float(other.standard_errors_["risk"]), abs=1e-6
    )


def test_cloglog_survival_gives_the_slope_of_the_linear_predictor() -> None:
    r = perfect_model(4, 0.3)
    time, event = r.data.time, r.data.event
    score = from_survival(r.at_horizon)
    assert float(calibration_slope(score, time, event)) == pytest.approx(
        float(calibration_slope(r.data.log_risk, time, event)), abs=1e-6
    )
    matrix = np.column_stack([r.data.true_survival(t) for t in (0.5, 1.0, 2.0)])
    np.testing.assert_allclose(
        from_survival(matrix, 1.5, times=[0.5, 1.0, 2.0]), from_survival(matrix[:, 1])
    )


def test_discrimination_and_brier_equal_scikit_survival() -> None:
    metrics = pytest.importorskip("sksurv.metrics")
    surv = pytest.importorskip("sksurv.util").Surv
    r = perfect_model(5, 0.4, n=400)
    train = perfect_model(6, 0.4, n=300).data
    time, event, risk = r.data.time, r.data.event, r.data.log_risk.round(1)
    times = np.quantile(time, [0.1, 0.3, 0.5, 0.7])
    matrix = np.column_stack([r.data.true_survival(t) for t in times])
    y = surv.from_arrays(event, time)
    for source, arrays in ((y, None), (surv.from_arrays(train.event, train.time), train)):
        given = None if arrays is None else (arrays.time, arrays.event)
        tau = float(times[-1])
        assert float(uno_c(risk, time, event, tau=tau, censoring_sample=given)) == pytest.approx(
            metrics.concordance_index_ipcw(source, y, risk, tau=tau)[0], abs=1e-10
        )
        assert float(
            time_dependent_auc(risk, time, event, times[1], censoring_sample=given)
        ) == pytest.approx(
            metrics.cumulative_dynamic_auc(source, y, risk, [times[1]])[0][0], abs=1e-10
        )
        assert float(
            brier_score(matrix[:, 2], time, event, times[2], censoring_sample=given)
        ) == pytest.approx(
            metrics.brier_score(source, y, matrix[:, 2:3], [times[2]])[1][0], abs=1e-12
        )
        assert float(
            integrated_brier_score(matrix, times, time, event, censoring_sample=given)
        ) == pytest.approx(metrics.integrated_brier_score(source, y, matrix, times), abs=1e-12)
    assert float(harrell_c(risk, time, event)) == pytest.approx(
        metrics.concordance_index_censored(event, time, risk)[0], abs=1e-12
    )


def _everything(r, rows, weight):  # type: ignore[no-untyped-def]
    time, event, eta = r.data.time[rows], r.data.event[rows], r.data.log_risk[rows]
    own, at = r.own[rows] ** 1.4, r.at_horizon[rows] ** 1.4
    times = np.array([0.5, 1.0, 1.5])
    matrix = np.column_stack([r.data.true_survival(t)[rows] for t in times])
    kw = {"sample_weight": weight}
    return [
        calibration_in_the_large(own, event, **kw),
        observed_expected_at_horizon(at, time, event, 1.0, **kw),
        integrated_calibration_index(at, time, event, 1.0, **kw),
        integrated_calibration_index(at, time, event, 1.0, method="ipcw", **kw),
        harrell_c(eta, time, event, **kw),
        uno_c(eta, time, event, tau=2.0, **kw),
        time_dependent_auc(eta, time, event, 1.0, **kw),
        brier_score(at, time, event, 1.0, **kw),
        integrated_brier_score(matrix, times, time, event, **kw),
        d_calibration(own, event, **kw),
        km_calibration(matrix, times, time, event, **kw),
        calibration_slope(eta, time, event, **kw),
        integrated_calibration_index(at, time, event, 1.0, method="cox_rcs", **kw),
    ]


def test_equal_weights_change_nothing_and_integer_weights_repeat_rows() -> None:
    r = perfect_model(7, 0.3, n=150)
    everyone = np.arange(150)
    plain = [float(m) for m in _everything(r, everyone, None)]
    np.testing.assert_allclose(
        [float(m) for m in _everything(r, everyone, np.full(150, 2.5))], plain, atol=1e-6
    )
    count = np.random.default_rng(0).integers(1, 4, 150)
    weighted = [float(m) for m in _everything(r, everyone, count.astype(float))]
    repeated = [float(m) for m in _everything(r, np.repeat(everyone, count), None)]
    np.testing.assert_allclose(weighted[:-2], repeated[:-2], atol=2e-3)
    # repeats are ties to the Cox fits, handled by Efron's rule: near, not equal
    np.testing.assert_allclose(weighted[-2:], repeated[-2:], atol=0.05)


def test_default_horizon_follows_the_weights() -> None:
    r = perfect_model(7, 0.3, n=61)
    count = np.random.default_rng(3).integers(0, 4, 61)
    rows = np.repeat(np.arange(61), count)
    for event in (r.data.event, np.ones(61, dtype=bool)):
        weighted = observed_expected_at_horizon(
            r.at_horizon, r.data.time, event, sample_weight=count
        )
        repeated = observed_expected_at_horizon(r.at_horizon[rows], r.data.time[rows], event[rows])
        assert weighted.details["horizon"] == repeated.details["horizon"]
        assert float(weighted) == pytest.approx(float(repeated), abs=1e-12)


def test_the_end_of_a_study_is_an_ordinary_horizon() -> None:
    """Everybody left is censored at the horizon itself, and is known to be event-free then."""
    r = perfect_model(10, 0.0, n=300)
    end = r.horizon
    time, event = np.minimum(r.data.time, end), r.data.time < end
    risk, survival = r.data.log_risk, r.at_horizon
    plain = np.mean((survival - ~event) ** 2)
    assert float(brier_score(survival, time, event, end)) == pytest.approx(plain, abs=1e-12)
    ipcw, pseudo = (
        float(integrated_calibration_index(survival, time, event, end, method=method))
        for method in ("ipcw", "pseudo")
    )
    assert ipcw == pytest.approx(pseudo, abs=1e-10)
    pairs = risk[event][:, None] > risk[~event]
    assert float(time_dependent_auc(risk, time, event, end)) == pytest.approx(pairs.mean())


def test_brier_influence_is_the_derivative_in_each_weight_also_at_tied_times() -> None:
    rng = np.random.default_rng(11)
    time, event = np.ceil(5 * rng.exponential(size=60)), rng.random(60) < 0.6
    survival, w = rng.uniform(size=60), rng.uniform(0.5, 2.0, 60)
    for horizon in (3.0, 3.5):
        value, influence = _brier(survival, survival_sample(time, event, w), horizon, None)
        for row in (0, 5, 17, 33):
            moved = w.copy()
            moved[row] += 1e-6
            other, _ = _brier(survival, survival_sample(time, event, moved), horizon, None)
            assert influence[row] == pytest.approx((other - value) / 1e-6 * w[row], abs=1e-8)


def test_row_order_does_not_move_any_metric() -> None:
    r = perfect_model(8, 0.3, n=200)
    shuffled = np.random.default_rng(1).permutation(200)
    for a, b in zip(
        _everything(r, np.arange(200), None), _everything(r, shuffled, None), strict=True
    ):
        assert float(a) == pytest.approx(float(b), abs=1e-10), a.name
        assert a.interval.high == pytest.approx(b.interval.high, abs=1e-8), a.name


def test_row_order_does_not_move_a_metric_of_tied_times() -> None:
    r = perfect_model(8, 0.3, n=200)
    shuffled = np.random.default_rng(2).permutation(200)
    time, event, at = np.ceil(8 * r.data.time), r.data.event, r.at_horizon
    for method in ("pseudo", "ipcw", "cox_rcs"):
        one, other = (
            integrated_calibration_index(at[i], time[i], event[i], 8.0, method=method)
            for i in (np.arange(200), shuffled)
        )
        assert float(one) == pytest.approx(float(other), abs=1e-10)
        for a, b in ((one, other), (one.emax, other.emax)):
            assert a.interval.high == pytest.approx(b.interval.high, abs=1e-8)


def test_d_calibration_without_censoring_is_pearsons_chi_square() -> None:
    from scipy.stats import chisquare

    u = np.random.default_rng(2).uniform(size=500)
    result = d_calibration(u, np.ones(500), test="pearson")
    other = chisquare(np.histogram(u, bins=10, range=(0, 1))[0])
    assert result.details["statistic"] == pytest.approx(other.statistic)
    assert result.details["p_value"] == pytest.approx(other.pvalue)


def test_overconfident_and_shifted_models_are_detected() -> None:
    r = perfect_model(9, 0.3)
    time, event = r.data.time, r.data.event
    doubled = r.at_horizon**2.0
    result = integrated_calibration_index(doubled, time, event, r.horizon)
    assert result.interval.low > 0
    assert result.p_value < 0.01
    assert result.emax.interval.low > 0
    assert float(result) > 3 * result.null_reference
    assert float(result.e50) <= float(result.e90) <= float(result.emax)
    assert d_calibration(r.own**2, event).details["p_value"] < 0.01
    times = np.array([0.5, 1.0, 1.5])
    matrix = np.column_stack([r.data.true_survival(t) for t in times])
    assert 0.0 in km_calibration(matrix, times, time, event).interval
    assert km_calibration(matrix**2, times, time, event).interval.low > 0
