"""Anytime intervals: boundaries, coverage at every look, betting, decisions."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import Decision, GateRule, InfluenceEstimate
from cje.inference.sequential import (
    AnytimeRule,
    anytime_intervals,
    anytime_limits,
    betting_interval,
    betting_wealth,
    labels_to_decision,
    mixture_boundary,
    predictable_estimate,
    spending_boundary,
)
from cje.inference.sequential.boundaries import tuning_ratio
from studies.sequential import (
    OUTCOMES,
    betting_miscoverage,
    miscoverage,
    refitted_streams,
    running_moments,
    width_ratio,
)

N = 400
ERROR = 0.05 + 3.0 * (0.05 * 0.95 / N) ** 0.5  # three standard errors of the simulation


# ---- boundaries -------------------------------------------------------------------------------


def test_the_mixture_is_narrowest_at_its_tuned_sample() -> None:
    counts = np.arange(30, 3_000)
    values = mixture_boundary(counts, tuned_at=500)
    assert counts[values.argmin()] == 500
    assert values.min() / 1.959964 == pytest.approx(1.5486, abs=1e-3)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
def test_the_tuning_ratio_minimises_the_boundary_at_every_level(level: float) -> None:
    x = tuning_ratio(level)
    near = mixture_boundary([0.99, 1.0, 1.01], tuned_at=1.0, level=level)
    assert near[1] < near[0]
    assert near[1] < near[2]
    assert 1.0 < x < 100.0


@pytest.mark.parametrize("spending", ["quadratic", "obrien-fleming", "pocock"])
def test_a_brownian_path_crosses_a_spending_boundary_with_the_stated_error(spending: str) -> None:
    boundary = spending_boundary(30, 400, spending=spending)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    crossed = 0
    for _ in range(8):
        path = np.cumsum(rng.standard_normal((1_000, 400)), axis=1) / np.sqrt(np.arange(1, 401))
        crossed += int((np.abs(path[:, 29:]) > boundary).any(axis=1).sum())
    assert crossed / 8_000 == pytest.approx(0.05, abs=0.0075)  # three standard errors


def test_one_look_at_the_horizon_is_the_fixed_interval() -> None:
    assert spending_boundary(100, 100)[0] == pytest.approx(1.959964, abs=5e-3)


def test_a_horizon_beyond_the_table_keeps_the_earlier_value_between_looks() -> None:
    long = spending_boundary(30, 10_000)
    assert len(long) == 9_971
    assert len(np.unique(long)) <= 2_000
    assert long[-1] / 1.959964 < 1.35


# ---- coverage at every look -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["normal", "exponential", "gamma, shape 1/4", "lognormal", "binary 2%", "binary 10%",
     "binary 50%"],
)  # fmt: skip
@pytest.mark.parametrize("tuned_at", [200, 500])
def test_looking_after_every_label_misses_the_truth_in_at_most_one_of_twenty(
    name: str, tuned_at: int
) -> None:
    found = miscoverage(name, AnytimeRule(tuned_at=tuned_at), n_streams=N, n_labels=800)
    assert found["missed"] <= ERROR


def test_without_corrections_rare_outcomes_are_missed_far_too_often() -> None:
    found = miscoverage("binary 2%", AnytimeRule(), n_streams=N, n_labels=300)
    assert found["uncorrected"] > 0.4


def test_the_finite_horizon_boundary_misses_in_at_most_one_of_twenty() -> None:
    rule = AnytimeRule(tuned_at=500, method="spending")
    for name in ("normal", "binary 20%"):
        assert miscoverage(name, rule, n_streams=N, n_labels=500)["missed"] <= ERROR


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("active", [False, True])
def test_a_calibration_refitted_as_labels_arrive_keeps_the_guarantee(
    active: bool, binary: bool
) -> None:
    found = refitted_streams(
        AnytimeRule(tuned_at=300), n_streams=N, n_rows=1_500, budget=400, active=active,
        binary=binary,
    )  # fmt: skip
    assert found["missed"] <= ERROR


def test_widths_at_the_tuned_sample_keep_their_bars() -> None:
    for tuned_at in (200, 500, 2_000):
        assert width_ratio(AnytimeRule(tuned_at=tuned_at)) <= 1.6
    assert width_ratio(AnytimeRule(tuned_at=500, method="spending")) <= 1.35


# ---- on the influence object ------------------------------------------------------------------


def test_the_influence_object_and_the_arrays_give_the_same_limits() -> None:
    y = np.random.default_rng(3).exponential(size=200)
    rule = AnytimeRule(tuned_at=200)
    look = anytime_intervals(InfluenceEstimate.from_rows(("v",), y), 200, rule)[0]
    m = running_moments(y[None])
    low, high, is_open = anytime_limits(
        m.mean[0, -1], m.se[0, -1], 200, rule, df=m.df[0, -1], skewness=m.skewness[0, -1]
    )
    assert look.open
    assert is_open
    np.testing.assert_allclose([*look.interval], [low, high], rtol=1e-9)


def test_a_look_before_the_thirtieth_label_shows_the_whole_range() -> None:
    y = np.random.default_rng(3).random(29)
    estimate = InfluenceEstimate.from_rows(("v",), y, bounds=(0.0, 1.0))
    look = anytime_intervals(estimate, 29, AnytimeRule())[0]
    assert not look.open
    assert tuple(look.interval) == (0.0, 1.0)


@pytest.mark.parametrize("positives", [0, 1, 5])
def test_few_labels_of_the_rarer_kind_open_no_look(positives: int) -> None:
    y = np.r_[np.ones(positives), np.zeros(400 - positives)]
    estimate = InfluenceEstimate.from_rows(("v",), y, bounds=(0.0, 1.0))
    assert not anytime_intervals(estimate, 400, AnytimeRule())[0].open


def test_a_paired_difference_has_an_anytime_interval_of_its_own() -> None:
    rng = np.random.default_rng(5)
    ease = rng.normal(size=300)
    both = np.column_stack([ease, ease + 0.5 + 0.1 * rng.normal(size=300)])
    gap = InfluenceEstimate.from_rows(("a", "b"), both).difference("b", "a")
    look = anytime_intervals(gap, 300, AnytimeRule(tuned_at=300))[0]
    assert GateRule().decide(*look.interval) is Decision.PASS
    assert look.interval.width < 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"tuned_at": 199}, {"tuned_at": 500.5}, {"method": "wald"}, {"level": 1.0},
        {"first_look": 10}, {"first_look": 600}, {"tuned_at": -1},
    ],
)  # fmt: skip
def test_a_rule_outside_what_was_shown_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(CJEError):
        AnytimeRule(**options)  # type: ignore[arg-type]


def test_a_look_beyond_the_horizon_is_refused() -> None:
    with pytest.raises(CJEError, match="horizon"):
        AnytimeRule(tuned_at=200, method="spending").critical_value(201)


# ---- betting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uniform", "binary 2%", "binary 20%", "binary 50%"])
def test_the_betting_sequence_holds_from_the_first_label(name: str) -> None:
    assert betting_miscoverage(name, n_streams=200, n_labels=400) <= 0.05
    assert name in OUTCOMES


def test_the_limits_are_where_the_wealth_reaches_its_bound() -> None:
    y = np.random.default_rng(1).beta(2, 5, 300)
    low, high = betting_interval(y, bounds=(0.0, 1.0))
    against = np.log(2.0 / 0.05)
    for limit, side in ((low, 0), (high, 1)):
        assert betting_wealth(y, limit, bounds=(0.0, 1.0))[-1, side] == pytest.approx(against)


def test_the_order_of_the_values_does_not_matter() -> None:
    y = np.random.default_rng(1).random(50)
    assert betting_interval(y, bounds=(0, 1)) == betting_interval(y[::-1], bounds=(0, 1))


def test_the_scale_moves_the_betting_interval_with_it() -> None:
    y = np.random.default_rng(1).random(80)
    unit = betting_interval(y, bounds=(0.0, 1.0))
    wide = betting_interval(1.0 + 4.0 * y, bounds=(1.0, 5.0))
    np.testing.assert_allclose([*wide], 1.0 + 4.0 * np.array([*unit]), rtol=1e-9)


def test_all_labels_alike_leave_room_on_the_other_side() -> None:
    low, high = betting_interval(np.zeros(100), bounds=(0.0, 1.0))
    assert low == 0.0
    assert 0.03 < high < 0.12


def test_a_value_outside_the_bounds_is_refused() -> None:
    with pytest.raises(CJEError, match="outside the bounds"):
        betting_interval([0.2, 1.2], bounds=(0.0, 1.0))


# ---- decisions --------------------------------------------------------------------------------


def test_the_forecast_is_the_count_at_which_the_interval_leaves_the_threshold() -> None:
    rule = AnytimeRule(tuned_at=400)
    n = labels_to_decision(0.1, 1.0 / 100, 0.0, 100, rule)
    assert n is not None
    half = rule.critical_value([n, 0.95 * n]) / np.sqrt([n, 0.95 * n])
    assert half[0] <= 0.1 < half[1]


def test_no_number_of_labels_beats_a_part_that_labels_cannot_reduce() -> None:
    assert labels_to_decision(0.01, 1e-4, 1e-3, 100, AnytimeRule()) is None
    assert labels_to_decision(0.0, 1e-4, 0.0, 100, AnytimeRule()) is None


# ---- the stream -------------------------------------------------------------------------------


def test_a_stream_with_every_row_labelled_is_the_mean_of_the_labels() -> None:
    y = np.random.default_rng(2).random(40)
    flat = np.full(40, 0.3)
    found = predictable_estimate(y, np.ones(40), flat, flat, np.full(40, 0.3))
    assert float(found.values[0]) == pytest.approx(y.mean())
    assert float(found.standard_errors()[0]) == pytest.approx(y.std(ddof=1) / np.sqrt(40))


@pytest.mark.parametrize("bad", [0.0, 1.5, np.nan])
def test_a_stream_refuses_impossible_probabilities(bad: float) -> None:
    with pytest.raises(CJEError):
        predictable_estimate([1.0, 0.0], [0.5, bad], [0, 0], [0, 0], [0, 0])
