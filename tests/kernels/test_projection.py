"""The mean-one projection and the blend against searches that do not use the closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, isotonic_regression, minimize

from cje.kernels.projection import mean_one_projection, variance_safe_blend

WEIGHTS = st.lists(st.floats(0, 100), min_size=1, max_size=40)


def bisection_projection(w, index, increasing):
    """Mean one by bisection on an additive multiplier, a PAV pass for each trial."""
    order = np.argsort(index, kind="stable")
    target = w[order] / w.mean()

    def project(shift):
        fit = isotonic_regression(target - shift, increasing=increasing).x
        return np.maximum(fit, 0.0)

    low, high = -2.0, 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if project(middle).mean() > 1.0 else (low, middle)
    out = np.empty(len(w))
    out[order] = project(0.5 * (low + high))
    return out


@pytest.mark.parametrize("increasing", [True, False])
@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_one_pass_equals_a_bisection_on_the_multiplier(increasing, sigma):
    rng = np.random.default_rng(1)
    w, index = rng.lognormal(sigma=sigma, size=400), rng.random(400)
    ours = mean_one_projection(w, index, increasing=increasing)
    np.testing.assert_allclose(ours, bisection_projection(w, index, increasing), atol=1e-9)


def test_one_pass_equals_a_general_solver_with_every_constraint_written_out():
    rng = np.random.default_rng(2)
    w = rng.exponential(size=12)
    target, index = w / w.mean(), np.arange(12.0)
    monotone = LinearConstraint(np.diff(np.eye(12), axis=0), 0.0, np.inf)
    mean_one = LinearConstraint(np.full((1, 12), 1 / 12), 1.0, 1.0)
    result = minimize(
        lambda m: np.sum((m - target) ** 2),
        np.ones(12),
        jac=lambda m: 2 * (m - target),
        method="SLSQP",
        bounds=[(0, None)] * 12,
        constraints=[monotone, mean_one],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(mean_one_projection(w, index), result.x, atol=1e-5)


@given(WEIGHTS, st.integers(1, 50), st.booleans())
def test_projection_is_mean_one_nonnegative_monotone_and_shrinks_the_variance(
    weights, n_distinct, increasing
):
    w = np.array(weights)
    index = np.random.default_rng(0).integers(0, n_distinct, len(w)).astype(float)
    m = mean_one_projection(w, index, increasing=increasing)
    assert m.mean() == pytest.approx(1.0, abs=1e-14)
    assert (m >= 0).all()
    steps = np.diff(m[np.argsort(index, kind="stable")])
    assert ((steps if increasing else -steps) >= 0).all()
    if w.max() > 0:
        assert m.var() <= (w / w.max()).var() / (w / w.max()).mean() ** 2 * (1 + 1e-9) + 1e-12


def test_weights_that_are_zero_constant_single_or_huge_have_mean_one():
    np.testing.assert_array_equal(mean_one_projection(np.zeros(3), [1.0, 2.0, 3.0]), np.ones(3))
    np.testing.assert_allclose(mean_one_projection(np.full(3, 0.1), [1.0, 2.0, 3.0]), np.ones(3))
    np.testing.assert_array_equal(mean_one_projection([7.0], [0.3]), [1.0])
    huge = mean_one_projection([1e308, 1.5e308, 1.7e308], [0.0, 1.0, 2.0])
    np.testing.assert_allclose(huge, np.array([1.0, 1.5, 1.7]) / 1.4)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.0, 1.5),
    st.sampled_from(["projected", "independent", "same"]),
)
def test_blend_is_the_largest_share_of_a_fine_grid_that_meets_the_cap(seed, rho, kind):
    rng = np.random.default_rng(seed)
    raw = rng.lognormal(size=30)
    raw /= raw.mean()
    calibrated = {
        "projected": mean_one_projection(raw, np.arange(30.0)),
        "independent": rng.lognormal(sigma=2.0, size=30),
        "same": raw,
    }[kind]
    blend, share = variance_safe_blend(raw, calibrated, rho)
    grid = np.linspace(0, 1, 2001)
    variances = np.var((1 - grid)[:, None] * raw + grid[:, None] * calibrated, axis=1)
    feasible = np.flatnonzero(variances <= rho * raw.var())
    assert 0.0 <= share <= 1.0
    np.testing.assert_allclose(blend, (1 - share) * raw + share * calibrated, atol=1e-12)
    if len(feasible):
        assert blend.var() <= rho * raw.var() * (1 + 1e-9) + 1e-14
        assert share >= grid[feasible[-1]] - 1e-9
    else:
        assert blend.var() <= variances.min() * (1 + 1e-9) + 1e-14


def test_blend_keeps_the_mean_one():
    rng = np.random.default_rng(3)
    raw = rng.lognormal(size=200)
    raw /= raw.mean()
    blend, share = variance_safe_blend(raw, mean_one_projection(raw, rng.random(200)), 0.5)
    assert blend.mean() == pytest.approx(1.0, abs=1e-12)
    assert share == 1.0


def test_blend_of_constant_weights_is_finite():
    blend, share = variance_safe_blend(np.ones(4), np.ones(4), 0.5)
    np.testing.assert_array_equal(blend, np.ones(4))
    assert share == 1.0
