"""The pieces of the off-policy formulas, each against a computation of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cje import PrecomputedSampler, simulate
from cje.calibration.rewards.reward_model import fit_reward_model
from cje.data import Codes, Dataset
from cje.diagnostics import check_weights_vary, labelling_findings, labelling_tests
from cje.errors import CJEError
from cje.estimators import DRCPOEstimator, SNIPSEstimator
from cje.estimators.offpolicy.doubly_robust import fresh_influence, fresh_means
from cje.estimators.offpolicy.label_term import CalibrationSensitivity, label_term
from cje.estimators.offpolicy.tmle import fluctuation
from cje.inference import fold_jackknife_covariance


@pytest.fixture(scope="module")
def problem():
    sim = simulate.logged_with_logprobs(300, 60, seed=3, targets={"a": 0.8, "b": 0.5})
    return DRCPOEstimator(PrecomputedSampler(sim.dataset), sim.fresh).prepare()


def test_leaving_out_a_prompt_is_what_a_recomputation_without_its_labels_gives(problem):
    logged, weights, means = problem.logged, problem.projected, fresh_means(problem)
    term = problem.term(weights)
    prompts, left = term.left_means(term.pseudo_labels(means))
    for j in (0, 7, 59):
        gone = logged.labelled & (logged.clusters == prompts[j])
        without = replace(
            logged,
            labels=np.where(gone, np.nan, logged.labels),
            labelled=logged.labelled & ~gone,
        )
        again = label_term(without, problem.rewards.out_of_fold, weights, problem.n_clusters)
        np.testing.assert_allclose(left[j], again.mean(again.pseudo_labels(means)), atol=1e-12)
        by_shares = (again.shares * means).sum(axis=0) + again.correction
        np.testing.assert_allclose(left[j], by_shares, atol=1e-12)


def test_the_jackknife_lies_on_the_labelled_prompts_with_the_covariance_of_the_values_left_out(
    problem,
):
    term = problem.term(problem.projected)
    pseudo = term.pseudo_labels(fresh_means(problem))
    prompts, left = term.left_means(pseudo)
    by_label = term.jackknife(pseudo)
    assert set(np.flatnonzero(by_label.any(axis=1))) <= set(prompts.tolist())
    np.testing.assert_allclose(by_label.T @ by_label, fold_jackknife_covariance(left), atol=1e-15)


def test_the_correction_is_a_weighted_mean_residual_and_its_influence_sums_to_nearly_nothing(
    problem,
):
    rows = np.flatnonzero(problem.logged.labelled)
    term = problem.term(problem.logged.weights)
    residual = problem.logged.labels[rows] - problem.rewards.out_of_fold[rows]
    for k in range(2):
        omega = problem.logged.weights[rows, k] / problem.logged.propensity[rows]
        assert term.correction[k] == pytest.approx(np.average(residual, weights=omega))
    np.testing.assert_allclose(term.shares.sum(axis=0), 1.0)
    influence = term.jackknife(term.residual)
    spread = np.sqrt((influence**2).sum(axis=0))
    assert (np.abs(influence.sum(axis=0)) < 0.2 * spread).all()


def test_rewards_of_a_row_never_saw_labels_of_its_fold(problem):
    """Other labels in one fold leave that fold's rewards as they were."""
    sim = simulate.logged_with_logprobs(300, 60, seed=3, targets={"a": 0.8, "b": 0.5})
    fold = problem.logged.folds == 2
    flipped = np.where(fold, 1.0 - sim.dataset.oracle_label, sim.dataset.oracle_label)
    other = PrecomputedSampler(sim.dataset.with_columns(oracle_label=flipped))
    mode = problem.rewards.model.mode
    again = DRCPOEstimator(other, sim.fresh, calibration_mode=mode).prepare()
    np.testing.assert_array_equal(
        again.rewards.out_of_fold[fold], problem.rewards.out_of_fold[fold]
    )
    assert (again.rewards.out_of_fold[~fold] != problem.rewards.out_of_fold[~fold]).any()


def test_the_influence_of_a_mean_over_prompts_is_its_jackknife(problem):
    rewards = [each[:, 0] for each in problem.fresh_rewards]
    influence = fresh_influence(problem, rewards)
    for k, (draws, reward) in enumerate(zip(problem.fresh, rewards, strict=True)):
        by_prompt = np.bincount(draws.clusters, reward, problem.n_clusters)
        n = problem.n_clusters
        left = (by_prompt.sum() - by_prompt) / (n - 1)
        jackknife = -(left - left.mean()) * (n - 1) / n
        np.testing.assert_allclose(influence[:, k], jackknife, atol=1e-12)


def test_repeated_prompts_in_the_log_are_one_cluster_and_one_fold():
    sim = simulate.logged_with_logprobs(300, 100, seed=3, targets={"a": 0.8})
    data = sim.dataset
    repeated = Dataset.from_arrays(
        prompt_id=Codes(np.arange(300) // 3, tuple(f"p{i}" for i in range(100))),
        draw_idx=np.arange(300) % 3,
        policy=data.policy,
        judge_score=data.judge_score,
        oracle_label=data.oracle_label,
        base_policy_logprob=data.base_policy_logprob,
        target_policy_logprobs=data.target_policy_logprobs,
        target_policies=("a",),
    )
    estimator = SNIPSEstimator(PrecomputedSampler(repeated))
    logged = estimator.prepare().logged
    assert (logged.folds.reshape(100, 3) == logged.folds.reshape(100, 3)[:, :1]).all()
    assert estimator.fit_and_estimate().influence.n_clusters == 100


def test_the_fluctuation_solves_its_equation_and_stops_where_there_is_no_solution():
    from scipy.special import expit, logit

    rng = np.random.default_rng(0)
    f, y, w = rng.uniform(0.01, 0.99, 200), rng.random(200), rng.exponential(size=200)
    shift = fluctuation(y, f, w)
    assert abs(w @ (y - expit(logit(f) + shift))) < 1e-9
    assert fluctuation(np.ones(200), f, w) == pytest.approx(20.0, abs=1e-3)
    assert fluctuation(np.zeros(200), f, w) == pytest.approx(-20.0, abs=1e-3)


def test_equal_ratios_are_an_error_unless_the_policy_is_the_logging_one():
    ratios = np.column_stack([np.linspace(-1, 1, 20), np.full(20, 0.3)])
    check_weights_vary(ratios[:, :1], ("a",))
    check_weights_vary(ratios, ("a", "b"), same_as_logging=("b",))
    with pytest.raises(CJEError, match=r"identical.*\[b\]"):
        check_weights_vary(ratios, ("a", "b"))


def test_labelling_that_follows_a_number_is_reported_unless_propensities_are_recorded():
    values = np.arange(400.0)
    tests = labelling_tests(values >= 300, {"length": values}, {})
    assert [f.code for f in labelling_findings(tests, has_propensity=False)] == ["labels-depend-on"]
    assert labelling_findings(tests, has_propensity=True) == []


def test_what_labels_move_through_the_calibration_is_the_derivative_of_the_refitted_value():
    """After a small change of one label and a refit, the value moves by w and through f."""
    rng = np.random.default_rng(8)
    m, n, step = 60, 200, 1e-6
    score = rng.random(m)
    label = np.clip(score + 0.3 * rng.standard_normal(m), 0, 1)
    w, v = rng.random(m), rng.uniform(0.5, 2.0, m)
    w /= w.sum()
    target_score, t = rng.random(n) ** 0.5, np.full(n, 1.0 / n)

    def value(y):
        model = fit_reward_model(score, y, weights=v, mode="monotone")
        return t @ model.predict(target_score) + w @ (y - model.predict(score))

    model = fit_reward_model(score, label, weights=v, mode="monotone")
    fitted = model.predict(score)
    found = CalibrationSensitivity(model.predict(target_score), t, fitted, v)
    coefficient = found.coefficients(w)
    for j in range(0, m, 7):
        moved = label.copy()
        moved[j] += step
        assert (value(moved) - value(label)) / step == pytest.approx(
            w[j] + coefficient[j], abs=1e-6
        )


def test_nothing_passes_through_the_calibration_where_weights_match_the_target():
    score, label = np.linspace(0, 1, 50), np.linspace(0, 1, 50) ** 2
    even = np.full(50, 0.02)
    model = fit_reward_model(score, label, mode="monotone")
    fitted = model.predict(score)
    same = CalibrationSensitivity(fitted, even, fitted, even)
    np.testing.assert_allclose(same.coefficients(even), 0, atol=1e-15)
