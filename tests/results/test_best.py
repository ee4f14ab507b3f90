"""Which policy is named best, and which ones tie with it."""

from __future__ import annotations

import numpy as np
import pytest

from cje.inference import InfluenceEstimate
from cje.results.best import find_best


def estimate(values: list[float], se: float, seed: int = 0) -> InfluenceEstimate:
    """Independent values of equal standard error, 400 clusters."""
    noise = np.random.default_rng(seed).normal(size=(400, len(values)))
    noise -= noise.mean(axis=0)
    noise *= se / np.sqrt((noise**2).sum(axis=0))
    names = [f"p{i:02d}" for i in range(len(values))]
    return InfluenceEstimate.from_influence(names, values, noise)


def best_of(influence: InfluenceEstimate, **options: object):
    filled = {"refused": {}, "borrowed": (), "level": 0.95} | options
    return find_best(influence, warnings=dict.fromkeys(influence.names, ()), **filled)


def test_a_borrowed_policy_never_leads_however_high_its_estimate() -> None:
    best = best_of(estimate([0.5, 0.6, 0.9], 0.01), borrowed=["p02"])
    assert best.policy == "p01"
    assert "higher but with too few labels of their own: p02" in best.note


def test_the_note_shows_the_estimate_with_two_digits_of_its_standard_error() -> None:
    assert "highest estimate, 0.619;" in best_of(estimate([0.61234, 0.61876], 0.05)).note + ";"
    assert "highest estimate, 0.61876;" in best_of(estimate([0.61234, 0.61876], 0.0005)).note + ";"


def test_without_a_policy_that_has_labels_nobody_leads() -> None:
    best = best_of(estimate([0.5, 0.6], 0.01), borrowed=["p00", "p01"])
    assert best.policy is None
    assert "borrowed" in best.note


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 20, 35])
def test_with_equal_policies_all_others_tie_in_95_percent_of_samples(k: int) -> None:
    rng = np.random.default_rng(7)
    falsely = 0
    for seed in range(200):
        values = 0.5 + 0.01 * rng.normal(size=k)
        best = best_of(estimate(values.tolist(), 0.01, seed))
        falsely += len(best.ties) < k - 1
    assert falsely / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_a_clearly_worse_policy_does_not_tie() -> None:
    best = best_of(estimate([0.5, 0.6, 0.61], 0.01))
    assert best.policy == "p02"
    assert best.ties == ("p01",)
