"""Borrowed calibration: policies judged by labels of others, or of another file."""

from __future__ import annotations

import numpy as np
import pytest

import cje.simulate as simulate
from cje.data import Codes, Dataset
from cje.estimators import DirectEstimator
from cje.estimators.plug_in import sized_by_jackknife
from cje.inference import fold_jackknife_covariance
from cje.kernels.clusters import cluster_sums


def _apart(seed: int, *, shared_prompts: bool, labels: int = 60) -> tuple[Dataset, Dataset]:
    """Two unlabelled policies, and labelled rows of a third in a data set of its own."""
    sim = simulate.policies_on_shared_prompts(300, 3, 300, seed=seed).dataset
    sim = sim.with_columns(label_propensity=None)
    third = sim.select(sim.policy.mask("candidate_2")).select(np.arange(labels))
    names = third.prompt_id.decode() if shared_prompts else [f"other {i}" for i in range(labels)]
    lender = Dataset.from_arrays(
        prompt_id=names, policy="lender", judge_score=third.judge_score,
        oracle_label=third.oracle_label,
    )  # fmt: skip
    fresh = sim.select(~sim.policy.mask("candidate_2"))
    return fresh.with_columns(oracle_label=np.full(600, np.nan)), lender


@pytest.mark.parametrize("shared_prompts", [True, False])
def test_the_same_labels_move_two_policies_of_equal_scores_alike(shared_prompts: bool) -> None:
    fresh, lender = _apart(0, shared_prompts=shared_prompts)
    same = fresh.with_columns(judge_score=np.resize(fresh.judge_score[:300], 600))
    result = DirectEstimator(same, calibration_data=[lender]).fit_and_estimate()
    gap = result.compare_policies("candidate_1", "base")
    assert gap.difference == pytest.approx(0.0, abs=1e-12)
    assert gap.standard_error == pytest.approx(0.0, abs=1e-8)
    assert result.robust_standard_errors.min() > 1.2 * result.standard_errors.max()


def test_labels_of_fresh_prompts_count_the_same_inside_and_outside_the_data() -> None:
    fresh, lender = _apart(1, shared_prompts=True)
    outside = DirectEstimator(fresh, calibration_data=[lender]).fit_and_estimate()
    inside = DirectEstimator(fresh.concat(lender)).fit_and_estimate()
    np.testing.assert_allclose(outside.estimates, inside.estimates[:2], atol=1e-12)
    np.testing.assert_allclose(outside.ci(), inside.ci()[:2], atol=1e-12)
    two = inside.influence.select(["base", "candidate_1"])
    np.testing.assert_allclose(outside.influence.covariance(), two.covariance(), atol=1e-15)


def test_prompts_only_the_labels_have_do_not_count_as_prompts_of_the_sample() -> None:
    fresh, lender = _apart(2, shared_prompts=False)
    result = DirectEstimator(fresh, calibration_data=[lender]).fit_and_estimate()
    assert result.influence.n_clusters == 300
    (covariance,) = (
        part.covariance for part in result.influence.components if part.covariance is not None
    )
    assert covariance[0, 1] > 0.5 * np.sqrt(covariance[0, 0] * covariance[1, 1])


def test_differences_of_borrowed_policies_cover_with_labels_from_elsewhere() -> None:
    """What the labels move in both values cancels; without that a difference covered 100%."""
    hits, repetitions = np.zeros(3), 200
    for seed in range(repetitions):
        drawn = simulate.policies_on_shared_prompts(600, 2, 600, seed=seed)
        sim = drawn.dataset
        rows = np.random.default_rng(seed).permutation(600)
        prompt = sim.prompt_id.codes
        lent = np.isin(prompt, rows[:60]) & sim.policy.mask("base")
        fresh = sim.select(np.isin(prompt, rows[60:]))
        data = fresh.with_columns(oracle_label=np.full(len(fresh), np.nan))
        result = DirectEstimator(data, calibration_data=[sim.select(lent)]).fit_and_estimate()
        truth = np.array([drawn.truth[name] for name in result.policies])
        inside = [lo <= t <= hi for (lo, hi), t in zip(result.ci(), truth, strict=True)]
        gap = result.compare_policies("candidate_1", "base").interval
        hits += [*inside, truth[1] - truth[0] in gap]
    assert (hits / repetitions > 0.90).all(), hits / repetitions
    assert hits[2] / repetitions < 0.995


def test_logged_rows_that_are_the_fresh_draws_again_count_once() -> None:
    data = simulate.policies_on_shared_prompts(300, 2, 60, seed=5).dataset
    other = data.policy.mask("candidate_1")
    data = data.with_columns(oracle_label=np.where(other, np.nan, data.oracle_label))
    again = data.select(data.is_labelled)
    copy = again.with_columns(policy=["logged"] * len(again))
    once = DirectEstimator(data).fit_and_estimate()
    estimator = DirectEstimator(data, calibration_data=[copy, copy])
    twice = estimator.fit_and_estimate()
    np.testing.assert_allclose(twice.ci(), once.ci(), atol=1e-12)
    finding = next(f for f in twice.findings if f.code == "copied-labels")
    assert finding.details["n_copies"] == 120
    assert len(estimator.pool_.labels) == 60


def test_other_labels_of_the_same_prompts_are_not_copies_where_some_agree() -> None:
    """On a coarse scale a label of another response often agrees; leaving those out would bias."""
    rng = np.random.default_rng(0)
    prompts = [f"p{i}" for i in range(60)]

    def rows(policy: str) -> Dataset:
        label = rng.integers(0, 2, 60).astype(float)
        return Dataset.from_arrays(
            prompt_id=prompts, policy=policy, judge_score=label, oracle_label=label
        )

    estimator = DirectEstimator(rows("a"), calibration_data=[rows("b")])
    assert "copied-labels" not in {f.code for f in estimator.fit_and_estimate().findings}
    assert len(estimator.pool_.labels) == 120
    assert len(np.unique(estimator.pool_.clusters)) == 60


def test_labels_that_rise_with_the_score_throughout_still_carry_their_uncertainty() -> None:
    """Without residuals the label part was dropped, though leaving a fold out moves the value."""
    rng = np.random.default_rng(0)
    lender = Dataset.from_arrays(
        prompt_id=[f"q{i}" for i in range(15)], policy="lender",
        judge_score=np.sort(rng.uniform(size=15)), oracle_label=np.sort(rng.uniform(size=15)),
    )  # fmt: skip
    score = rng.uniform(size=300)
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(300)] * 2, policy=["a"] * 300 + ["b"] * 300,
        judge_score=np.r_[score, score],
    )  # fmt: skip
    result = DirectEstimator(data, calibration_data=[lender]).fit_and_estimate()
    assert (result.robust_standard_errors > 1.2 * result.standard_errors).all()
    assert result.compare_policies("b", "a").standard_error == pytest.approx(0.0, abs=1e-8)


def test_without_residuals_the_labels_share_the_jackknifes_covariance() -> None:
    rng = np.random.default_rng(1)
    prompt = rng.integers(0, 30, 80)
    fold = prompt % 5
    without = rng.normal(size=(5, 2))
    moved = np.column_stack(
        [sized_by_jackknife(np.zeros(80), column, fold, prompt) for column in without.T]
    )
    by_prompt = cluster_sums(moved, prompt, 30)
    np.testing.assert_allclose(by_prompt.T @ by_prompt, fold_jackknife_covariance(without))


def _borrowing(labels_a: np.ndarray, prompts: int, draws: int, scores: np.ndarray) -> Dataset:
    """Policy a labelled on every row, policy b on none; prompts x draws rows each."""
    n = prompts * draws
    rows = np.tile(np.repeat(np.arange(prompts), draws), 2)
    return Dataset.from_arrays(
        prompt_id=Codes(rows, tuple(f"p{i}" for i in range(prompts))),
        draw_idx=np.tile(np.tile(np.arange(draws), prompts), 2),
        policy=Codes(np.repeat([0, 1], n), ("a", "b")),
        judge_score=scores,
        oracle_label=np.r_[labels_a, np.full(n, np.nan)],
    )


def test_labels_of_one_prompt_count_as_one_piece_of_a_borrowed_calibration():
    """Ten labelled draws per prompt with a prompt effect: the standard error is near the spread."""
    values, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        effect = np.repeat(0.15 * rng.standard_normal(30), 10)
        score = rng.random(600)
        label = np.clip(0.2 + 0.6 * score[:300] + effect + 0.05 * rng.standard_normal(300), 0, 1)
        result = DirectEstimator(_borrowing(label, 30, 10, score)).fit_and_estimate()
        values.append(result.estimates[1])
        errors.append(result.robust_standard_errors[1])
    assert 0.75 < np.mean(errors) / np.std(values) < 1.4


def test_borrowed_labels_that_are_all_equal_leave_an_interval_of_some_width():
    score = np.random.default_rng(0).random(120)
    result = DirectEstimator(_borrowing(np.ones(60), 60, 1, score)).fit_and_estimate()
    low, high = result.ci()[1]
    assert low < 0.97
    assert high == 1.0
    assert "identical-labels" in {f.code for f in result.findings if f.subject == "b"}
