"""Any input gives a finite result or a clear error; all events and ties are ordinary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.errors import CJEError
from cje.survival import (
    bootstrap_calibration,
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    censoring_test,
    d_calibration,
    fit_baseline,
    from_survival,
    harrell_c,
    integrated_brier_score,
    integrated_calibration_index,
    km_calibration,
    observed_expected_at_horizon,
    optimism_corrected,
    recalibrate,
    survival_report,
    survival_sample,
    time_dependent_auc,
    uno_c,
)
from cje.survival.result import Spread, logit_interval
from tests.robustness.fuzzing import fuzz

N = 40
RNG = np.random.default_rng(0)
TIME, EVENT, SURVIVAL = RNG.exponential(size=N), RNG.random(N) < 0.7, RNG.uniform(size=N)
TIMED: list[Callable[..., Any]] = [
    calibration_slope,
    harrell_c,
    uno_c,
    integrated_calibration_index,
    observed_expected_at_horizon,
    brier_score,
    time_dependent_auc,
]


@pytest.mark.parametrize("metric", TIMED)
def test_bad_follow_up_is_refused_by_name(metric: Callable[..., Any]) -> None:
    with pytest.raises(CJEError, match="must not be negative"):
        metric(SURVIVAL, np.where(np.arange(N) == 3, -1.0, TIME), EVENT)
    with pytest.raises(CJEError, match=r"finite.*row 5"):
        metric(SURVIVAL, np.where(np.arange(N) == 5, np.nan, TIME), EVENT)
    strict = {"strict": True} if metric is calibration_slope else {}
    with pytest.raises(CJEError, match="no events"):
        metric(SURVIVAL, TIME, np.zeros(N), **strict)
    with pytest.raises(CJEError, match="must be 0"):
        metric(SURVIVAL, TIME, np.full(N, 2))
    with pytest.raises(CJEError, match="one value per row"):
        metric(SURVIVAL[:-1], TIME, EVENT)
    with pytest.raises(CJEError, match="no rows"):
        metric([], [], [])
    with pytest.raises(CJEError, match="sample_weight"):
        metric(SURVIVAL, TIME, EVENT, sample_weight=-np.ones(N))


@pytest.mark.parametrize("metric", TIMED[3:])
def test_a_horizon_outside_follow_up_is_refused(metric: Callable[..., Any]) -> None:
    for horizon in (TIME.max() * 1.01, 0.0, -1.0, math.nan, TIME[EVENT].min() / 2):
        with pytest.raises(CJEError, match="horizon"):
            metric(SURVIVAL, TIME, EVENT, horizon)


@pytest.mark.parametrize("metric", TIMED[3:6])
def test_probabilities_outside_the_unit_interval_are_refused(metric: Callable[..., Any]) -> None:
    with pytest.raises(CJEError, match=r"must lie in \[0, 1\]"):
        metric(SURVIVAL * 100, TIME, EVENT)


def test_oe_counts_exact_zeros_and_ones() -> None:
    survival = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 0.3])
    event = np.array([1, 0, 1, 0, 1, 1])
    result = calibration_in_the_large(survival, event)
    assert math.isfinite(float(result))
    assert result.details["n_survival_zero"] == 2
    assert result.details["n_survival_one"] == 2
    assert {f.code for f in result.findings} == {"survival-zero", "survival-one"}
    with pytest.raises(CJEError, match="expects no events"):
        calibration_in_the_large(np.ones(3), np.ones(3), strict=True)
    with pytest.raises(CJEError, match="no events"):
        calibration_in_the_large([0.5, 0.5], [0, 0], strict=True)
    with pytest.raises(CJEError, match="unknown expectation"):
        calibration_in_the_large([0.5, 0.5], [1, 1], expected="half")  # type: ignore[arg-type]


def test_all_events_and_all_times_tied_are_ordinary() -> None:
    everyone = np.ones(N)
    for metric in TIMED:
        assert math.isfinite(float(metric(SURVIVAL, TIME, everyone)))
    coarse = np.ceil(TIME * 2)
    for metric in TIMED:
        assert math.isfinite(float(metric(SURVIVAL, coarse, EVENT)))


def test_degenerate_scores_are_refused_with_the_reason() -> None:
    with pytest.raises(CJEError, match="the same"):
        calibration_slope(np.zeros(N), TIME, EVENT)
    with pytest.raises(CJEError, match="infinite"):
        calibration_slope(-np.arange(10.0), np.arange(10.0) + 1, np.ones(10))
    with pytest.raises(CJEError, match="compared"):
        harrell_c(SURVIVAL, np.ones(N), np.ones(N))


def test_ipcw_at_the_last_time_where_everybody_is_censored_or_dead_is_finite() -> None:
    assert math.isfinite(float(brier_score([0.2, 0.5, 0.9], [1, 1, 1], [0, 0, 1])))


def test_constant_predictions_have_an_ici() -> None:
    result = integrated_calibration_index(np.full(N, 0.5), TIME, EVENT)
    assert math.isfinite(float(result))
    with pytest.raises(CJEError, match="the same"):
        integrated_calibration_index(np.full(N, 0.5), TIME, EVENT, method="cox_rcs")


def test_no_event_and_one_subject_are_refused_by_every_metric() -> None:
    for call in _calls(SURVIVAL, TIME, np.zeros(N), SURVIVAL):
        with pytest.raises(CJEError, match="no events"):
            call()
    for call in _calls([0.5], [1.0], [1], [0.5]):
        with pytest.raises(CJEError, match="one subject is not enough"):
            call()


def test_an_interval_is_never_a_point_where_the_sample_cannot_say_so() -> None:
    time, event = np.arange(1.0, 13.0), np.ones(12)
    for metric in (harrell_c, uno_c, time_dependent_auc):
        result = metric(-time, time, event)
        assert float(result) == 1.0
        assert result.interval.low == pytest.approx(0.025 ** (1 / result_pairs(result)))
        assert metric(time, time, event).interval.high == pytest.approx(1 - result.interval.low)
    for method in ("pseudo", "ipcw"):
        alike = integrated_calibration_index(  # everybody has had the event by the last time
            SURVIVAL, TIME, np.ones(N), TIME.max(), method=method
        )
        for part in (alike, alike.e50, alike.emax):
            assert part.interval.low < float(part) < part.interval.high + 1e-9
    with pytest.raises(CJEError, match="no finite estimate"):
        integrated_calibration_index([0.5, 0.2], [2.0, 1.0], [1, 1], method="cox_rcs")


def result_pairs(result: Any) -> int:
    details = result.details
    return int(details["pairs"] if "pairs" in details else details["n_cases"])


def test_a_bad_cell_of_a_matrix_is_named_by_row_and_column() -> None:
    matrix = np.tile(SURVIVAL[:, None], (1, 2))
    matrix[7, 1] = np.nan
    grid = np.quantile(TIME, [0.3, 0.6])
    for metric in (km_calibration, integrated_brier_score):
        with pytest.raises(CJEError, match="row 7, column 1"):
            metric(matrix, grid, TIME, EVENT)
        with pytest.raises(CJEError, match="rows and columns"):
            metric(SURVIVAL, grid, TIME, EVENT)
    with pytest.raises(CJEError, match="increase"):
        from_survival(np.full((N, 2), 0.5), 1.0, times=[2.0, 1.0])


def test_unknown_choices_are_refused() -> None:
    for frac in (0.0, 1.5, math.nan, "wide"):
        with pytest.raises(CJEError, match="frac"):
            integrated_calibration_index(SURVIVAL, TIME, EVENT, frac=frac)  # type: ignore[arg-type]
    with pytest.raises(CJEError, match="n_draws"):
        bootstrap_calibration(SURVIVAL, SURVIVAL, SURVIVAL, TIME, EVENT, n_draws=0)
    with pytest.raises(CJEError, match="method"):
        integrated_calibration_index(SURVIVAL, TIME, EVENT, method="magic")  # type: ignore[arg-type]
    with pytest.raises(CJEError, match="knots"):
        integrated_calibration_index(SURVIVAL, TIME, EVENT, method="cox_rcs", knots=9)
    with pytest.raises(CJEError, match="n_bins"):
        d_calibration(SURVIVAL, EVENT, n_bins=1)
    with pytest.raises(CJEError, match="level"):
        harrell_c(SURVIVAL, TIME, EVENT, level=1.0)


def _calls(
    survival: Any, time: Any, event: Any, score: Any, strict: bool = True
) -> list[Callable[[], Any]]:
    return [
        lambda: calibration_in_the_large(survival, event, strict=strict),
        lambda: d_calibration(survival, event),
        lambda: calibration_slope(score, time, event, strict=strict),
        lambda: harrell_c(score, time, event),
        lambda: uno_c(score, time, event),
        lambda: integrated_calibration_index(survival, time, event),
        lambda: integrated_calibration_index(survival, time, event, method="ipcw"),
        lambda: integrated_calibration_index(survival, time, event, method="cox_rcs"),
        lambda: integrated_calibration_index(survival, time, event, method="conditional"),
        lambda: observed_expected_at_horizon(survival, time, event),
        lambda: brier_score(survival, time, event),
        lambda: time_dependent_auc(score, time, event),
    ]


@fuzz()
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.floats(allow_nan=True), st.sampled_from([0, 1, 1, 2]), st.floats()
        ),
        max_size=12,
    )
)
def test_any_input_gives_a_finite_number_or_a_clear_error(rows: list[tuple[Any, ...]]) -> None:
    survival, time, event, score = (list(c) for c in zip(*rows, strict=True)) if rows else [[]] * 4
    for call in _calls(survival, time, event, score):
        try:
            result = call()
        except CJEError:
            continue
        assert math.isfinite(float(result))
        assert result.interval.low <= result.interval.high


@fuzz()
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(1, 6), st.booleans(), st.floats(-5, 5)),
        min_size=3,
        max_size=25,
    )
)
def test_small_valid_samples_never_crash(rows: list[tuple[Any, ...]]) -> None:
    survival, time, event, score = (np.array(c, dtype=float) for c in zip(*rows, strict=True))
    for call in _calls(survival, time, event, score):
        try:
            result = call()
        except CJEError:
            continue
        assert math.isfinite(float(result))
        assert math.isfinite(result.interval.low)
        assert math.isfinite(result.interval.high)


def test_the_sample_keeps_what_it_was_given() -> None:
    sample = survival_sample([1, 2, 3], [True, False, True])
    assert len(sample) == 3
    assert sample.n_events == 2
    assert sample.median_event_time() == 2.0


@pytest.mark.parametrize("metric", TIMED)
@pytest.mark.parametrize("absurd", [5e-324, 1e-20, 1e120, 1e308])
def test_weights_that_overflow_a_sum_are_refused(metric: Callable[..., Any], absurd: float) -> None:
    weight = np.where(np.arange(N) < 3, absurd, 1.0)
    with pytest.raises(CJEError, match="sample_weight"):
        metric(SURVIVAL, TIME, EVENT, sample_weight=weight)


@pytest.mark.parametrize("metric", TIMED)
@pytest.mark.parametrize("scale", [1e-80, 1e-9, 1e80])
def test_the_scale_of_the_weights_does_not_matter(metric: Callable[..., Any], scale: float) -> None:
    weight = RNG.uniform(0.5, 2.0, N)
    plain = metric(SURVIVAL, TIME, EVENT, sample_weight=weight)
    other = metric(SURVIVAL, TIME, EVENT, sample_weight=scale * weight)
    np.testing.assert_allclose(
        [float(plain), *plain.interval], [float(other), *other.interval], rtol=2e-4
    )


@pytest.mark.parametrize("metric", TIMED)
def test_times_of_absurd_size_are_refused(metric: Callable[..., Any]) -> None:
    with pytest.raises(CJEError, match="event_times are too large"):
        metric(SURVIVAL, np.where(np.arange(N) > 3, 1e308, TIME), EVENT)


def test_scores_beyond_any_hazard_are_refused_where_their_size_counts() -> None:
    far = np.where(np.arange(N) == 3, 1e308, SURVIVAL)
    assert math.isfinite(float(harrell_c(far, TIME, EVENT)))  # only their order counts here
    with pytest.raises(CJEError, match="too large to be log-hazards"):
        calibration_slope(far, TIME, EVENT)
    with pytest.raises(CJEError, match="log_risk"):
        fit_baseline(np.full(N, -1e308), TIME, EVENT)
    for log_risk in (np.full(N, 500.0), np.where(EVENT, 200.0, -200.0)):  # sums are in logarithms
        assert np.isfinite(fit_baseline(log_risk, TIME, EVENT).own_survival(log_risk, TIME)).all()
    baseline = fit_baseline(SURVIVAL - 390.0, TIME, EVENT)
    made = baseline.survival([-2000.0, -390.0, 1e300], TIME)
    assert np.isfinite(made).all()
    assert made[0].min() == 1.0
    assert made[2, TIME[EVENT].min() <= TIME].max() == 0.0
    own = baseline.own_survival(SURVIVAL - 390.0, TIME)
    np.testing.assert_allclose(
        own, fit_baseline(SURVIVAL, TIME, EVENT).own_survival(SURVIVAL, TIME), rtol=1e-9
    )


def test_from_survival_needs_rows_and_a_time() -> None:
    with pytest.raises(CJEError, match="no rows"):
        from_survival([])
    for t0 in (math.nan, "late", [1.0]):
        with pytest.raises(CJEError, match="t0"):
            from_survival(np.full((N, 2), 0.5), t0, times=[1.0, 2.0])  # type: ignore[arg-type]


def test_the_interval_of_a_share_near_its_end_is_finite() -> None:
    for value, se in ((1e-300, 1.0), (0.5, 1e300), (1 - 1e-16, 1.0), (5e-324, 0.5)):
        low, high = logit_interval(value, Spread(se, math.inf, np.zeros(2)), 0.95, 3)
        assert 0.0 <= low <= high <= 1.0


def test_a_resample_without_an_estimate_is_an_error() -> None:
    few = np.arange(N) == np.argmin(TIME)
    with pytest.raises(CJEError, match="it has no event"):
        bootstrap_calibration(SURVIVAL, SURVIVAL, SURVIVAL, TIME, few, n_draws=50)
    with pytest.raises(CJEError, match="expects no event"):
        bootstrap_calibration(np.ones(N), SURVIVAL, SURVIVAL, TIME, EVENT, n_draws=5)
    with pytest.raises(CJEError, match="scores are the same"):
        bootstrap_calibration(SURVIVAL, few, SURVIVAL, TIME, EVENT, n_draws=50)


def test_row_order_moves_no_draw_also_where_times_and_counts_tie() -> None:
    order = RNG.permutation(N)
    tied = np.ceil(TIME * 3)
    columns = (SURVIVAL, SURVIVAL, SURVIVAL, tied, EVENT)
    plain = bootstrap_calibration(*columns, n_draws=20)
    other = bootstrap_calibration(*(column[order] for column in columns), n_draws=20)
    for name in ("in_the_large", "slope", "ici"):
        np.testing.assert_allclose(getattr(plain, name), getattr(other, name), atol=1e-9)
    even = (np.arange(N) + 0.5) / N  # as many events in each bin: every direction is alike
    np.testing.assert_allclose(
        [*d_calibration(even, np.ones(N)).interval],
        [*d_calibration(even[order], np.ones(N)).interval],
        rtol=0.0, atol=1e-12,
    )  # fmt: skip


RUBBISH = [None, "text", {}, [], math.nan, [None] * N, [{}] * N, ["a"] * N, [[1], [2, 3]], 1j]


@pytest.mark.parametrize("bad", RUBBISH, ids=lambda bad: repr(bad)[:12])
def test_invalid_input_in_any_place_is_refused(bad: Any) -> None:
    def refused(call: Callable[..., Any], *given: Any, **options: Any) -> None:
        with pytest.raises(CJEError):
            call(*given, **options)

    columns = [SURVIVAL, TIME, EVENT]
    for metric in (*TIMED, recalibrate, fit_baseline):
        for place in range(3):
            refused(metric, *columns[:place], bad, *columns[place + 1 :])
    for metric in (calibration_in_the_large, d_calibration):
        refused(metric, bad, EVENT)
        refused(metric, SURVIVAL, bad)
    refused(from_survival, bad)
    refused(survival_report, [bad])
    refused(censoring_test, bad, survival_sample(TIME, EVENT), 0.5)
    refused(censoring_test, SURVIVAL, bad, 0.5)
    refused(censoring_test, SURVIVAL, survival_sample(TIME, EVENT), bad)
    refused(optimism_corrected, bad, SURVIVAL[:, None], TIME, EVENT)
    baseline = fit_baseline(*columns)
    if bad != []:  # survival of nobody is an empty matrix
        refused(baseline.survival, bad, TIME)
    refused(baseline.own_survival, SURVIVAL, bad)
    for option in ("method", "frac", "level", "seed"):
        refused(integrated_calibration_index, *columns, **{option: bad})
    for option in ("test", "n_bins", "level", "seed"):
        refused(d_calibration, SURVIVAL, EVENT, **{option: bad})
    refused(bootstrap_calibration, SURVIVAL, *columns, EVENT, n_draws=bad)
    if bad is not None:
        refused(uno_c, *columns, tau=bad)
        refused(uno_c, *columns, censoring_sample=bad)
        refused(brier_score, *columns, bad)


def test_a_model_whose_survival_has_the_wrong_shape_is_an_error() -> None:
    class Wrong:
        def fit(self, x: Any, time: Any, event: Any) -> Wrong:
            return self

        def predict_survival(self, x: Any, times: Any) -> Any:
            return np.full(len(x), 0.5)

    with pytest.raises(CJEError, match="predict_survival"):
        optimism_corrected(Wrong, SURVIVAL[:, None], TIME, EVENT)
