"""Shrinkage: the derived lambda is a minimum, keeps its promises and is guarded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cje.diagnostics.overlap import effective_sample_size
from cje.errors import CJEError
from cje.uncertainty import (
    adaptive_shrinkage,
    apply_shrinkage,
    compute_optimal_shrinkage,
    covariance_shrinkage,
    first_order_shrinkage,
)


def _data(n: int, seed: int, *, biased: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, rewards and variances; the noise of a reward has its variance."""
    rng = np.random.default_rng(seed)
    w = rng.lognormal(0.0, 0.7, n)
    v = 0.2 * rng.beta(0.5, 2.0, n)
    level = 0.3 + (1.5 * v if biased else 0.0)
    return w, np.clip(level + rng.normal(size=n) * np.sqrt(v), -1, 2), v


def _criterion(w: np.ndarray, r: np.ndarray, v: np.ndarray, lam: float) -> float:
    base = w @ r / w.sum()
    shrunk = w / (1 + lam * v)
    value = shrunk @ r / shrunk.sum()
    return float((shrunk**2 @ (r - value) ** 2) / shrunk.sum() ** 2 + (value - base) ** 2)


def test_weights_are_divided_by_one_plus_lambda_v() -> None:
    w = np.array([[1.0, 2.0], [4.0, 8.0]])
    np.testing.assert_allclose(apply_shrinkage(w, [0.0, 0.1], 10.0), [[1, 2], [2, 4]])
    np.testing.assert_array_equal(apply_shrinkage(w, [0.0, 0.1], 0.0), w)


@pytest.mark.parametrize("seed", range(5))
def test_optimal_lambda_is_close_to_the_best_of_a_fine_grid_and_better_than_none(
    seed: int,
) -> None:
    w, r, v = _data(2000, seed)
    lam = compute_optimal_shrinkage(w, r, v)
    grid = np.linspace(0.0, 1.0 / v.max(), 400)
    values = np.array([_criterion(w, r, v, g) for g in grid])
    assert lam > 0.0
    chosen = _criterion(w, r, v, lam)
    assert chosen < values[0]
    assert values[0] - chosen > 0.6 * (values[0] - values.min())


def test_lambda_follows_the_derived_formula_before_its_guards() -> None:
    w, r, v = _data(500, 3)
    a = r - w @ r / w.sum()
    u = v - w @ v / w.sum()
    top = (w**2 * u * a**2).sum()
    bottom = (w**2 * u**2 * a**2).sum() + (w * u * a).sum() ** 2
    assert compute_optimal_shrinkage(w, r, v) == pytest.approx(min(top / bottom, 1 / v.max()))
    wanted = (w**2 * v * a**2).mean() / (w**2 * v**2 * a**2).mean()
    assert first_order_shrinkage(w, r, v) == pytest.approx(wanted)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_renaming_good_and_bad_changes_nothing_unlike_the_published_formula(seed: int) -> None:
    w, r, v = _data(200, seed)
    assert compute_optimal_shrinkage(w, r, v) == pytest.approx(
        compute_optimal_shrinkage(w, 1.0 - r, v), abs=1e-9
    )
    # The published covariance changes sign, so one of the two is cut to zero.
    assert min(covariance_shrinkage(w, r, v), covariance_shrinkage(w, 1.0 - r, v)) == 0.0


def test_with_a_bias_lambda_vanishes_as_rows_accumulate_and_the_first_order_one_does_not() -> None:
    few = np.mean([compute_optimal_shrinkage(*_data(300, s, biased=True)) for s in range(10)])
    many = np.mean([compute_optimal_shrinkage(*_data(30_000, s, biased=True)) for s in range(10)])
    assert many < few / 5
    stays = first_order_shrinkage(*_data(30_000, 0, biased=True))
    assert stays > 20 * many


def test_equal_variances_need_no_shrinkage_at_all() -> None:
    w, r, _ = _data(100, 0)
    assert compute_optimal_shrinkage(w, r, np.full(100, 0.1)) == pytest.approx(0.0, abs=1e-6)
    assert compute_optimal_shrinkage(w, r, np.zeros(100)) == 0.0
    assert covariance_shrinkage(w, r, np.zeros(100)) == 0.0
    assert first_order_shrinkage(w, r, np.zeros(100)) == 0.0


def test_adaptive_reaches_the_effective_sample_size_with_the_smallest_lambda() -> None:
    rng = np.random.default_rng(0)
    v = 0.25 * rng.beta(0.3, 2.0, 1000)
    w = np.exp(12 * v)  # the heavy rows are the unsure ones
    before = effective_sample_size(w) / 1000
    goal = before + 0.2
    lam, reached = adaptive_shrinkage(w, v, goal)
    assert reached
    assert effective_sample_size(apply_shrinkage(w, v, lam)) >= goal * 1000
    assert effective_sample_size(apply_shrinkage(w, v, 0.97 * lam)) < goal * 1000
    assert adaptive_shrinkage(w, v, before / 2) == (0.0, True)


def test_adaptive_says_when_no_lambda_is_enough() -> None:
    w = np.exp(np.random.default_rng(0).normal(0, 2, 500))
    lam, reached = adaptive_shrinkage(w, np.full(500, 0.1), 0.9)
    assert not reached
    assert lam == 0.0


@pytest.mark.parametrize(
    ("w", "r", "v", "message"),
    [
        ([-1.0, 1.0], [0.1, 0.2], [0.1, 0.1], "negative"),
        ([0.0, 0.0], [0.1, 0.2], [0.1, 0.1], "all weights are zero"),
        ([np.nan, 1.0], [0.1, 0.2], [0.1, 0.1], "finite"),
        ([1.0, 1.0], [0.1], [0.1, 0.1], "one length"),
        ([1.0, 1.0], [0.1, 0.2], [-0.1, 0.1], "negative"),
    ],
)
def test_bad_columns_are_refused(
    w: list[float], r: list[float], v: list[float], message: str
) -> None:
    for function in (compute_optimal_shrinkage, first_order_shrinkage, covariance_shrinkage):
        with pytest.raises(CJEError, match=message):
            function(w, r, v)
    with pytest.raises(CJEError, match="lambda"):
        apply_shrinkage([1.0], [0.1], -1.0)


@pytest.mark.parametrize("scale", [1e-200, 1e-5, 1e5, 1e200])
def test_the_size_of_the_weights_does_not_move_lambda(scale: float) -> None:
    w, r, v = _data(200, 3)
    assert compute_optimal_shrinkage(scale * w, r, v) == pytest.approx(
        compute_optimal_shrinkage(w, r, v), rel=1e-9
    )
    assert first_order_shrinkage(scale * w, r, v) == pytest.approx(
        first_order_shrinkage(w, r, v), rel=1e-9
    )
    assert adaptive_shrinkage(scale * w, v, 0.9)[0] == pytest.approx(
        adaptive_shrinkage(w, v, 0.9)[0], rel=1e-6
    )


def test_numbers_beyond_any_study_are_refused_and_small_ones_are_harmless() -> None:
    w, one = np.array([1.0, 2.0]), np.array([0.1, 0.9])
    for function in (compute_optimal_shrinkage, first_order_shrinkage, covariance_shrinkage):
        for r, v in ((one, np.array([1e308, 0.6])), (np.array([-1e308, 0.6]), one)):
            with pytest.raises(CJEError, match="too large"):
                function(w, r, v)
        assert np.isfinite(function(w, one, np.array([5e-324, 0.0])))
    with pytest.raises(CJEError, match="differ too much in size"):
        covariance_shrinkage(np.array([0.0, 1.0, 2.0]) * 1e300, np.array([0.0, 0.4, 1.0]),
                             np.array([0.0, 1e-60, 1e-30]))  # fmt: skip
    assert adaptive_shrinkage(w, np.array([5e-324, 0.0]), 1.0) == (0.0, False)
    assert apply_shrinkage(w, np.array([1e308, 0.0]), 1e9).tolist() == [0.0, 2.0]
    with pytest.raises(CJEError, match="start"):
        adaptive_shrinkage(w, one, 0.5, start=-1.0)
    with pytest.raises(CJEError, match="lambda"):
        apply_shrinkage(w, one, "much")  # type: ignore[arg-type]
