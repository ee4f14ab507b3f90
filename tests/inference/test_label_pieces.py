"""Degrees of freedom of an extra part that rests on a few heavy pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import LABELS, SAMPLE_LABELS, SAMPLING, Component, InfluenceEstimate


def _estimate(weights: np.ndarray, most: float = np.inf, k: int = 1) -> InfluenceEstimate:
    part = Component(LABELS, covariance=np.eye(k), df=most, spread=weights)
    return InfluenceEstimate(tuple("abcdef"[:k]), np.zeros(k), (part,))


def test_equal_pieces_count_each_and_one_heavy_piece_counts_alone() -> None:
    assert _estimate(np.ones((30, 1))).degrees_of_freedom()[0] == pytest.approx(30.0)
    heavy = np.r_[100.0, np.full(29, 0.01)][:, None]
    assert _estimate(heavy).degrees_of_freedom()[0] == pytest.approx(1.0, abs=1e-3)
    assert _estimate(np.ones((30, 1)), 9.0).degrees_of_freedom()[0] == pytest.approx(9.0)
    assert _estimate(np.zeros((30, 1)), 9.0).degrees_of_freedom()[0] == pytest.approx(9.0)


def test_a_difference_rests_on_the_pieces_in_which_the_two_differ() -> None:
    weights = np.ones((20, 2))
    weights[:4, 1] = 3.0
    both = _estimate(weights, k=2)
    assert both.difference("b", "a").degrees_of_freedom()[0] == pytest.approx(4.0)
    scaled = both.rescaled(100.0, 1.0).difference("b", "a")
    assert scaled.degrees_of_freedom()[0] == pytest.approx(4.0)


def test_joined_estimates_are_aligned_on_the_labels_they_share() -> None:
    one = replace(_estimate(np.ones((6, 1))), clusters=tuple("abcdef"))
    two = replace(_estimate(np.ones((8, 1))), clusters=tuple("efghijkl")).renamed(["z"])
    joined = InfluenceEstimate.join([one, two])
    np.testing.assert_allclose(joined.degrees_of_freedom(), [6.0, 8.0])
    assert joined.difference("a", "z").degrees_of_freedom()[0] == pytest.approx(10.0)


def test_labels_of_a_rectified_estimate_stay_part_of_its_sample_beside_another() -> None:
    rng = np.random.default_rng(2)
    seen = rng.standard_normal((20, 1)) / 20
    apart = _labelled(seen, np.full((20, 1), 0.05))
    rectified = replace(
        apart, names=("r",), components=(replace(apart.components[0], kind=SAMPLE_LABELS),)
    )
    np.testing.assert_array_equal(
        rectified.standard_errors(full=False), rectified.standard_errors()
    )
    raw = float(np.sqrt(20 / 19 * (seen**2).sum()))
    for both in ([apart, rectified], [rectified, apart]):
        joined = InfluenceEstimate.join(both)
        assert joined.select(["a"]).standard_errors(full=False)[0] == 0.0
        assert joined.select(["r"]).standard_errors(full=False)[0] == pytest.approx(raw)


def test_t_intervals_from_unequal_pieces_cover() -> None:
    """Six heavy pieces among sixty: a t quantile at the number of pieces falls short of 95%."""
    rng = np.random.default_rng(0)
    weight = np.r_[np.full(6, 1.0), np.full(54, 0.05)]
    k = 4000
    values = rng.standard_normal(k) * np.sqrt(weight @ weight)
    variance = ((rng.standard_normal((60, k)) * weight[:, None]) ** 2).sum(axis=0)
    covered = {}
    for name, pieces in (("pieces", np.tile(weight[:, None], k)), ("count", None)):
        part = Component(LABELS, covariance=np.diag(variance), df=59.0, spread=pieces)
        many = InfluenceEstimate(tuple(map(str, range(k))), values, (part,))
        covered[name] = np.mean([0.0 in interval for interval in many.intervals()])
    assert covered["pieces"] == pytest.approx(0.95, abs=0.012)
    assert covered["count"] < 0.93


def test_a_spread_of_the_wrong_shape_is_an_error() -> None:
    with pytest.raises(CJEError, match="spread"):
        _estimate(np.ones((5, 3)))
    with pytest.raises(CJEError, match="spread"):
        _estimate(np.full((5, 1), np.nan))


def _labelled(seen: np.ndarray, pieces: np.ndarray) -> InfluenceEstimate:
    k = seen.shape[1]
    part = Component(LABELS, seen, spread=pieces)
    return InfluenceEstimate(tuple("abcdef"[:k]), np.zeros(k), (part,))


def test_the_label_variance_is_a_mean_of_what_its_labels_and_what_all_labels_say() -> None:
    seen, pieces = np.full((16, 1), 0.1), np.full((16, 1), 0.2)
    estimate = _labelled(seen, pieces)
    expected = (16 * 16 * 0.01 + 4 * 16 * 0.04) / 20 + 16 * 0.01 / 15  # the last: G / (G - 1)
    assert estimate.covariance()[0, 0] == pytest.approx(expected)
    assert estimate.covariance(full=False)[0, 0] == 0.0
    assert estimate.degrees_of_freedom()[0] == pytest.approx(20.0, rel=0.1)


def test_a_difference_is_moderated_by_its_own_pieces() -> None:
    rng = np.random.default_rng(5)
    pieces = rng.uniform(0.5, 1.5, (40, 2)) / 40
    seen = pieces * rng.standard_normal((40, 2))
    both = _labelled(seen, pieces)
    alone = _labelled(seen[:, 1:] - seen[:, :1], pieces[:, 1:] - pieces[:, :1])
    assert both.difference("b", "a").covariance()[0, 0] == pytest.approx(alone.covariance()[0, 0])
    cross = seen.T @ seen
    plain = cross[0, 1] / np.sqrt(cross[0, 0] * cross[1, 1])
    joint = both.covariance()
    assert joint[0, 1] / np.sqrt(joint[0, 0] * joint[1, 1]) == pytest.approx(plain)
    draws = both.multiplier_bootstrap(20_000, seed=1)
    np.testing.assert_allclose(draws.std(axis=0), both.standard_errors(), rtol=0.05)


def test_intervals_hold_where_heavy_labels_all_come_out_well() -> None:
    """0/1 labels, 0.9 of them ones, a tenth of them heavy: plain squares miss, moderated ones hold.

    4,000 repetitions, standard error 0.0034.
    """
    rng = np.random.default_rng(0)
    k, p = 4000, 0.9
    weight = np.r_[np.full(20, 3.0), np.full(180, 1.0)]
    weight /= weight.sum()
    label = (rng.random((200, k)) < p).astype(float)
    value = weight @ label
    residual = label - value
    seen = weight[:, None] * residual / np.sqrt(1 - weight[:, None])
    names = tuple(map(str, range(k)))
    pieces = weight[:, None] * np.sqrt((residual**2).mean(axis=0))
    held = {}
    for name, part in (("moderated", pieces), ("plain", None)):
        many = InfluenceEstimate(names, value, (Component(LABELS, seen, spread=part),))
        low, high = np.array([tuple(i) for i in many.intervals(method="t")]).T
        held[name] = np.mean((low <= p) & (p <= high))
    assert held["plain"] < held["moderated"]
    assert held["moderated"] == pytest.approx(0.95, abs=0.015)


def test_joining_keeps_degrees_of_freedom_and_label_variances() -> None:
    rng = np.random.default_rng(4)
    names = tuple(map(str, range(30)))
    psi = rng.standard_normal((30, 1)) / 30
    part = Component(LABELS, psi, df=12.0, spread=np.full((30, 1), 1 / 30))
    one = InfluenceEstimate(("a",), np.zeros(1), (part,), names)
    other = replace(one, names=("z",), components=(replace(part, spread=None),))
    both = InfluenceEstimate.join([one, other])
    np.testing.assert_allclose(
        both.standard_errors(), np.r_[one.standard_errors(), other.standard_errors()]
    )
    alone = InfluenceEstimate.join([one])
    np.testing.assert_allclose(alone.degrees_of_freedom(), one.degrees_of_freedom())


def test_sampling_degrees_of_freedom_are_those_of_the_sampling_influence_alone() -> None:
    even = np.full((100, 1), 0.01) * np.where(np.arange(100) % 2, 1, -1)[:, None]
    heavy = np.zeros((100, 1))
    heavy[0] = 1.0
    parts = (Component(SAMPLING, even), Component(LABELS, heavy, df=5.0))
    estimate = InfluenceEstimate(("a",), np.zeros(1), parts)
    assert estimate.degrees_of_freedom(full=False)[0] == pytest.approx(99.0)
    assert estimate.degrees_of_freedom()[0] == pytest.approx(5.0, rel=0.05)


def test_no_more_degrees_of_freedom_than_clusters_and_the_prior() -> None:
    rng = np.random.default_rng(1)
    psi = rng.standard_normal((12, 1)) / 12
    labels = Component(LABELS, psi[::-1], spread=np.full((12, 1), 1 / 12))
    estimate = InfluenceEstimate(("a",), np.zeros(1), (Component(SAMPLING, psi), labels))
    assert estimate.degrees_of_freedom()[0] <= 11 + 4


def test_labels_that_offset_the_sampling_are_not_moderated_to_nothing() -> None:
    psi = np.linspace(-1, 1, 40)[:, None] / 40
    labels = Component(LABELS, psi, spread=np.full((40, 1), 1e-6))
    estimate = InfluenceEstimate(("a",), np.zeros(1), (Component(SAMPLING, -0.95 * psi), labels))
    raw = np.sqrt(40 / 39 * ((0.05 * psi) ** 2).sum())
    assert estimate.standard_errors()[0] > 0.8 * raw
