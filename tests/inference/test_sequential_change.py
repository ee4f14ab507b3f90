"""The change detector: seldom false, fast where the change is large."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference.sequential import change_evidence, innovations

LOOKS = 500


def _series(
    draw: Callable[[np.random.Generator, int], np.ndarray], rng: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of `LOOKS` periods with n labels each."""
    y = draw(rng, LOOKS * n).reshape(LOOKS, n)
    return y.mean(axis=1), y.std(axis=1, ddof=1) / np.sqrt(n)


DRAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.standard_normal(n) + 3.0,
    "uniform": lambda rng, n: rng.random(n),
    "binary 30%": lambda rng, n: (rng.random(n) < 0.3).astype(float),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DRAWS))
def test_a_value_that_stays_gives_a_false_alarm_in_at_most_one_of_twenty_over_500_looks(
    name: str,
) -> None:
    rng = np.random.default_rng(4)
    n_series, false = 15, 0
    for _ in range(n_series):
        value, se = _series(DRAWS[name], rng, 40)
        false += change_evidence(value, se, 39.0).alarm is not None
    assert false / n_series <= 0.05 + 2.5 * (0.05 * 0.95 / n_series) ** 0.5


def test_innovations_of_a_constant_value_are_independent_standard_normals() -> None:
    rng = np.random.default_rng(1)
    se = rng.uniform(0.5, 2.0, 30)
    u = innovations(7.0 + se * rng.standard_normal((4_000, 30)), np.tile(se, (4_000, 1)))[:, 1:]
    np.testing.assert_allclose(u.mean(axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(np.cov(u.T), np.eye(29), atol=0.09)


@pytest.mark.slow
def test_the_evidence_has_mean_one_while_nothing_changes() -> None:
    rng = np.random.default_rng(2)
    ends = [
        np.exp(change_evidence(rng.standard_normal(6), np.ones(6)).log_evidence[-1])
        for _ in range(1_000)
    ]
    assert np.mean(ends) <= 1.0 + 3.0 * np.std(ends) / np.sqrt(len(ends))


@pytest.mark.parametrize(("size", "most"), [(2.0, 12), (4.0, 4)])
def test_a_change_is_found_within_a_few_periods_and_dated(size: float, most: int) -> None:
    rng = np.random.default_rng(3)
    delays, dates = [], []
    for _ in range(15):
        value = rng.standard_normal(120)
        value[40:] += size
        found = change_evidence(value, np.ones(120))
        assert found.alarm is not None
        assert found.start is not None
        delays.append(found.alarm - 40)
        dates.append(found.start)
    assert np.median(delays) <= most
    assert abs(np.median(dates) - 40) <= 1


def test_the_size_and_origin_of_the_scale_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    value, se = rng.standard_normal(50), rng.uniform(0.5, 1.5, 50)
    plain = change_evidence(value, se).log_evidence
    moved = change_evidence(5.0 + 3.0 * value, 3.0 * se).log_evidence
    np.testing.assert_allclose(plain, moved, atol=1e-8)


def test_identical_estimates_without_spread_are_not_a_change_and_a_jump_is_one() -> None:
    assert change_evidence(np.full(30, 2.0), np.zeros(30)).alarm is None
    jump = change_evidence(np.r_[np.full(15, 2.0), np.full(5, 2.5)], np.zeros(20))
    assert jump.alarm == 15


@pytest.mark.parametrize(
    ("value", "se"), [([1.0, np.nan], [1, 1]), ([1.0, 2.0], [1.0]), ([], []), ([1.0], [-1.0])]
)
def test_a_series_that_makes_no_sense_is_refused(value: list[float], se: list[float]) -> None:
    with pytest.raises(CJEError):
        change_evidence(value, se)


def test_a_period_of_equal_labels_is_not_known_exactly() -> None:
    """With 30 labels of a 20% outcome half of all series of 500 looks have such a period."""
    rng = np.random.default_rng(3)
    y = (rng.random((200, 30)) < 0.2).astype(float)
    y[40] = 0.0
    value, se = y.mean(axis=1), y.std(axis=1, ddof=1) / np.sqrt(30)
    assert change_evidence(value, se, 29.0).alarm is None


def test_a_change_is_found_where_periods_have_different_numbers_of_labels() -> None:
    rng = np.random.default_rng(5)
    counts = np.where(np.arange(40) % 2, 400.0, 20.0)
    value = rng.standard_normal(40) / np.sqrt(counts)
    se = 1.0 / np.sqrt(counts)
    assert change_evidence(value, se, counts - 1.0, counts=counts).alarm is None
    moved = value + 0.5 * (np.arange(40) >= 20)
    assert change_evidence(moved, se, counts - 1.0, counts=counts).alarm is not None
    with pytest.raises(CJEError, match="one positive number per value"):
        change_evidence(value, se, 29.0, counts=[1.0, 2.0])
