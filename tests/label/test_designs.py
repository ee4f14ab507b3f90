"""Labelling designs: exact probabilities, random order, and what active labelling buys."""

from __future__ import annotations

import numpy as np
import pytest

from cje import simulate
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.label.active import ActiveDesign
from cje.label.designs import draw_rows
from studies.active import WORLDS, active_labels, replay


@pytest.fixture(scope="module")
def data() -> Dataset:
    return simulate.policies_on_shared_prompts(300, 2, 60, seed=3).dataset


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("random", {}),
        ("stratified", {}),
        ("stratified", {"by": ("policy", "judge_score")}),
        ("stratified", {"allocation": "neyman"}),
        ("paired", {}),
    ],
)
def test_the_recorded_probability_is_the_share_of_draws_that_take_the_row(
    data: Dataset, kind: str, options: dict[str, object]
) -> None:
    taken = np.zeros(len(data))
    stated = np.zeros(len(data))
    for seed in range(400):
        drawn = draw_rows(data, kind, 120, seed=seed, **options)
        assert len(drawn.rows) == len(np.unique(drawn.rows)) == 120
        taken[drawn.rows] += 1.0
        stated[drawn.rows] = drawn.propensity
    error = (taken / 400 - stated) / np.sqrt(np.maximum(stated * (1 - stated), 1e-3) / 400)
    assert (stated > 0).all()
    assert np.abs(error).max() < 4.5
    assert float((taken / 400 / stated).mean()) == pytest.approx(1.0, abs=0.01)


def test_the_first_rows_of_a_stratified_order_are_a_random_part_of_it(data: Dataset) -> None:
    shares = []
    for seed in range(300):
        drawn = draw_rows(data, "stratified", 120, seed=seed, by=("policy",))
        shares.append(np.mean(data.policy.codes[drawn.rows[:20]] == 0))
    assert np.mean(shares) == pytest.approx(0.5, abs=0.03)
    assert np.std(shares) > 0.05


def test_a_paired_design_labels_every_version_of_a_prompt(data: Dataset) -> None:
    drawn = draw_rows(data, "paired", 80, seed=1)
    for unit in np.unique(drawn.unit):
        rows = drawn.rows[drawn.unit == unit]
        assert len(set(data.prompt_id.codes[rows])) == 1
        assert set(data.policy.codes[rows]) == {0, 1}


def test_a_neyman_allocation_spends_more_where_labels_vary_more() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(1_000)
    label = np.clip(0.5 + np.where(score > 0.8, 0.4, 0.02) * rng.standard_normal(1_000), 0, 1)
    label[200:] = np.nan
    data = Dataset.from_arrays(
        prompt_id=np.arange(1_000), policy="p", judge_score=score, oracle_label=label
    )
    drawn = draw_rows(data, "stratified", 200, seed=1, allocation="neyman")
    assert np.mean(score[drawn.rows] > 0.8) > 0.4


@pytest.mark.parametrize(
    ("kind", "count", "options"),
    [
        ("random", 0, {}), ("random", 10_000, {}), ("nearest", 10, {}),
        ("stratified", 50, {"by": ("topic",)}), ("stratified", 3, {}),
        ("stratified", 50, {"allocation": "equal"}), ("paired", 50, {"policies": ("base",)}),
        ("random", 5, {"policies": ("nobody",)}), ("random", True, {}),
    ],
)  # fmt: skip
def test_a_design_that_cannot_be_drawn_is_refused(
    data: Dataset, kind: str, count: int, options: dict[str, object]
) -> None:
    with pytest.raises(CJEError):
        draw_rows(data, kind, count, seed=1, **options)


# ---- active -----------------------------------------------------------------------------------


def test_the_active_budget_is_paced_to_the_last_row() -> None:
    for name in WORLDS:
        score, label = WORLDS[name](np.random.default_rng(2), 1_000)
        shown, propensity, design = active_labels(score, label, 150, seed=4)
        assert shown.sum() >= 140
        assert design.visited > 900
        visited = propensity[~np.isnan(propensity)]
        assert len(visited) == design.visited
        assert ((visited > 0) & (visited <= 1)).all()


def test_a_judge_that_says_nothing_about_its_errors_leaves_the_design_random() -> None:
    informed = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        score, label = WORLDS["errors alike everywhere"](rng, 600)
        informed.append(active_labels(score, label, 120, seed=seed)[2].informative)
    assert np.mean(informed) < 0.3


def test_the_probability_of_a_row_is_fixed_before_its_label_is_known() -> None:
    score, label = WORLDS["errors in the middle"](np.random.default_rng(1), 400)
    kept = None
    for change in (False, True):
        design = ActiveDesign(score, 100, seed=8)
        seen = []
        while not design.finished:
            visit = design.visit()
            seen.append((visit.unit, visit.propensity, visit.shown))
            if len(seen) == 200:
                break
            if visit.shown:
                value = label[visit.unit]
                # a change of labels after the hundredth visit moves nothing before it
                design.learn(score[[visit.unit]], [1.0 - value if change and len(seen) > 100
                                                   else value])  # fmt: skip
        if kept is None:
            kept = seen
        assert seen[:101] == kept[:101]


def test_the_weighted_labels_of_an_active_design_are_unbiased() -> None:
    world = WORLDS["errors grow with the score"]
    gaps = []
    for seed in range(300):
        score, label = world(np.random.default_rng([1, seed]), 400)
        shown, propensity, _ = active_labels(score, label, 80, seed=seed)
        gaps.append(np.sum(np.where(shown, label / propensity, 0.0)) / 400 - label.mean())
    gaps = np.array(gaps)
    assert abs(gaps.mean()) < 3.5 * gaps.std() / np.sqrt(len(gaps))


def test_active_labelling_covers_and_is_shorter_where_the_judge_knows_its_errors() -> None:
    world = WORLDS["errors in the middle"]
    truth = float(world(np.random.default_rng(99), 1_000_000)[1].mean())
    found = replay(world, truth, n_reps=60)
    assert found["saving"] > 1.03
    assert found["active"] >= 0.86


def test_an_active_design_needs_a_score_on_every_row() -> None:
    with pytest.raises(CJEError, match="judge score"):
        ActiveDesign(np.array([0.1, np.nan]), 1, seed=0)


def test_an_analysis_needs_no_probability_on_rows_without_a_label() -> None:
    from cje import analyze_dataset

    score, label = WORLDS["errors in the middle"](np.random.default_rng(3), 600)
    shown, propensity, _ = active_labels(score, label, 120, seed=2)
    columns = {"prompt_id": np.arange(600), "policy": "p", "judge_score": score,
               "oracle_label": np.where(shown, label, np.nan)}  # fmt: skip
    full = Dataset.from_arrays(**columns, label_propensity=propensity)
    part = Dataset.from_arrays(**columns, label_propensity=np.where(shown, propensity, np.nan))
    both = [analyze_dataset(data) for data in (full, part)]
    assert both[0].ci() == both[1].ci()
    codes = [[f.code for f in result.findings] for result in both]
    assert codes[1] == [*codes[0], "propensities-partly-known"]
