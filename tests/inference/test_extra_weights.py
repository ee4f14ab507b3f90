"""Degrees of freedom of an extra part that rests on a few heavy pieces."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import InfluenceEstimate


def _estimate(weights: np.ndarray, most: float | None = None, k: int = 1) -> InfluenceEstimate:
    names = tuple("abcdef"[:k])
    return InfluenceEstimate(
        names,
        np.zeros(k),
        np.zeros((50, k)),
        extra_covariance=np.eye(k),
        extra_df=most,
        extra_weights=weights,
    )


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


def test_joined_estimates_keep_pieces_of_their_own() -> None:
    one = _estimate(np.ones((6, 1)))
    two = _estimate(np.ones((8, 1))).renamed(["z"])
    joined = InfluenceEstimate.join([one, two])
    np.testing.assert_allclose(joined.degrees_of_freedom(), [6.0, 8.0])
    assert joined.difference("a", "z").degrees_of_freedom()[0] == pytest.approx(14.0)


def test_t_intervals_from_unequal_pieces_cover() -> None:
    """Six heavy pieces among sixty: a t quantile at the number of pieces falls short of 95%."""
    rng = np.random.default_rng(0)
    weight = np.r_[np.full(6, 1.0), np.full(54, 0.05)]
    k = 4000
    values = rng.standard_normal(k) * np.sqrt(weight @ weight)
    variance = ((rng.standard_normal((60, k)) * weight[:, None]) ** 2).sum(axis=0)
    covered = {}
    for name, pieces in (("pieces", np.tile(weight[:, None], k)), ("count", None)):
        many = InfluenceEstimate(
            tuple(map(str, range(k))),
            values,
            np.zeros((2, k)),
            extra_covariance=np.diag(variance),
            extra_df=59.0,
            extra_weights=pieces,
        )
        covered[name] = np.mean([0.0 in interval for interval in many.intervals()])
    assert covered["pieces"] == pytest.approx(0.95, abs=0.012)
    assert covered["count"] < 0.93


def test_weights_of_the_wrong_shape_are_an_error() -> None:
    with pytest.raises(CJEError, match="extra_weights"):
        _estimate(np.ones((5, 3)))
    with pytest.raises(CJEError, match="extra_weights"):
        _estimate(np.full((5, 1), np.nan))
