"""Bins with exact edges, bins of equal mass that never split ties, and sums over them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.kernels.binning import bin_sums, equal_mass_bins, equal_mass_edges, equal_width_bins

PROBABILITIES = st.lists(
    st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda i: i / 20)), min_size=1, max_size=60
)


@given(PROBABILITIES, st.integers(1, 40))
def test_equal_width_bins_equal_a_search_among_the_edges(values, n_bins):
    edges = [b / n_bins for b in range(1, n_bins)]
    expected = [sum(edge <= v for edge in edges) for v in values]
    assert equal_width_bins(values, n_bins).tolist() == expected


@pytest.mark.parametrize("n_bins", [3, 7, 10, 15, 49, 100, 1000, 12345])
def test_every_edge_and_its_neighbours_fall_on_the_right_side(n_bins):
    edges = np.arange(1, n_bins) / n_bins
    expected = np.arange(1, n_bins)
    np.testing.assert_array_equal(equal_width_bins(edges, n_bins), expected)
    np.testing.assert_array_equal(equal_width_bins(np.nextafter(edges, 2), n_bins), expected)
    np.testing.assert_array_equal(equal_width_bins(np.nextafter(edges, -2), n_bins), expected - 1)


def test_the_ends_are_in_the_end_bins():
    values = [0.0, -0.0, np.nextafter(1.0, 0.0), 1.0]
    assert equal_width_bins(values, 15).tolist() == [0, 0, 14, 14]


@given(PROBABILITIES, st.one_of(st.integers(1, 15), st.integers(60, 90)))
def test_equal_mass_bins_follow_the_middle_rank_of_each_distinct_value(values, n_bins):
    n = len(values)
    expected = []
    for v in values:
        below, on = sum(u < v for u in values), sum(u == v for u in values)
        expected.append(int((below + Fraction(on - 1, 2)) * n_bins / n))
    assert equal_mass_bins(values, n_bins).tolist() == expected


@given(PROBABILITIES, st.integers(1, 15), st.data())
def test_a_whole_weight_is_that_many_rows(values, n_bins, data):
    p = np.array(values)
    size = len(p)
    w = np.array(data.draw(st.lists(st.integers(1, 4), min_size=size, max_size=size)), dtype=float)
    bins = np.searchsorted(equal_mass_edges(p, n_bins, w), p, side="right")
    repeated = equal_mass_bins(np.repeat(p, w.astype(int)), n_bins)
    assert np.repeat(bins, w.astype(int)).tolist() == repeated.tolist()


@pytest.mark.parametrize(("n", "n_bins"), [(100, 10), (101, 10), (7, 3), (5, 8), (1000, 90)])
def test_equal_mass_bins_without_ties_differ_in_size_by_at_most_one(n, n_bins):
    sizes = np.bincount(
        equal_mass_bins(np.random.default_rng(0).random(n), n_bins), minlength=n_bins
    )
    assert len(sizes) == n_bins
    assert sizes.max() - sizes.min() <= 1


@given(PROBABILITIES, st.integers(1, 15))
def test_equal_mass_bins_never_split_a_tie_and_rise_with_the_value(values, n_bins):
    bins = equal_mass_bins(values, n_bins)
    ordered = bins[np.argsort(values, kind="stable")]
    assert (np.diff(ordered) >= 0).all()
    for v in set(values):
        assert len({b for b, u in zip(bins.tolist(), values, strict=True) if u == v}) == 1


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5), st.floats(0, 3)), max_size=40))
def test_sums_equal_a_loop_with_and_without_weights(rows):
    bins = np.array([r[0] for r in rows], dtype=np.int64)
    column = np.array([r[1] for r in rows], dtype=float)
    weight = np.array([r[2] for r in rows], dtype=float)
    count, total, square = bin_sums(bins, 6, column, column**2)
    mass, weighted = bin_sums(bins, 6, column, weights=weight)
    for b in range(6):
        inside = bins == b
        assert count[b] == inside.sum()
        assert total[b] == pytest.approx(column[inside].sum(), abs=1e-9)
        assert square[b] == pytest.approx((column[inside] ** 2).sum(), abs=1e-9)
        assert mass[b] == pytest.approx(weight[inside].sum(), abs=1e-9)
        assert weighted[b] == pytest.approx((weight * column)[inside].sum(), abs=1e-9)
