"""Mid-rank distribution functions and sums by cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from cje.kernels.clusters import cluster_means, cluster_sums, count_distinct, renumbered
from cje.kernels.ranks import ecdf_fit, ecdf_predict, mid_ranks

VALUES = st.lists(
    st.one_of(st.integers(0, 5).map(float), st.floats(-100, 100)), min_size=1, max_size=40
)


@given(VALUES)
def test_ranks_of_the_data_equal_scipys_average_ranks(values):
    x = np.array(values)
    ranks = ecdf_predict(*ecdf_fit(x), x)
    np.testing.assert_allclose(ranks, (rankdata(x) - 0.5) / len(x), atol=1e-12)
    assert ranks.mean() == pytest.approx(0.5, abs=1e-12)


@given(VALUES)
def test_integer_weights_are_repeated_values(values):
    x = np.array(values)
    w = np.random.default_rng(0).integers(1, 4, len(x))
    np.testing.assert_allclose(ecdf_fit(x, w), ecdf_fit(np.repeat(x, w)), atol=1e-12)


def test_new_values_are_ranked_between_their_neighbours_and_clipped_outside():
    knots, ranks = ecdf_fit([1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        ecdf_predict(knots, ranks, [-9.0, 3.0, 9.0]), [1 / 6, (0.5 + 5 / 6) / 2, 5 / 6]
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-9, 9), st.floats(-9, 9)), max_size=50))
def test_cluster_sums_equal_a_loop_for_one_and_several_columns(rows):
    codes = np.array([r[0] for r in rows], dtype=np.int64)
    values = np.array([r[1:] for r in rows], dtype=float).reshape(len(rows), 2)
    expected = np.zeros((7, 2))
    for code, row in zip(codes, values, strict=True):
        expected[code] += row
    np.testing.assert_allclose(cluster_sums(values, codes, 7), expected, atol=1e-10)
    np.testing.assert_allclose(cluster_sums(values[:, 0], codes, 7), expected[:, 0], atol=1e-10)
    for code, mean in enumerate(cluster_means(values[:, 0], codes, 7)):
        mine = values[codes == code, 0]
        assert np.isnan(mean) if len(mine) == 0 else mean == pytest.approx(mine.mean())


@given(VALUES)
def test_mid_ranks_equal_scipys_to_the_last_bit(values):
    assert np.array_equal(mid_ranks(values), rankdata(values))


@given(
    st.lists(st.one_of(st.integers(0, 6), st.integers(-3, 10**12)), max_size=30),
    st.sampled_from([1, 1_000]),
)
def test_clusters_are_numbered_as_by_sorting_them(codes, step):
    given_codes = step * np.array(codes, dtype=np.int64)
    distinct, inverse = np.unique(given_codes, return_inverse=True)
    found, n = renumbered(given_codes)
    assert np.array_equal(found, inverse)
    assert n == count_distinct(given_codes) == len(distinct)
