"""Logistic regression by Newton's method beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cje.kernels.logistic import logistic_regression


def _sample(seed: int, rare: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = rng.random((400, 3))
    eta = 3.0 * columns[:, 0] - 2.0 * columns[:, 1] - (4.0 if rare else 0.5)
    outcome = (rng.random(400) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    outcome[:2] = 0.0, 1.0
    return columns, outcome, (rng.random(400) < 0.8).astype(float)


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_coefficients_are_those_of_scikit_learn(seed: int, rare: bool) -> None:
    columns, outcome, weights = _sample(seed, rare)
    found = logistic_regression(columns, outcome, weights, penalty=0.1)
    peer = LogisticRegression(C=10.0, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    peer.fit(columns, outcome, sample_weight=weights)
    np.testing.assert_allclose(found, [*peer.intercept_, *peer.coef_[0]], rtol=1e-6, atol=1e-6)


def test_any_start_gives_the_same_coefficients() -> None:
    columns, outcome, weights = _sample(7, rare=False)
    far = np.array([40.0, -60.0, 80.0, 5.0])
    found = logistic_regression(columns, outcome, weights, penalty=0.1, start=far)
    expected = logistic_regression(columns, outcome, weights, penalty=0.1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_column_that_separates_the_outcomes_has_a_finite_coefficient() -> None:
    x = np.linspace(0.0, 1.0, 50)
    found = logistic_regression(x[:, None], (x > 0.5).astype(float), np.ones(50), penalty=0.1)
    assert np.isfinite(found).all()
    assert 5.0 < found[1] < 50.0
