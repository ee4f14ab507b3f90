"""Lowess against a plain loop and statsmodels; the spline basis against Harrell's formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.nonparametric.smoothers_lowess import lowess as peer_lowess

from cje.kernels.smooth import lowess, natural_spline_basis


def slow_lowess(x, y, w, frac):
    """A weighted least-squares line at each row, through its k nearest rows (no interpolation)."""
    k = min(max(int(frac * len(x) + 1e-10), 2), len(x))
    fitted = []
    for point in x:
        distance = np.abs(x - point)
        radius = np.sort(distance)[k - 1]
        if radius == 0:
            same = distance == 0
            fitted.append(np.average(y[same], weights=w[same]))
            continue
        kernel = np.where(distance < radius, (1 - (distance / radius) ** 3) ** 3, 0.0) * w
        root = np.sqrt(kernel)
        design = np.column_stack((np.ones(len(x)), (x - point) / radius))
        # The smallest coefficients where the window holds one distinct x: a constant.
        fitted.append(np.linalg.lstsq(design * root[:, None], y * root, rcond=1e-9)[0][0])
    return np.array(fitted)


def shapes(name, n, rng):
    x = {
        "uniform": lambda: rng.random(n),
        "skewed": lambda: rng.beta(0.5, 4.0, n),
        "far from zero": lambda: 1e4 + rng.random(n),
        "wide": lambda: rng.normal(scale=1e3, size=n),
    }[name]()
    return x, (rng.random(n) < 0.3 + 0.4 * (x > np.median(x))).astype(float)


@pytest.mark.parametrize("name", ["uniform", "skewed", "far from zero", "wide"])
@pytest.mark.parametrize(
    ("n", "frac", "delta"),
    [
        (n, frac, delta)
        for n in (15, 500, 20_000)
        for frac, delta in ((0.3, 0.01), (0.67, 0.05), (0.1, 0.0), (1.0, 0.3))
        if n < 20_000 or delta > 0  # a full fit at each of 20,000 rows takes the peer minutes
    ],
)
def test_lowess_equals_statsmodels_without_robust_iterations(name, n, frac, delta):
    x, y = shapes(name, n, np.random.default_rng(11))
    spacing = delta * (x.max() - x.min())
    peer = peer_lowess(y, x, frac=frac, it=0, delta=spacing, return_sorted=False)
    np.testing.assert_allclose(lowess(x, y, frac=frac, delta=delta), peer, rtol=1e-8, atol=1e-10)


def test_lowess_equals_statsmodels_with_rounded_scores_where_no_neighbourhood_is_one_value():
    rng = np.random.default_rng(12)
    x = np.round(rng.random(3000), 2)
    y = x + rng.normal(size=3000)
    peer = peer_lowess(y, x, frac=0.2, it=0, delta=0.05 * np.ptp(x), return_sorted=False)
    np.testing.assert_allclose(lowess(x, y, frac=0.2, delta=0.05), peer, rtol=1e-9, atol=1e-11)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.floats(-5, 5), st.floats(0.1, 5)), min_size=2, max_size=30
    ),
    st.sampled_from([0.2, 0.5, 1.0]),
)
def test_lowess_equals_the_plain_loop_with_weights_and_ties(rows, frac):
    x, y, w = np.array(rows, dtype=float).T
    ours = lowess(x, y, w, frac=frac, delta=0.0)
    np.testing.assert_allclose(ours, slow_lowess(x, y, w, frac), rtol=1e-6, atol=1e-7)


def test_a_neighbourhood_of_one_value_gives_its_mean():
    x = np.repeat([0.0, 0.5, 1.0], 100)
    y = np.random.default_rng(13).random(300)
    fitted = lowess(x, y, frac=0.3)
    np.testing.assert_allclose(fitted[::100], y.reshape(3, 100).mean(axis=1), rtol=1e-12)


def test_a_straight_line_is_reproduced_with_any_weights():
    rng = np.random.default_rng(14)
    x, w = rng.normal(size=400), rng.exponential(size=400)
    np.testing.assert_allclose(lowess(x, 3 - 2 * x, w), 3 - 2 * x, rtol=1e-9, atol=1e-9)


def test_equal_weights_change_nothing_and_zero_weight_means_absent():
    rng = np.random.default_rng(15)
    x, y = rng.random(300), rng.random(300)
    np.testing.assert_allclose(lowess(x, y, np.full(300, 2.5)), lowess(x, y), rtol=1e-12)
    w = (rng.random(300) < 0.6).astype(float)
    kept = w > 0
    np.testing.assert_array_equal(lowess(x, y, w, at=x), lowess(x[kept], y[kept], at=x))


def test_row_order_moves_nothing_and_evaluation_is_elementwise():
    rng = np.random.default_rng(16)
    x, y = rng.random(2000), rng.random(2000)
    order = rng.permutation(2000)
    whole = lowess(x, y)
    np.testing.assert_array_equal(lowess(x[order], y[order]), whole[order])
    pieces = [lowess(x, y, at=x[i : i + 333]) for i in range(0, 2000, 333)]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


def test_the_curve_is_constant_outside_the_data():
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(lowess(x, 2 * x, at=[-1.0, 0.0, 1.0, 5.0]), [0, 0, 2, 2], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_give_finite_values(n):
    x = np.arange(float(n))
    np.testing.assert_allclose(lowess(x, x + 1), x + 1)
    np.testing.assert_allclose(lowess(np.zeros(n), x), np.full(n, x.mean()))


@pytest.mark.parametrize("n_knots", [3, 4, 5, 7])
def test_spline_basis_equals_harrells_formula(n_knots):
    rng = np.random.default_rng(17)
    x, t = rng.normal(size=200), np.sort(rng.normal(size=n_knots))
    basis = natural_spline_basis(x, t)
    assert basis.shape == (200, n_knots - 1)
    np.testing.assert_array_equal(basis[:, 0], x)
    plus = lambda u: max(u, 0.0) ** 3  # noqa: E731
    for j in range(n_knots - 2):
        expected = [
            plus(v - t[j])
            - plus(v - t[-2]) * (t[-1] - t[j]) / (t[-1] - t[-2])
            + plus(v - t[-1]) * (t[-2] - t[j]) / (t[-1] - t[-2])
            for v in x
        ]
        np.testing.assert_allclose(
            basis[:, j + 1], np.array(expected) / (t[-1] - t[0]) ** 2, rtol=1e-9, atol=1e-10
        )


def test_spline_is_linear_beyond_the_outer_knots_and_two_knots_are_a_line():
    beyond = natural_spline_basis(np.array([5.0, 6.0, 7.0, -5.0, -6.0, -7.0]), [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(beyond[0] - 2 * beyond[1] + beyond[2], 0.0, atol=1e-9)
    np.testing.assert_allclose(beyond[3] - 2 * beyond[4] + beyond[5], 0.0, atol=1e-9)
    np.testing.assert_array_equal(natural_spline_basis([1.0, 2.0], [0.0, 3.0]), [[1.0], [2.0]])
