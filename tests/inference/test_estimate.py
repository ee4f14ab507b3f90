"""Promises of `InfluenceEstimate`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import LABELS, SAMPLING, Component, InfluenceEstimate


def _two(n: int = 40, seed: int = 0) -> tuple[np.ndarray, InfluenceEstimate]:
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=n)
    table = np.column_stack([shared + rng.normal(size=n), shared + rng.normal(size=n)])
    return table, InfluenceEstimate.from_rows(("a", "b"), table)


def test_standard_error_of_a_mean_is_the_textbook_one() -> None:
    table, est = _two()
    expected = table.std(axis=0, ddof=1) / np.sqrt(len(table))
    np.testing.assert_allclose(est.standard_errors(), expected, rtol=1e-12)


def test_difference_is_the_paired_t_test() -> None:
    table, est = _two()
    gap = table[:, 1] - table[:, 0]
    diff = est.difference("b", "a")
    np.testing.assert_allclose(diff.values, gap.mean())
    np.testing.assert_allclose(diff.standard_errors(), gap.std(ddof=1) / np.sqrt(len(gap)))
    assert diff.standard_errors()[0] < np.sqrt((est.standard_errors() ** 2).sum())


def test_arithmetic_on_two_results_stays_clustered_whatever_the_order_of_clusters() -> None:
    table, est = _two()
    names = [f"p{i}" for i in range(len(table))]
    a = InfluenceEstimate.from_rows(("a",), table[:, 0], clusters=names)
    back = np.arange(len(table))[::-1]
    b = InfluenceEstimate.from_rows(("b",), table[back, 1], clusters=[names[i] for i in back])
    np.testing.assert_allclose(
        (b - a).standard_errors(), est.difference("b", "a").standard_errors(), rtol=1e-12
    )
    total = 2.0 * (a + b)
    np.testing.assert_allclose(total.values, 2 * est.values.sum())


def test_disjoint_clusters_give_independent_errors() -> None:
    table, est = _two()
    a = InfluenceEstimate.from_rows(("a",), table[:, 0], clusters=[f"x{i}" for i in range(40)])
    b = InfluenceEstimate.from_rows(("b",), table[:, 1], clusters=[f"y{i}" for i in range(40)])
    independent = np.sqrt((est.standard_errors() ** 2).sum())
    np.testing.assert_allclose((a - b).standard_errors(), independent, rtol=0.02)


def test_contrast_bounds_follow_the_signs() -> None:
    est = InfluenceEstimate.from_rows(("a", "b"), [[0.1, 0.9], [0.2, 1.0]], bounds=(0.0, 1.0))
    np.testing.assert_allclose(np.asarray(est.difference("a", "b").bounds), [[-1.0, 1.0]])
    low, high = est.intervals(0.999)[1]
    assert low >= 0.0
    assert high <= 1.0


def test_fifty_noisy_clusters_among_many_quiet_ones_count_as_about_fifty_df() -> None:
    rng = np.random.default_rng(3)
    psi = np.concatenate([rng.normal(size=50), rng.normal(scale=0.01, size=5000)])
    est = InfluenceEstimate.from_influence(("a",), [0.0], psi[:, None])
    assert 30 < est.degrees_of_freedom()[0] < 75


def test_another_source_of_uncertainty_widens_and_lowers_the_degrees_of_freedom() -> None:
    _, est = _two(400)
    part = Component("raters", covariance=np.eye(2) * 0.01, df=4)
    extra = InfluenceEstimate(est.names, est.values, (*est.components, part))
    assert (extra.standard_errors() > est.standard_errors()).all()
    np.testing.assert_allclose(extra.standard_errors(full=False), est.standard_errors())
    assert (extra.degrees_of_freedom() < est.degrees_of_freedom()).all()


def test_an_estimate_known_by_its_covariance_gives_the_same_contrast_error() -> None:
    _, est = _two()
    saved = InfluenceEstimate.from_covariance(est.names, est.values, est.covariance(), df=39)
    np.testing.assert_allclose(
        saved.difference("b", "a").standard_errors(), est.difference("b", "a").standard_errors()
    )


def test_multiplier_bootstrap_keeps_covariance_and_skewness() -> None:
    rng = np.random.default_rng(5)
    table = rng.exponential(size=(60, 2))
    est = InfluenceEstimate.from_rows(("a", "b"), table)
    draws = est.multiplier_bootstrap(40_000, seed=1)
    np.testing.assert_allclose(np.cov(draws.T), est.covariance(), rtol=0.05, atol=2e-4)
    z = (draws - draws.mean(axis=0)) / draws.std(axis=0)
    np.testing.assert_allclose((z**3).mean(axis=0), est.skewness(), atol=0.06)


@pytest.mark.parametrize(
    ("values", "influence"), [([np.nan], [[0.0]]), ([0.0], [[np.nan]]), ([0.0, 1.0], [[0.0]])]
)
def test_bad_shapes_and_values_are_refused(
    values: list[float], influence: list[list[float]]
) -> None:
    with pytest.raises(CJEError):
        InfluenceEstimate.from_influence(("a",), values, influence)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CJEError, match="choose from a, b"):
        _two()[1].difference("a", "zebra")


def test_label_influence_is_full_uncertainty_only_and_survives_algebra() -> None:
    rng = np.random.default_rng(6)
    psi, by_label = rng.normal(size=(50, 2)), np.zeros((50, 2))
    by_label[:, 1] = 0.9 * psi[:, 0]  # value b rests on the noise of value a
    names = [f"p{i}" for i in range(50)]
    parts = (Component(SAMPLING, psi), Component(LABELS, by_label, df=9.0))
    est = InfluenceEstimate(("a", "b"), [0.0, 0.0], parts, names)
    plain = InfluenceEstimate.from_influence(("a", "b"), [0.0, 0.0], psi, clusters=names)
    np.testing.assert_allclose(est.standard_errors(full=False), plain.standard_errors())
    assert est.standard_errors()[1] > 1.2 * plain.standard_errors()[1]
    assert est.degrees_of_freedom()[1] < plain.degrees_of_freedom()[1]
    both = psi + by_label
    gap = both[:, 1] - both[:, 0]
    expected = np.sqrt(50 / 49 * (gap**2).sum())
    np.testing.assert_allclose(est.difference("b", "a").standard_errors(), expected)
    joined = InfluenceEstimate.join([est.select(["b"]), est.select(["a"])])
    np.testing.assert_allclose(joined.difference("b", "a").standard_errors(), expected)
    np.testing.assert_allclose((2.0 * est).standard_errors(), 2.0 * est.standard_errors())


def _sources(k: int, seed: int) -> tuple[Component, ...]:
    """Four sources of uncertainty of k values over twelve clusters."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(k, k))
    return (
        Component(SAMPLING, rng.normal(size=(12, k)) / 12),
        Component(LABELS, rng.normal(size=(12, k)) / 12, df=7.0, spread=np.full((12, k), 0.08)),
        Component("raters", rng.normal(size=(12, k)) / 20, df=2.0),
        Component("drift", covariance=root @ root.T / 400, df=5.0),
    )


def test_a_sixth_source_of_uncertainty_follows_every_operation() -> None:
    """Joined, scaled and subtracted estimates have the variance of the plain matrix algebra."""
    names = [f"p{i}" for i in range(12)]
    est = InfluenceEstimate(("a", "b"), [0.2, 0.5], _sources(2, 0), names)
    one, two = (est.select([name]) for name in est.names)
    for found in (InfluenceEstimate.join([one, two]), 3.0 * est * (1 / 3), est.renamed(["b", "a"])):
        np.testing.assert_allclose(found.standard_errors(), est.standard_errors(), rtol=1e-12)
        np.testing.assert_allclose(found.degrees_of_freedom(), est.degrees_of_freedom())
    gap, c = est.difference("b", "a"), np.array([[-1.0, 1.0]])
    by_hand = InfluenceEstimate(("gap",), [0.3], [part.mapped(c) for part in est.components])
    np.testing.assert_allclose(gap.standard_errors(), by_hand.standard_errors(), rtol=1e-12)
    draws = est.multiplier_bootstrap(20_000, seed=1)
    np.testing.assert_allclose(draws.std(axis=0), est.standard_errors(), rtol=0.05)


def test_each_source_of_uncertainty_counts_in_the_full_standard_error_only() -> None:
    parts = _sources(2, 3)
    whole = InfluenceEstimate(("a", "b"), [0.2, 0.5], parts)
    plain = InfluenceEstimate(("a", "b"), [0.2, 0.5], parts[:1])
    np.testing.assert_array_equal(whole.standard_errors(full=False), plain.standard_errors())
    assert (whole.standard_errors() > plain.standard_errors()).all()
    assert (whole.degrees_of_freedom() <= 11 + 4).all()


@pytest.mark.parametrize(
    "parts",
    [
        lambda: (Component("x"),),
        lambda: (Component("x", np.zeros((3, 2)), np.zeros((2, 2))),),
        lambda: (Component("x", np.zeros((3, 1))),),
        lambda: (Component("x", covariance=np.zeros((3, 3))),),
        lambda: (Component("x", covariance=np.full((2, 2), np.inf)),),
        lambda: (Component("x", covariance=np.eye(2), df=0.0),),
        lambda: (Component("x", covariance=np.eye(2)), Component("x", covariance=np.eye(2))),
        lambda: (Component("x", np.zeros((3, 2))), Component("y", np.zeros((4, 2)))),
    ],
)
def test_components_that_do_not_fit_are_refused(parts: Callable[[], tuple[Component, ...]]) -> None:
    with pytest.raises(CJEError):
        InfluenceEstimate(("a", "b"), [0.0, 0.0], parts())


@pytest.mark.parametrize("seed", range(6))
def test_equal_quantities_summed_in_another_order_do_not_differ(seed: int) -> None:
    """Their last bits differ, and a rounding error over a rounding error was "significant"."""
    rng = np.random.default_rng(seed)
    rows = 1000.0 * rng.uniform(size=(300, 3)) @ rng.uniform(size=(3, 1))
    other = (rows - 1e-13 * rng.normal(size=rows.shape))[:, 0]
    influence = np.column_stack([rows[:, 0] - rows.mean(), other - other.mean()]) / len(rows)
    values = np.array([rows.mean(), rows.mean() * (1 + 4e-16)])
    both = InfluenceEstimate.from_influence(("a", "b"), values, influence)
    difference = both.difference("a", "b")
    assert difference.values[0] == 0.0
    assert difference.standard_errors()[0] == 0.0
    assert difference.p_values()[0] == 1.0
