"""Promises of the bootstraps."""

from __future__ import annotations

import numpy as np

from cje.inference import cluster_bootstrap, multiplier_draws


def test_cluster_bootstrap_of_a_mean_has_its_standard_error_and_mean() -> None:
    rng = np.random.default_rng(0)
    sums, counts = rng.normal(3.0, 1.0, 80), rng.integers(1, 4, 80).astype(float)
    totals = np.column_stack([sums, counts])
    draws = cluster_bootstrap(totals, lambda t: t[:, :1] / t[:, 1:], n_draws=8000, seed=1)
    ratio = sums.sum() / counts.sum()
    psi = (sums - ratio * counts) / counts.sum()
    assert abs(draws.std() / np.sqrt((psi**2).sum()) - 1) < 0.05
    assert abs(draws.mean() - ratio) < 0.02


def test_cluster_bootstrap_equals_resampling_rows_one_by_one() -> None:
    """Totals of every draw are totals of whole clusters, G of them."""
    totals = np.eye(7)
    draws = cluster_bootstrap(totals, lambda t: t, n_draws=50, seed=3)
    np.testing.assert_array_equal(draws.sum(axis=1), np.full(50, 7.0))
    np.testing.assert_array_equal(draws, np.round(draws))


def test_same_seed_same_draws_another_seed_others() -> None:
    totals = np.random.default_rng(0).random((20, 3))
    first, again, other = (
        cluster_bootstrap(totals, lambda t: t, n_draws=10, seed=s) for s in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_multiplier_draws_do_not_depend_on_the_block_size(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Blocks bound memory; they must not change the law (variance and mean stay)."""
    psi = np.random.default_rng(1).normal(size=(500, 2))
    whole = multiplier_draws(psi, n_draws=4000, seed=2)
    monkeypatch.setattr("cje.inference.bootstrap._BLOCK_CELLS", 4000 * 7)
    blocks = multiplier_draws(psi, n_draws=4000, seed=2)
    np.testing.assert_allclose(whole.std(axis=0), blocks.std(axis=0), rtol=0.06)
    np.testing.assert_allclose(whole.mean(axis=0), 0.0, atol=1.2)
