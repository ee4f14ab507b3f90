"""Kaplan-Meier, its influence, pseudo-observations and the censoring distribution."""

from __future__ import annotations

import numpy as np
import pytest

from cje.kernels.kaplan_meier import (
    censoring_influence,
    censoring_survival,
    kaplan_meier,
    km_influence,
    pseudo_observations,
)


def _data(seed: int, n: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    latent, limit = rng.exponential(1.0, n), rng.exponential(1.5, n)
    time = np.minimum(latent, limit)
    return (np.ceil(time * 5) if ties else time), latent <= limit


@pytest.mark.parametrize("ties", [False, True])
def test_curve_equals_lifelines(ties: bool) -> None:
    lifelines = pytest.importorskip("lifelines")
    time, event = _data(0, 200, ties=ties)
    curve = kaplan_meier(time, event)
    other = lifelines.KaplanMeierFitter().fit(time, event)
    grid = np.linspace(0, time.max(), 37)
    np.testing.assert_allclose(
        curve.at(grid), other.survival_function_at_times(grid).to_numpy(), atol=1e-12
    )


def test_censoring_distribution_equals_scikit_survival() -> None:
    sksurv = pytest.importorskip("sksurv.nonparametric")
    time, event = _data(1, 200, ties=True)
    times, survival = sksurv.kaplan_meier_estimator(event, time, reverse=True)
    np.testing.assert_allclose(censoring_survival(time, event).at(times), survival, atol=1e-12)


def test_influence_is_the_derivative_in_each_weight() -> None:
    time, event = _data(2, 60, ties=True)
    w = np.random.default_rng(3).uniform(0.5, 2.0, 60)
    horizon = np.array([2.0, 5.0])
    _, derivative = km_influence(time, event, horizon, w)
    np.testing.assert_allclose(w @ derivative, 0.0, atol=1e-12)
    for row in (0, 11, 37):
        moved = w.copy()
        moved[row] += 1e-6
        change = kaplan_meier(time, event, moved).at(horizon) - kaplan_meier(time, event, w).at(
            horizon
        )
        np.testing.assert_allclose(derivative[row], change / 1e-6, atol=1e-6)


def test_pseudo_observations_equal_leave_one_out_up_to_one_over_n() -> None:
    time, event = _data(4, 150, ties=False)
    horizon = 0.8
    mine = pseudo_observations(time, event, horizon)
    at = np.array([horizon])
    whole = 1 - kaplan_meier(time, event).at(at)[0]
    slow = np.array(
        [
            150 * whole
            - 149 * (1 - kaplan_meier(np.delete(time, i), np.delete(event, i)).at(at)[0])
            for i in range(150)
        ]
    )
    assert np.abs(mine - slow).max() < 2 / 150
    assert mine.mean() == pytest.approx(whole, abs=1e-12)


def test_pseudo_observations_are_indicators_without_censoring() -> None:
    time, _ = _data(5, 80, ties=False)
    mine = pseudo_observations(time, np.ones(80, dtype=bool), 0.5)
    np.testing.assert_allclose(mine, (time <= 0.5).astype(float), atol=1e-10)


def test_pseudo_observations_are_one_when_the_curve_has_reached_zero() -> None:
    time = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(pseudo_observations(time, np.ones(3, dtype=bool), 3.0), 1.0)


def test_integer_weights_equal_repeated_rows() -> None:
    time, event = _data(6, 50, ties=True)
    count = np.random.default_rng(7).integers(1, 4, 50)
    rows = np.repeat(np.arange(50), count)
    weighted = pseudo_observations(time, event, 3.0, count.astype(float))
    repeated = pseudo_observations(time[rows], event[rows], 3.0)
    np.testing.assert_allclose(weighted[rows], repeated, atol=1e-10)


def test_censoring_influence_is_the_derivative_in_each_weight() -> None:
    time, event = _data(8, 80, ties=True)
    rng = np.random.default_rng(9)
    w, coefficient = rng.uniform(0.5, 2.0, 80), rng.normal(size=80)
    use = time <= np.quantile(time, 0.8)
    coefficient = np.where(use, coefficient, 0.0)

    def statistic(weight: np.ndarray) -> float:
        g = censoring_survival(time, event, weight).before(time)
        return float(coefficient[use] @ np.log(g[use]))

    influence = censoring_influence(time, event, coefficient, time, w)
    for row in range(0, 80, 7):
        moved = w.copy()
        moved[row] += 1e-6
        slope = (statistic(moved) - statistic(w)) / 1e-6
        assert influence[row] == pytest.approx(slope, abs=1e-5)
