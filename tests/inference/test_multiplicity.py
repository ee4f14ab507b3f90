"""Promises of the multiple-testing tools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cje.errors import CJEError
from cje.inference import (
    InfluenceEstimate,
    benjamini_hochberg,
    fold_jackknife_covariance,
    holm,
    leader_critical_value,
    max_t_critical_value,
)

p_lists = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


@given(p_lists)
def test_holm_equals_the_step_down_test_it_stands_for(p: list[float]) -> None:
    """Adjusted p <= alpha exactly where the step-down procedure at alpha rejects."""
    adjusted = holm(p)
    for alpha in (*adjusted.tolist(), 0.05):
        order = np.argsort(p, kind="stable")
        rejected = np.zeros(len(p), dtype=bool)
        for step, i in enumerate(order):
            if p[i] * (len(p) - step) > alpha or alpha >= 1.0:
                break
            rejected[i] = True
        if alpha < 1.0:
            np.testing.assert_array_equal(adjusted <= alpha, rejected)


@given(p_lists)
def test_benjamini_hochberg_equals_scipy(p: list[float]) -> None:
    expected = stats.false_discovery_control(p, method="bh")
    np.testing.assert_allclose(benjamini_hochberg(p), expected, atol=1e-12)


@pytest.mark.parametrize("bad", [[1.2], [-0.1], [float("nan")]])
def test_a_number_outside_0_to_1_is_refused_as_p_value(bad: list[float]) -> None:
    with pytest.raises(CJEError):
        holm(bad)


def test_max_t_of_one_quantity_is_the_t_quantile() -> None:
    value = max_t_critical_value(np.eye(1), 15.0, level=0.95, n_draws=200_000, seed=1)
    assert value == pytest.approx(stats.t.ppf(0.975, 15), rel=0.01)


def test_max_t_lies_between_one_test_and_bonferroni_and_uses_correlation() -> None:
    independent = max_t_critical_value(np.eye(6), np.inf, level=0.95, n_draws=100_000, seed=1)
    equal = max_t_critical_value(np.ones((6, 6)), np.inf, level=0.95, n_draws=100_000, seed=1)
    assert equal == pytest.approx(stats.norm.ppf(0.975), rel=0.01)
    sidak = stats.norm.ppf((1 + 0.95 ** (1 / 6)) / 2)
    assert independent == pytest.approx(sidak, rel=0.01)


def test_simultaneous_intervals_cover_all_differences_at_once() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(600):
        rows = rng.normal(size=(60, 1)) + rng.normal(size=(60, 4))
        pairs = InfluenceEstimate.from_rows(tuple("abcd"), rows).all_pairs()
        hits += all(0.0 in interval for interval in pairs.simultaneous_intervals(n_draws=4000))
    # binomial bound at 1%: a pointwise interval would give about 0.80
    assert stats.binom.ppf(0.005, 600, 0.95) <= hits <= stats.binom.ppf(0.995, 600, 0.95)


def test_fold_jackknife_of_a_mean_is_its_variance() -> None:
    rows = np.random.default_rng(3).normal(size=30)
    loo = np.array([[np.delete(rows, i).mean()] for i in range(30)])
    assert fold_jackknife_covariance(loo)[0, 0] == pytest.approx(rows.var(ddof=1) / 30)


def test_fold_jackknife_needs_two_folds() -> None:
    with pytest.raises(CJEError):
        fold_jackknife_covariance([[1.0]])


@pytest.mark.parametrize("df", [8.0, 30.0, np.inf])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_leader_of_independent_quantities_uses_tukeys_range(k: int, df: float) -> None:
    found = leader_critical_value(np.eye(k), df, level=0.95, n_draws=200_000, seed=3)
    tukey = stats.studentized_range.ppf(0.95, k, min(df, 1e5)) / np.sqrt(2.0)
    assert found == pytest.approx(tukey, rel=0.01)


@pytest.mark.parametrize("k", [5, 20, 40])
def test_under_equal_values_the_leader_is_rarely_called_different(k: int) -> None:
    """Family-wise error of "some policy is worse than the leader": at most 5% and three se."""
    rng = np.random.default_rng(11)
    shared = 0.5 * np.ones((k, k)) + 0.5 * np.diag(rng.uniform(0.5, 2.0, k))
    critical = leader_critical_value(shared, np.inf, level=0.95, n_draws=20_000, seed=0)
    z = rng.multivariate_normal(np.zeros(k), shared, 4_000)
    leader = z.argmax(axis=1)
    variance = np.diag(shared)
    se = np.sqrt(variance[leader][:, None] + variance - 2.0 * shared[leader])
    se[np.arange(len(z)), leader] = np.inf
    wrong = ((z.max(axis=1)[:, None] - z) / se > critical).any(axis=1).mean()
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4_000)
    assert wrong >= 0.02  # it spends what it may


@pytest.mark.parametrize("k", [20, 40])
def test_few_degrees_of_freedom_do_not_make_the_leader_of_many_cautious(k: int) -> None:
    """Means of 12 values each: one of k equal quantities is called worse in 3-6% of the cases."""
    rng = np.random.default_rng(12)
    n, times = 12, 1_000
    values = rng.normal(size=(times, n, k))
    means, variance = values.mean(axis=1), values.var(axis=1, ddof=1) / n
    critical = leader_critical_value(np.eye(k), 2.0 * (n - 1), level=0.95, n_draws=20_000, seed=0)
    leader = means.argmax(axis=1)
    at = np.arange(times)
    gap = (means[at, leader][:, None] - means) / np.sqrt(variance[at, leader][:, None] + variance)
    wrong = (gap > critical).any(axis=1).mean()
    assert 0.03 - 3 * 0.0069 <= wrong <= 0.06 + 3 * 0.0069
    assert critical < 5.0  # a factor of its own for each pair would ask for 5.3 with 40


def test_two_copies_of_one_quantity_do_not_change_the_leaders_value() -> None:
    twice = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    once = leader_critical_value(np.eye(2), np.inf, level=0.95, n_draws=50_000, seed=0)
    both = leader_critical_value(twice, np.inf, level=0.95, n_draws=50_000, seed=0)
    assert both == pytest.approx(once, rel=0.02)
