"""`JudgeScore` and `JudgeScores`: on [0, 1], with a variance that can exist."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.data import JudgeScore, JudgeScores
from cje.errors import CJEError

NAN = float("nan")
BAD = [
    (1.1, 0.0, "must be in"),
    (-0.1, 0.0, "must be in"),
    (NAN, 0.0, "must be in"),
    (0.5, -0.01, "cannot be negative"),
    (0.5, 0.26, "too large"),
    (0.5, NAN, "too large"),
]


@pytest.mark.parametrize(("mean", "variance", "words"), BAD)
def test_bad_scores_are_refused_one_by_one_and_in_a_batch(
    mean: float, variance: float, words: str
) -> None:
    with pytest.raises(CJEError, match=words):
        JudgeScore(mean, variance)
    with pytest.raises(CJEError, match=words) as caught:
        JudgeScores([0.5, 0.5, mean], [0.0, 0.0, variance])
    assert "row 2" in str(caught.value)


@pytest.mark.parametrize("mean", ["0.5", None, True, [0.5]])
def test_a_score_must_be_a_number(mean: object) -> None:
    with pytest.raises(CJEError, match="must be a number"):
        JudgeScore(mean)  # type: ignore[arg-type]


def test_a_deterministic_judge_has_variance_zero() -> None:
    assert JudgeScore(0.75).variance == 0.0
    assert JudgeScore(mean=0.75, variance=0.04).std == 0.2
    with pytest.raises(dataclasses.FrozenInstanceError):
        JudgeScore(0.5).mean = 0.6  # type: ignore[misc]


scores = st.tuples(st.floats(0, 1), st.floats(0, 0.25))


@given(st.lists(scores, max_size=30))
def test_a_batch_is_the_sequence_of_its_scores(pairs: list[tuple[float, float]]) -> None:
    single = [JudgeScore(m, v) for m, v in pairs]
    batch = JudgeScores.from_scores(single)
    assert list(batch) == single
    assert [batch[i] for i in range(len(batch))] == single
    assert list(batch[1:]) == single[1:]
    assert JudgeScores(batch.mean, batch.variance) == batch
    assert np.array_equal(batch.std, [s.std for s in single])


def test_a_batch_cannot_be_changed() -> None:
    means = np.array([0.1, 0.2])
    batch = JudgeScores(means, 0.01)
    means[0] = 0.9
    assert batch[0].mean == 0.1
    with pytest.raises(ValueError, match="read-only"):
        batch.mean[0] = 0.3
    with pytest.raises(CJEError):
        JudgeScores([[0.1]])
    with pytest.raises(CJEError):
        JudgeScores([0.1, 0.2], [0.0, 0.0, 0.0])
