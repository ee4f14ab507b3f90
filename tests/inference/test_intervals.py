"""Promises of the intervals and p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cje.errors import CJEError
from cje.inference import InfluenceEstimate, Interval, interval_limits, t_p_value
from cje.inference.intervals import hall_transform


def test_t_limits_equal_scipy() -> None:
    low, high = interval_limits([1.0, 2.0], [0.5, 0.1], df=[4, 30], level=0.9, method="t")
    expected = [stats.t.interval(0.9, d, v, s) for v, s, d in [(1.0, 0.5, 4), (2.0, 0.1, 30)]]
    np.testing.assert_allclose(np.column_stack([low, high]), expected, rtol=1e-12)


def test_infinite_df_is_the_normal_interval() -> None:
    low, high = interval_limits(0.0, 1.0, method="t")
    np.testing.assert_allclose([low, high], stats.norm.interval(0.95), atol=1e-6)


def test_skew_without_skewness_is_t() -> None:
    t = interval_limits(0.3, 0.1, df=9, method="t")
    np.testing.assert_allclose(interval_limits(0.3, 0.1, df=9, skewness=0.0, method="skew"), t)
    np.testing.assert_allclose(
        interval_limits(0.3, 0.1, df=9, skewness=1e-7, method="skew"), t, rtol=1e-5
    )


def test_skew_limits_solve_halls_equation() -> None:
    """g(T) at the limits is the t quantile: the transformation is inverted exactly."""
    kappa, se, value = 0.4, 0.1, 0.3
    for end, sign in zip(interval_limits(value, se, df=20, skewness=kappa), (1, -1), strict=True):
        t = (value - float(end)) / se
        g = t + kappa * t**2 / 3 + kappa**2 * t**3 / 27 + kappa / 6
        assert g == pytest.approx(sign * stats.t.ppf(0.975, 20), rel=1e-9)


def test_positive_skewness_lengthens_the_upper_side() -> None:
    low, high = interval_limits(0.0, 1.0, df=50, skewness=0.3)
    assert high > -low


@pytest.mark.parametrize("method", ["t", "skew", "logit", "auto"])
def test_bounds_are_respected(method: str) -> None:
    low, high = interval_limits(
        [0.01, 0.99, 0.5], [0.05, 0.05, 5.0], df=10, skewness=[0.5, -0.5, 0], bounds=(0.0, 1.0),
        method=method,  # type: ignore[arg-type]
    )  # fmt: skip
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (low <= high).all()


def test_logit_interval_equals_the_delta_method_by_hand() -> None:
    p, se, q = 0.8, 0.05, stats.t.ppf(0.975, 12)
    centre, half = np.log(p / (1 - p)), q * se / (p * (1 - p))
    expected = 1 / (1 + np.exp(-(centre + np.array([-half, half]))))
    np.testing.assert_allclose(
        interval_limits(p, se, df=12, bounds=(0.0, 1.0), method="logit"), expected
    )


def test_logit_at_the_bound_falls_back_and_stays_inside() -> None:
    low, high = interval_limits(0.0, 0.02, df=12, bounds=(0.0, 1.0), method="logit")
    assert low == 0.0
    assert high > 0.03


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.5])
def test_a_level_that_is_not_a_probability_is_refused(level: float) -> None:
    with pytest.raises(CJEError, match="level"):
        interval_limits(0.0, 1.0, level=level)


@pytest.mark.parametrize(
    "arguments",
    [
        {"values": [np.nan]}, {"values": [np.inf]}, {"values": "x"}, {"values": [1e308]},
        {"standard_errors": [np.nan]}, {"standard_errors": [-1.0]}, {"standard_errors": [0.1] * 3},
        {"df": 0.0}, {"df": -1.0}, {"df": np.nan}, {"df": 1e-3}, {"skewness": np.inf},
        {"bounds": 3}, {"bounds": (1.0, 0.0)}, {"bounds": (np.nan, 1.0)}, {"level": "high"},
        {"bounds": (-np.inf, np.inf), "method": "logit"},
        {"bounds": (0.0, 0.0), "method": "logit"},
    ],
)  # fmt: skip
def test_limits_of_values_that_are_not_finite_are_refused(arguments: dict[str, object]) -> None:
    given = {"values": [0.5, 0.6], "standard_errors": [0.1, 0.1], "df": 5.0} | arguments
    with pytest.raises(CJEError):
        interval_limits(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("statistic", "df"), [(np.nan, 5), (1.0, 0), (1.0, np.nan), ("x", 5),
                                               ([1.0, 2.0], [1, 2, 3])])  # fmt: skip
def test_p_values_of_statistics_that_are_not_numbers_are_refused(
    statistic: object, df: object
) -> None:
    with pytest.raises(CJEError):
        t_p_value(statistic, df)


def test_wide_logit_intervals_and_far_statistics_stay_numbers() -> None:
    low, high = interval_limits(
        [0.5, 1e-320, 0.9], [1e90, 0.5, 100.0], df=1.0, bounds=(0.0, 1.0), method="logit"
    )
    assert (low == 0.0).all()
    assert (high == 1.0).all()
    assert t_p_value([np.inf, -np.inf], 3.0).tolist() == [0.0, 0.0]
    assert (hall_transform([1e200, np.inf], 0.5) > 1e60).all()
    assert (hall_transform([-1e200, -np.inf], -0.5) < -1e60).all()


def test_an_estimate_without_spread_needs_no_degrees_of_freedom() -> None:
    low, high = interval_limits([0.5], [0.0], df=0.0)
    assert low.tolist() == high.tolist() == [0.5]


def test_unknown_method_and_missing_bounds_are_refused() -> None:
    with pytest.raises(CJEError, match="unknown interval method"):
        interval_limits(0.0, 1.0, method="magic")  # type: ignore[arg-type]
    with pytest.raises(CJEError, match="bounds"):
        interval_limits(0.0, 1.0, method="logit")


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_p_values_equal_scipys_one_sample_test(alternative: str) -> None:
    rows = np.random.default_rng(0).normal(0.2, 1.0, 25)
    est = InfluenceEstimate.from_rows(("a",), rows)
    t = est.values[0] / est.standard_errors()[0]
    expected = stats.ttest_1samp(rows, 0.0, alternative=alternative).pvalue
    assert float(t_p_value(t, 24, alternative)) == pytest.approx(expected, rel=1e-9)  # type: ignore[arg-type]


def test_a_p_value_is_below_alpha_exactly_where_the_interval_leaves_the_null_out() -> None:
    rng = np.random.default_rng(4)
    for level in (0.8, 0.95, 0.99):
        rows = rng.exponential(size=(25, 40)) - 0.8
        est = InfluenceEstimate.from_rows([f"q{k}" for k in range(40)], rows)
        out = [not interval.low <= 0.0 <= interval.high for interval in est.intervals(level)]
        np.testing.assert_array_equal(est.p_values() < 1 - level, out)
        assert 0 < sum(out) < 40


def test_an_estimate_without_spread_has_p_zero_or_one() -> None:
    est = InfluenceEstimate.from_influence(("a", "b"), [0.0, 1.0], np.zeros((5, 2)))
    np.testing.assert_array_equal(est.p_values(), [1.0, 0.0])


def test_interval_iterates_contains_and_measures() -> None:
    interval = Interval(0.25, 0.5)
    assert tuple(interval) == (0.25, 0.5)
    assert 0.3 in interval
    assert 0.6 not in interval
    assert interval.width == 0.25


def _coverage(method: str, repetitions: int = 4000) -> float:
    """Mean of 20 exponentials: skewness 2, the case where the t interval falls short."""
    rng = np.random.default_rng(11)
    rows = rng.exponential(size=(repetitions, 20))
    centred = rows - rows.mean(axis=1, keepdims=True)
    se = rows.std(axis=1, ddof=1) / np.sqrt(20)
    kappa = (centred**3).sum(axis=1) / 20**3 / se**3
    low, high = interval_limits(rows.mean(axis=1), se, df=19, skewness=kappa, method=method)  # type: ignore[arg-type]
    return float(((low <= 1.0) & (high >= 1.0)).mean())


def test_skew_interval_covers_where_the_t_interval_does_not() -> None:
    assert _coverage("t") < 0.935
    assert 0.937 < _coverage("skew") < 0.963
