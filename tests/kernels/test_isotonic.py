"""Isotonic kernels against the max-min formula, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from cje.kernels.isotonic import (
    isotonic_centered_fit,
    isotonic_fit,
    isotonic_fitted,
    isotonic_predict,
    pool_ties,
)

# A coarse grid of x makes ties common; the floats make them rare.
POSITIONS = st.one_of(
    st.integers(0, 6).map(float), st.floats(-1e3, 1e3, allow_nan=False, allow_infinity=False)
)
ROWS = st.lists(
    st.tuples(POSITIONS, st.floats(-10, 10), st.floats(0.01, 10)), min_size=1, max_size=25
)
CURVES = st.integers(0, 2**32 - 1)


def slow_isotonic(x, y, w, increasing):
    """Max-min formula over the distinct values, one value for each row."""
    if not increasing:
        return -slow_isotonic(x, -y, w, True)
    distinct = sorted(set(x.tolist()))
    mean = {v: np.average(y[x == v], weights=w[x == v]) for v in distinct}
    mass = {v: w[x == v].sum() for v in distinct}

    def average(block):
        return np.average([mean[v] for v in block], weights=[mass[v] for v in block])

    value = {
        v: max(
            min(average(distinct[a : b + 1]) for b in range(i, len(distinct))) for a in range(i + 1)
        )
        for i, v in enumerate(distinct)
    }
    return np.array([value[v] for v in x.tolist()])


@settings(deadline=None, max_examples=60)
@given(ROWS, st.booleans())
def test_fit_equals_the_max_min_formula(rows, increasing):
    x, y, w = np.array(rows).T
    expected = slow_isotonic(x, y, w, increasing)
    np.testing.assert_allclose(
        isotonic_fitted(x, y, w, increasing=increasing), expected, rtol=1e-9, atol=1e-9
    )
    knots = isotonic_fit(x, y, w, increasing=increasing)
    np.testing.assert_allclose(isotonic_predict(*knots, x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("increasing", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("distinct", [7, 100_000])
def test_fit_equals_scikit_learn_on_and_between_and_outside_the_data(
    increasing, weighted, distinct
):
    rng = np.random.default_rng(3)
    x = rng.integers(0, distinct, 400) / distinct
    y = rng.normal(size=400) + x
    w = rng.uniform(0.1, 3.0, 400) if weighted else None
    peer = IsotonicRegression(increasing=increasing, out_of_bounds="clip").fit(
        x, y, sample_weight=w
    )
    at = np.concatenate((x, rng.uniform(-0.5, 1.5, 500)))
    ours = isotonic_predict(*isotonic_fit(x, y, w, increasing=increasing), at)
    np.testing.assert_allclose(ours, peer.predict(at), rtol=1e-11, atol=1e-12)


def test_fitted_equals_scipy_on_sorted_rows():
    rng = np.random.default_rng(4)
    y, w = rng.normal(size=500), rng.uniform(0.1, 2.0, 500)
    expected = isotonic_regression(y, weights=w).x
    np.testing.assert_array_equal(isotonic_fitted(np.arange(500.0), y, w), expected)


@given(ROWS)
def test_the_weighted_mean_and_the_range_of_y_are_kept(rows):
    x, y, w = np.array(rows).T
    fitted = isotonic_fitted(x, y, w)
    assert np.average(fitted, weights=w) == pytest.approx(np.average(y, weights=w), abs=1e-9)
    assert fitted.min() >= y.min() - 1e-12
    assert fitted.max() <= y.max() + 1e-12


@given(ROWS)
def test_knots_are_strictly_increasing_monotone_and_none_is_inside_a_stretch(rows):
    x, y, w = np.array(rows).T
    x_knots, y_knots = isotonic_fit(x, y, w)
    assert (np.diff(x_knots) > 0).all()
    assert (np.diff(y_knots) >= 0).all()
    assert not ((y_knots[1:-1] == y_knots[:-2]) & (y_knots[1:-1] == y_knots[2:])).any()
    assert x_knots[0] == x.min()
    assert x_knots[-1] == x.max()


def test_a_row_of_weight_zero_takes_no_part_but_is_predicted():
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 9.0, 2.0, 3.0])
    w = np.array([1.0, 0.0, 1.0, 1.0])
    x_knots, y_knots = isotonic_fit(x, y, w)
    np.testing.assert_array_equal(x_knots, [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(y_knots, [0.0, 2.0, 3.0])
    np.testing.assert_allclose(isotonic_fitted(x, y, w), [0.0, 1.0, 2.0, 3.0])


def test_integer_weights_are_repeated_rows():
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 9, 60) / 9, rng.normal(size=60)
    w = rng.integers(0, 4, 60)
    for fit in (isotonic_fit, isotonic_centered_fit):
        weighted = fit(x, y, w)
        repeated = fit(np.repeat(x, w), np.repeat(y, w))
        np.testing.assert_allclose(weighted, repeated, rtol=1e-12, atol=1e-12)


@given(ROWS)
def test_row_order_moves_nothing(rows):
    x, y, w = np.array(rows).T
    order = np.random.default_rng(0).permutation(len(x))
    for fit in (isotonic_fit, isotonic_centered_fit):
        first, second = fit(x, y, w), fit(x[order], y[order], w[order])
        at = np.linspace(x.min() - 1, x.max() + 1, 50)
        # A steep segment between near-tied x magnifies the last bit, hence the comparison at knots.
        np.testing.assert_allclose(
            isotonic_predict(*first, x), isotonic_predict(*second, x), rtol=1e-9, atol=1e-9
        )
        assert np.isfinite(isotonic_predict(*first, at)).all()


@given(CURVES, st.booleans())
def test_predictions_are_the_same_bits_in_any_batch_and_monotone_to_the_last_bit(seed, increasing):
    rng = np.random.default_rng(seed)
    x_knots = np.unique(rng.random(rng.integers(1, 40)))
    y_knots = np.sort(rng.random(len(x_knots)))
    y_knots = y_knots if increasing else y_knots[::-1]
    x = np.concatenate((rng.uniform(-0.2, 1.2, 200), x_knots))
    x = np.sort(np.concatenate((x, np.nextafter(x, 2.0), np.nextafter(x, -2.0))))
    whole = isotonic_predict(x_knots, y_knots, x)
    alone = np.array([isotonic_predict(x_knots, y_knots, value) for value in x])
    halves = np.concatenate([isotonic_predict(x_knots, y_knots, part) for part in (x[:7], x[7:])])
    strided = isotonic_predict(x_knots, y_knots, np.repeat(x, 3)[::3])
    for other in (alone, halves, strided):
        assert whole.tobytes() == other.tobytes()
    steps = np.diff(whole) if increasing else -np.diff(whole)
    assert (steps >= 0).all()
    np.testing.assert_allclose(whole, np.interp(x, x_knots, y_knots), rtol=1e-12, atol=1e-14)


def test_a_segment_narrower_than_its_rise_can_be_divided_by_stays_finite():
    value = isotonic_predict([0.0, 1e-310], [0.0, 1.0], [5e-311])
    np.testing.assert_allclose(value, [0.5], rtol=1e-9)


@given(ROWS)
def test_pool_ties_equals_a_loop(rows):
    x, y, w = np.array(rows).T
    distinct, mean, weight, inverse = pool_ties(x, y, w)
    np.testing.assert_array_equal(distinct, np.unique(x))
    np.testing.assert_array_equal(distinct[inverse], x)
    for v, m, total in zip(distinct, mean, weight, strict=True):
        assert m == pytest.approx(np.average(y[x == v], weights=w[x == v]), abs=1e-9)
        assert total == pytest.approx(w[x == v].sum(), rel=1e-12)


def test_pool_ties_gives_a_value_without_weight_its_plain_mean():
    _, mean, weight, _ = pool_ties([1.0, 1.0, 2.0], [0.0, 1.0, 5.0], [0.0, 0.0, 2.0])
    np.testing.assert_array_equal(mean, [0.5, 5.0])
    np.testing.assert_array_equal(weight, [0.0, 2.0])


def test_negative_zero_is_tied_with_zero():
    x_knots, _ = isotonic_fit([-0.0, 0.0, 1.0], [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(x_knots, [0.0, 1.0])


@given(ROWS, st.booleans())
def test_centered_knots_are_strictly_monotone_and_inside_the_data(rows, increasing):
    x, y, w = np.array(rows).T
    x_knots, y_knots = isotonic_centered_fit(x, y, w, increasing=increasing)
    assert (np.diff(x_knots) > 0).all()
    assert ((np.diff(y_knots) > 0) if increasing else (np.diff(y_knots) < 0)).all()
    assert x_knots[0] >= x.min()
    assert x_knots[-1] <= x.max()
    assert y_knots.min() >= y.min() - 1e-9
    assert y_knots.max() <= y.max() + 1e-9


@pytest.mark.parametrize("increasing", [True, False])
def test_centered_fit_keeps_ranking_strict_where_the_plain_fit_ties(increasing):
    rng = np.random.default_rng(6)
    x = np.sort(rng.random(300))
    y = (x if increasing else 1 - x) + rng.normal(scale=0.4, size=300)
    plain = isotonic_predict(*isotonic_fit(x, y, increasing=increasing), x)
    centred = isotonic_predict(*isotonic_centered_fit(x, y, increasing=increasing), x)
    steps = np.diff(centred) if increasing else -np.diff(centred)
    assert len(np.unique(plain)) < 40
    assert (steps > 0).all()
    # A slope through the middle of each stretch stays close to it.
    assert np.abs(centred - plain).max() < 0.5
    assert centred.mean() == pytest.approx(plain.mean(), abs=0.02)


def test_centered_knots_sit_at_the_weighted_middle_of_each_stretch():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    y = np.array([0.0, 3.0, 1.0, 2.0, 5.0])
    w = np.array([1.0, 2.0, 1.0, 1.0, 1.0])
    x_knots, y_knots = isotonic_centered_fit(x, y, w)
    np.testing.assert_allclose(x_knots, [0.0, 1.75, 4.0])
    np.testing.assert_allclose(y_knots, [0.0, 2.25, 5.0])
