"""Promises of `InfluenceEstimate`."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import InfluenceEstimate


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
    est = InfluenceEstimate(("a",), [0.0], psi[:, None])
    assert 30 < est.degrees_of_freedom()[0] < 75


def test_extra_covariance_widens_and_lowers_the_degrees_of_freedom() -> None:
    _, est = _two(400)
    extra = InfluenceEstimate(
        est.names, est.values, est.influence, extra_covariance=np.eye(2) * 0.01, extra_df=4
    )
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
        InfluenceEstimate(("a",), values, influence)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CJEError, match="choose from a, b"):
        _two()[1].difference("a", "zebra")


def test_label_influence_is_full_uncertainty_only_and_survives_algebra() -> None:
    rng = np.random.default_rng(6)
    psi, by_label = rng.normal(size=(50, 2)), np.zeros((50, 2))
    by_label[:, 1] = 0.9 * psi[:, 0]  # value b rests on the noise of value a
    names = [f"p{i}" for i in range(50)]
    est = InfluenceEstimate(
        ("a", "b"), [0.0, 0.0], psi, names, extra_df=9.0, label_influence=by_label
    )
    plain = InfluenceEstimate(("a", "b"), [0.0, 0.0], psi, names)
    np.testing.assert_allclose(est.standard_errors(full=False), plain.standard_errors())
    assert est.standard_errors()[1] > 1.2 * plain.standard_errors()[1]
    assert est.degrees_of_freedom()[1] < plain.degrees_of_freedom()[1]
    both = psi + by_label
    gap = both[:, 1] - both[:, 0]
    expected = np.sqrt(50 / 49 * (gap**2).sum())
    np.testing.assert_allclose(est.difference("b", "a").standard_errors(), expected)
    parts = InfluenceEstimate.join([est.select(["b"]), est.select(["a"])])
    np.testing.assert_allclose(parts.difference("b", "a").standard_errors(), expected)
    np.testing.assert_allclose((2.0 * est).standard_errors(), 2.0 * est.standard_errors())
