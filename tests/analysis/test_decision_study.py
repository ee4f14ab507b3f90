"""The study of labels to a decision: its worlds, its scoring, and our methods' errors in it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from cje.inference import Decision
from studies.decision import (
    CASES,
    RULE,
    Limits,
    active_fixed,
    active_sequential,
    direct,
    labels_only,
    labels_to,
    outcome,
)
from studies.decision_worlds import WORLDS

REPS = 60


def _limits(pairs: list[list[tuple[float, float]]], sequential: bool = False) -> Limits:
    low, high = np.moveaxis(np.array(pairs), 2, 0)
    return Limits(np.arange(1, low.shape[1] + 1) * 10, low, high, 0.0, sequential)


def test_the_truth_of_a_world_is_the_mean_of_many_labels() -> None:
    made = WORLDS["good judge"](np.random.default_rng(0), 100)
    gain = made.label[:, 1] - made.label[:, 0]
    assert abs(gain.mean() - made.truth) < 4.0 * gain.std() / np.sqrt(gain.size)


@pytest.mark.parametrize("case", ["gain", "no gain", "loss"])
def test_decisions_are_those_of_the_gate(case: str) -> None:
    rng = np.random.default_rng(1)
    wanted = Decision.PASS if CASES[case] > RULE.threshold else Decision.FAIL
    for _ in range(50):
        low, high = np.sort(CASES[case] + 0.1 * rng.standard_normal(2))
        found = outcome(_limits([[(low, high)]]), case, CASES[case])
        said = RULE.decide(low, high)
        assert found.right == (said is wanted)
        assert found.undecided == (said is Decision.UNDECIDED)


def test_a_sequence_stops_at_its_first_decision_even_a_wrong_one() -> None:
    wide, right, wrong = (-1.0, 1.0), (0.06, 0.2), (-0.2, 0.0)
    limits = _limits([[wide, right, wrong], [wrong, right, right], [wide, wide, wide]], True)
    found = outcome(limits, "gain", CASES["gain"])
    assert (found.right, found.wrong, found.undecided) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert found.mean == pytest.approx((40 + 20 + 60) / 3)


def test_a_refused_interval_decides_nothing() -> None:
    found = outcome(_limits([[(np.nan, np.nan)]]), "gain", 0.0)
    assert found.undecided == 1.0


def test_the_labels_of_a_z_test_are_found_between_two_sizes() -> None:
    rng, sizes = np.random.default_rng(2), np.array([15, 30, 60, 120, 240, 480])
    effect = 0.25  # standard deviations
    z = effect * np.sqrt(sizes) + rng.standard_normal((20_000, 1))
    value, low, high = labels_to(sizes, z > 1.959964)
    expected = 2.0 * ((1.959964 + 0.841621) / effect) ** 2
    assert value == pytest.approx(expected, rel=0.03)
    assert low < expected < high


def test_too_few_labels_for_everybody_are_an_infinite_need() -> None:
    assert labels_to(np.array([10, 20]), np.zeros((30, 2), dtype=bool))[0] == np.inf


def test_a_useless_judge_shortens_no_interval_and_a_good_one_does() -> None:
    ratio = {}
    for world in ("useless judge", "good judge"):
        samples = WORLDS[world](np.random.default_rng(3), 30)
        plain, ours = labels_only(samples, (120,)), direct(samples, sizes=(120,))["fixed"]
        ratio[world] = (ours.high - ours.low).mean() / (plain.high - plain.low).mean()
    assert 0.96 < ratio["useless judge"] < 1.1
    assert ratio["good judge"] < 0.75


@pytest.mark.parametrize(
    ("world", "option"),
    [("judge that likes length", "length"), ("two judges, each sees one side", "judges")],
)
def test_what_explains_the_judges_errors_shortens_the_interval(world: str, option: str) -> None:
    samples = WORLDS[world](np.random.default_rng(4), 20)
    plain = direct(samples, sizes=(120,))["fixed"]
    more = direct(samples, sizes=(120,), **{option: True})["fixed"]
    assert (more.high - more.low).mean() < 0.9 * (plain.high - plain.low).mean()


def test_every_form_of_ours_errs_at_the_bar_as_rarely_as_stated() -> None:
    samples = WORLDS["mediocre judge"](np.random.default_rng(5), REPS)
    looks = (15, 60, 240)
    forms = {f"random, {name}": found for name, found in direct(samples, sizes=looks).items()}
    forms |= {f"active, {name}": found for name, found in active_sequential(samples, looks).items()}
    forms["active, own budget"] = active_fixed(samples, (60,))
    # Each fixed size is a test of its own; 0.001 over the whole family.
    tests = {
        f"{name}, {n}": found.at((n,))
        for name, found in forms.items() if not found.sequential for n in found.sizes
    } | {name: found for name, found in forms.items() if found.sequential}  # fmt: skip
    most = binom.isf(0.001 / len(tests), REPS, 0.05)
    for name, found in tests.items():
        wrong = REPS * outcome(found, "at the bar", samples.truth).wrong
        assert wrong <= most, (name, wrong)
