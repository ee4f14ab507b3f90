"""Binomial intervals of rectified proportions, and skewness weighed by how well it is known."""

import numpy as np
import pytest
from scipy.stats import beta, binom

from cje.errors import CJEError
from cje.inference import InfluenceEstimate
from cje.inference.proportion import proportion_limits


def _estimate(p: float = 0.1, trials: float = 50.0) -> InfluenceEstimate:
    rows = np.zeros(50)
    rows[: round(50 * p)] = 1.0
    plain = InfluenceEstimate.from_rows(("a", "b"), np.column_stack([rows, rows[::-1]]))
    return InfluenceEstimate(
        plain.names, plain.values, plain.components, None, (0.0, 1.0), np.array([trials, np.nan])
    )


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("n", [25, 100])
def test_exact_coverage_averaged_over_rates_is_nominal_and_the_interval_shorter_than_exact(n, rate):
    counts = np.arange(n + 1)
    low, high = proportion_limits(counts / n, np.full(n + 1, float(n)), 0.025)
    rates = np.linspace(0.75 * rate, 1.25 * rate, 31)
    chance = np.array([binom.pmf(counts, n, r) for r in rates])
    covered = (chance * ((low <= rates[:, None]) & (rates[:, None] <= high))).sum(axis=1).mean()
    assert 0.95 <= covered <= 0.99
    exact_low = np.where(counts > 0, beta.ppf(0.025, np.maximum(counts, 1), n - counts + 1), 0.0)
    exact_high = np.where(counts < n, beta.ppf(0.975, counts + 1, np.maximum(n - counts, 1)), 1.0)
    assert (high - low <= exact_high - exact_low).all()


def test_a_p_value_is_below_five_percent_exactly_outside_the_interval() -> None:
    both = _estimate()
    low, high = both.intervals()[0]
    for end in (low, high):
        assert both.p_values(end)[0] == pytest.approx(0.05, abs=1e-9)
    assert both.p_values(0.0)[0] < 0.05


def test_all_labels_alike_reach_the_bound_on_their_side() -> None:
    low, high = proportion_limits(np.array([0.0, 1.0]), np.array([30.0, 30.0]), 0.025)
    assert low[0] == 0.0
    assert high[1] == 1.0
    assert high[0] == pytest.approx(1.0 - low[1])


def test_selecting_and_rescaling_keep_a_proportion_and_a_difference_is_not_one() -> None:
    both = _estimate()
    scaled = both.rescaled(4.0, 1.0)
    assert scaled.intervals()[0].low == pytest.approx(1.0 + 4.0 * both.intervals()[0].low)
    assert both.select(["b", "a"]).trials is not None
    assert both.select(["b"]).trials is None
    assert both.difference("a", "b").trials is None
    joined = InfluenceEstimate.join([both.select(["a"]), both.select(["b"])])
    np.testing.assert_array_equal(joined.trials, both.trials)


def test_trials_without_bounds_or_of_zero_are_refused() -> None:
    part = _estimate()
    with pytest.raises(CJEError, match="trials"):
        InfluenceEstimate(part.names, part.values, part.components, None, None, part.trials)
    with pytest.raises(CJEError, match="positive"):
        _estimate(trials=0.0)


def test_heavy_symmetric_tails_do_not_bend_the_interval_and_known_skewness_does() -> None:
    rng = np.random.default_rng(0)
    heavy = InfluenceEstimate.from_rows(("a",), rng.standard_t(2.5, 15))
    skewed = InfluenceEstimate.from_rows(("a",), rng.exponential(size=400))
    kept = [e._variance.known_skewness[0] / e.skewness()[0] for e in (heavy, skewed)]
    assert kept[0] < 0.6
    assert kept[1] > 0.8


def test_five_labels_among_thousands_of_rows_leave_four_degrees_of_freedom() -> None:
    from cje.inference import SAMPLING, Component

    influence, known = np.full((2000, 2), 1e-6), np.zeros((2000, 2))
    influence[:5, 0] = [0.1, -0.1, 0.1, -0.1, 0.0]
    influence[:5, 1] = [0.1, 0.1, -0.1, -0.1, 0.0]
    known[:5] = 0.01
    part = Component(SAMPLING, influence, label_variance=known)
    both = InfluenceEstimate(("a", "b"), np.array([0.4, 0.5]), (part,))
    assert both.degrees_of_freedom()[0] == pytest.approx(4.0, abs=0.3)
    assert both.difference("a", "b").degrees_of_freedom()[0] <= 4.5
