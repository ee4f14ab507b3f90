"""The simplex programme against enumeration of supports, SLSQP and the optimality conditions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from cje.kernels.simplex import simplex_qp


def value(sigma, linear, p):
    return p @ sigma @ p + linear @ p


def enumerate_supports(sigma, linear):
    """Best feasible solution of the equality-constrained programme over all supports."""
    k = len(sigma)
    best = np.inf
    for size in range(1, k + 1):
        for support in combinations(range(k), size):
            index = list(support)
            system = np.zeros((size + 1, size + 1))
            system[:size, :size] = 2 * sigma[np.ix_(index, index)]
            system[size, :size] = system[:size, size] = 1.0
            solution = np.linalg.lstsq(system, np.append(-linear[index], 1.0), rcond=None)[0]
            p = np.zeros(k)
            p[index] = solution[:size]
            if p.min() >= -1e-10 and abs(p.sum() - 1) < 1e-8:
                p = np.maximum(p, 0) / np.maximum(p, 0).sum()
                best = min(best, value(sigma, linear, p))
    return best


def problem(seed, k, rank, linear_scale, scale=1.0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(rank, k))
    return scale * factor.T @ factor, scale * linear_scale * rng.normal(size=k)


def assert_optimal(sigma, linear, p, tolerance=1e-9):
    scale = max(np.abs(sigma).max(), np.abs(linear).max(), 1e-300)
    gradient = (2 * sigma @ p + linear) / scale
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.min() >= 0.0
    assert gradient.min() >= gradient @ p - tolerance


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.3, 30.0]),
    st.sampled_from([1.0, 1e-10, 1e8]),
)
def test_the_optimum_equals_the_best_over_every_support_also_when_singular(
    seed, k, rank, linear_scale, scale
):
    sigma, linear = problem(seed, k, rank, linear_scale, scale)
    p = simplex_qp(sigma, linear)
    assert_optimal(sigma, linear, p)
    size = max(np.abs(sigma).max(), np.abs(linear).max())
    assert value(sigma, linear, p) <= enumerate_supports(sigma, linear) + 1e-10 * size


@pytest.mark.parametrize("k", [20, 60])
@pytest.mark.parametrize("rank", [5, 100])
@pytest.mark.parametrize("linear_scale", [0.0, 1.0])
def test_larger_problems_satisfy_the_optimality_conditions(k, rank, linear_scale):
    for seed in range(5):
        sigma, linear = problem(seed, k, rank, linear_scale)
        assert_optimal(sigma, linear, simplex_qp(sigma, linear))


def test_the_optimum_equals_that_of_slsqp():
    for seed in range(10):
        sigma, linear = problem(seed, 5, 8, 1.0)
        result = minimize(
            lambda p, s=sigma, c=linear: value(s, c, p),
            np.full(5, 0.2),
            method="SLSQP",
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(simplex_qp(sigma, linear), result.x, atol=1e-5)


@pytest.mark.parametrize("spread", [3, 6, 9])
def test_candidates_of_very_unequal_variance_are_distinguished(spread):
    """Variances from 1 to 10^(2 spread): the small shares are right in relative terms."""
    rng = np.random.default_rng(spread)
    for _ in range(20):
        deviation = 10.0 ** rng.uniform(0, spread, 6)
        variances = deviation**2
        expected = (1 / variances) / (1 / variances).sum()
        np.testing.assert_allclose(simplex_qp(np.diag(variances)), expected, rtol=1e-7)
        factor = rng.normal(size=(4, 6))
        sigma = (factor.T @ factor) * np.outer(deviation, deviation)
        p = simplex_qp(sigma)
        gradient, size = sigma @ p, np.abs(sigma) @ p
        assert (gradient >= gradient @ p - 1e-10 * (size + size @ p)).all()


def test_a_worse_candidate_gets_nothing_beside_two_identical_ones():
    sigma = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 4.0]])
    p = simplex_qp(sigma)
    assert p[2] == 0.0
    assert p @ sigma @ p == pytest.approx(1.0)


def test_linear_zero_and_single_programmes_are_solved():
    np.testing.assert_array_equal(simplex_qp(np.zeros((3, 3)), [3.0, 1.0, 2.0]), [0.0, 1.0, 0.0])
    np.testing.assert_allclose(simplex_qp(np.zeros((4, 4))), np.full(4, 0.25))
    np.testing.assert_array_equal(simplex_qp([[5.0]], [-7.0]), [1.0])


def test_diagonal_gives_inverse_variance_shares():
    variances = np.array([1.0, 2.0, 4.0])
    expected = (1 / variances) / (1 / variances).sum()
    np.testing.assert_allclose(simplex_qp(np.diag(variances)), expected, rtol=1e-12)
