"""calibrate_to_target_mean: one PAV pass, exact mean, capped variance, edge cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from cje.calibration import calibrate_to_target_mean
from cje.calibration.weights.target_mean import (
    MEAN_TOL,
    VAR_TOL,
    _pav_mean1_projection_sorted,
    _variance_safe_blend_closed_form,
)
from cje.errors import CJEError


def by_bisection(weights: np.ndarray) -> np.ndarray:
    """The mean-one projection as the founding document describes it: bisection on a multiplier."""
    w = weights / weights.mean()

    def project(shift: float) -> np.ndarray:
        return np.maximum(isotonic_regression(w - shift).x, 0.0)

    low, high = -10.0, 10.0 + w.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if project(middle).mean() > 1.0 else (low, middle)
    return project((low + high) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_one_pass_equals_the_bisection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(sigma=2.0, size=300) * (rng.random(300) > 0.2)
    assert np.allclose(
        _pav_mean1_projection_sorted(weights), by_bisection(weights), atol=1e-9, rtol=0
    )


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 5)), min_size=1, max_size=60),
    st.floats(0.1, 50),
    st.booleans(),
)
def test_mean_sign_order_ties_and_variance_hold_for_any_weights(
    rows: list, target: float, increasing: bool
) -> None:
    weights, index = np.array([r[0] for r in rows]), np.array([float(r[1]) for r in rows])
    out, info = calibrate_to_target_mean(
        weights, target, ordering_index=index, return_diagnostics=True, increasing=increasing
    )
    assert abs(out.mean() - target) <= MEAN_TOL * target
    assert (out >= 0).all()
    assert info["var_after"] <= info["var_before"] * VAR_TOL + 1e-12
    order = np.argsort(index, kind="stable")
    steps = np.diff(out[order]) if increasing else -np.diff(out[order])
    assert (steps >= -1e-9 * target).all()
    for value in np.unique(index):
        assert np.ptp(out[index == value]) == 0.0


def test_without_an_index_the_weights_keep_their_shape() -> None:
    weights = np.array([3.0, 1.0, 2.0])
    assert np.allclose(calibrate_to_target_mean(weights, 2.0), weights)


def test_zero_constant_single_and_sparse_weights_have_the_target_mean() -> None:
    zero, info = calibrate_to_target_mean(np.zeros(4), 2.0, return_diagnostics=True)
    assert zero.tolist() == [2.0] * 4
    assert "all weights are zero" in info["note"]
    assert calibrate_to_target_mean(np.full(5, 7.0), 1.5).tolist() == [1.5] * 5
    assert calibrate_to_target_mean([3.0], 1.0).tolist() == [1.0]
    sparse = np.zeros(1000)
    sparse[7] = 1e-9
    out, info = calibrate_to_target_mean(
        sparse, ordering_index=np.arange(1000.0), return_diagnostics=True
    )
    assert abs(out.mean() - 1.0) <= MEAN_TOL
    assert "sparse: 1 of 1000" in info["note"]
    huge = calibrate_to_target_mean(np.array([1e308, 1e308, 0.0]))
    assert np.allclose(huge, [1.5, 1.5, 0.0])


def test_the_blend_meets_its_cap_to_a_tenth_of_a_percent() -> None:
    rng = np.random.default_rng(0)
    raw = rng.lognormal(sigma=1.0, size=500)
    raw /= raw.mean()
    shuffled = rng.permutation(raw)
    for rho in (0.6, 0.8, 1.0):
        blend, alpha, feasible = _variance_safe_blend_closed_form(raw, shuffled, rho)
        assert feasible
        assert 0 <= alpha <= 1
        assert blend.var() <= rho * raw.var() * VAR_TOL


@pytest.mark.parametrize(
    ("weights", "index", "message"),
    [
        ([], None, "non-empty"),
        ([1.0, np.nan], None, "row 1"),
        ([1.0, -2.0], None, "row 1"),
        ([1.0, 2.0], [0.1], "ordering_index must have one value per row"),
        ([1.0, 2.0], [0.1, np.inf], "ordering_index must be finite"),
    ],
)
def test_invalid_input_is_refused_by_name(weights: list, index: list | None, message: str) -> None:
    with pytest.raises(CJEError, match=message):
        calibrate_to_target_mean(weights, ordering_index=index)


@pytest.mark.parametrize("target", [0.0, -1.0, np.nan, np.inf])
def test_a_target_mean_must_be_positive(target: float) -> None:
    with pytest.raises(CJEError, match="target_mean"):
        calibrate_to_target_mean([1.0, 2.0], target)
