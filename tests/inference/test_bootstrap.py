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


def test_multiplicities_are_poisson_and_take_whole_clusters() -> None:
    draws = cluster_bootstrap(np.eye(40), lambda t: t, n_draws=5000, seed=3)
    np.testing.assert_array_equal(draws, np.round(draws))
    assert abs(draws.mean() - 1.0) < 0.01
    assert abs(draws.var() - 1.0) < 0.02
    observed = np.bincount(draws.ravel().astype(int), minlength=4)[:4] / draws.size
    np.testing.assert_allclose(observed, [0.3679, 0.3679, 0.1839, 0.0613], atol=0.004)


def test_no_draw_is_empty_however_few_the_clusters() -> None:
    draws = cluster_bootstrap(np.ones((2, 1)), lambda t: t, n_draws=500, seed=1)
    assert (draws > 0).all()


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
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
