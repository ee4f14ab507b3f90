"""Every generator's stated truth is its outcomes' mean, and its dials do what they say."""

from __future__ import annotations

import numpy as np
import pytest

from cje import CJEError, simulate


def _check_truth(outcomes: np.ndarray, truth: float) -> None:
    standard_error = outcomes.std(ddof=1) / np.sqrt(len(outcomes))
    assert abs(outcomes.mean() - truth) < 4.0 * standard_error


@pytest.mark.parametrize("levels", [None, 2, 5, 11])
@pytest.mark.parametrize(
    "generator", [simulate.monotone_judge, simulate.non_monotone_judge, simulate.mild_dip_judge]
)
def test_single_policy_truth_is_the_mean_of_the_outcomes(generator, levels):
    sim = generator(60_000, 100, seed=3, levels=levels)
    _check_truth(sim.outcomes, sim.truth["policy"])


@pytest.mark.parametrize("shape", ["monotone", "non_monotone", "mild_dip"])
def test_labels_follow_the_stated_curve(shape):
    sim = getattr(simulate, f"{shape}_judge")(40_000, 40_000, seed=5)
    score, label = sim.dataset.judge_score, sim.dataset.oracle_label
    residual = label - simulate.true_curve(shape)(score)
    for low in np.arange(0.0, 1.0, 0.1):
        part = residual[(score >= low) & (score < low + 0.1)]
        assert abs(part.mean()) < 4.5 * part.std() / np.sqrt(len(part))


@pytest.mark.parametrize("levels", [None, 7])
def test_policies_on_shared_prompts_have_the_stated_values(levels):
    sim = simulate.policies_on_shared_prompts(30_000, 5, 50, seed=2, levels=levels)
    for k, name in enumerate(sim.dataset.policy.names):
        _check_truth(sim.outcomes[sim.dataset.policy.codes == k], sim.truth[name])


def test_shared_prompts_correlate_policies():
    sim = simulate.policies_on_shared_prompts(5_000, 2, 50, seed=2, prompt_correlation=0.6)
    scores = sim.dataset.judge_score.reshape(2, -1)
    assert np.corrcoef(scores)[0, 1] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("near", [0.0, 1.0])
def test_skewed_outcomes_have_the_stated_values_and_a_long_tail(near):
    sim = simulate.skewed_outcomes(30_000, 3, 50, seed=2, near=near)
    for k, name in enumerate(sim.dataset.policy.names):
        outcome = sim.outcomes[sim.dataset.policy.codes == k]
        _check_truth(outcome, sim.truth[name])
        skewness = ((outcome - outcome.mean()) ** 3).mean() / outcome.std() ** 3
        assert skewness * (0.5 - near) > 0.4


def test_length_biased_judge_overrates_the_longer_policy_of_equal_value():
    sim = simulate.length_biased_judge(20_000, 50, seed=4, bias=0.2)
    base, candidate = sim.outcomes.reshape(2, -1)
    _check_truth(base, 0.5)
    _check_truth(candidate, 0.5)
    score = sim.dataset.judge_score.reshape(2, -1).mean(axis=1)
    assert score[1] - score[0] == pytest.approx(0.1, abs=0.01)
    assert "response_length" in sim.dataset.covariates


def test_heteroscedastic_judge_states_its_variance_by_the_given_factor():
    sim = simulate.heteroscedastic_judge(50_000, 50_000, seed=1, overconfidence=2.0)
    error = sim.dataset.judge_score - sim.dataset.oracle_label
    gamma = (error**2).sum() / sim.dataset.judge_variance.sum()
    assert gamma == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("direct_effect", [0.0, 0.4])
@pytest.mark.parametrize("weight_shape", ["rising", "falling", "u_shaped"])
def test_logged_truth_agrees_with_fresh_draws_and_with_weighting(weight_shape, direct_effect):
    sim = simulate.logged_with_logprobs(
        60_000, 100, seed=8, weight_shape=weight_shape, direct_effect=direct_effect,
        targets={"near": 0.9, "moderate": 0.5},
    )  # fmt: skip
    data = sim.dataset
    _check_truth(sim.outcomes, sim.truth["base"])
    weights = np.exp(data.target_policy_logprobs - data.base_policy_logprob[:, None])
    for k, name in enumerate(data.target_policies):
        _check_truth(sim.fresh_outcomes[sim.fresh.policy.codes == k], sim.truth[name])
        _check_truth(weights[:, k] * sim.outcomes, sim.truth[name])


@pytest.mark.parametrize("weight_shape", ["rising", "falling", "u_shaped"])
def test_overlap_is_the_effective_sample_fraction(weight_shape):
    sim = simulate.logged_with_logprobs(
        200_000, 10, seed=8, weight_shape=weight_shape, targets={"t": 0.7}, fresh_draws=0
    )
    w = np.exp(sim.dataset.target_policy_logprobs[:, 0] - sim.dataset.base_policy_logprob)
    assert w.sum() ** 2 / (w**2).sum() / len(w) == pytest.approx(0.7, abs=0.03)


def test_mean_weight_given_score_has_the_stated_shape():
    def by_score(weight_shape):
        sim = simulate.logged_with_logprobs(
            50_000, 10, seed=8, weight_shape=weight_shape, targets={"t": 0.5}, fresh_draws=0
        )
        w = np.exp(sim.dataset.target_policy_logprobs[:, 0] - sim.dataset.base_policy_logprob)
        s = sim.dataset.judge_score
        return [w[(s >= lo) & (s < lo + 1 / 3)].mean() for lo in (0, 1 / 3, 2 / 3)]

    low, mid, high = by_score("rising")
    assert low < mid < high
    low, mid, high = by_score("falling")
    assert low > mid > high
    low, mid, high = by_score("u_shaped")
    assert mid < low
    assert mid < high


def test_missing_at_random_labels_depend_on_the_score_with_recorded_propensity():
    sim = simulate.monotone_judge(50_000, 5_000, seed=6, labelling="mar")
    labelled = np.isfinite(sim.dataset.oracle_label)
    assert labelled.sum() == pytest.approx(5_000, rel=0.05)
    weighted = np.sum(sim.outcomes[labelled] / sim.dataset.label_propensity[labelled]) / 50_000
    assert weighted == pytest.approx(0.5, abs=0.02)
    extreme = np.abs(sim.dataset.judge_score - 0.5) > 0.4
    assert labelled[extreme].mean() > 2 * labelled[~extreme].mean() * 0.7


def test_same_seed_gives_the_same_data_and_another_seed_another():
    one, two, other = (simulate.monotone_judge(50, 10, seed=s) for s in (1, 1, 2))
    assert one.dataset == two.dataset
    assert one.dataset != other.dataset


@pytest.mark.parametrize(
    "call",
    [
        lambda: simulate.monotone_judge(10, 11),
        lambda: simulate.monotone_judge(10, 5, levels=1),
        lambda: simulate.monotone_judge(10, 5, labelling="often"),
        lambda: simulate.logged_with_logprobs(10, 5, targets={"t": 0.0}),
        lambda: simulate.logged_with_logprobs(10, 5, weight_shape="wavy"),
        lambda: simulate.policies_on_shared_prompts(10, 99, 5),
        lambda: simulate.true_curve("wavy"),
    ],
)
def test_impossible_settings_are_explained(call):
    with pytest.raises(CJEError):
        call()


@pytest.mark.parametrize(
    "name", [n for n in simulate.__all__ if n not in ("Simulation", "true_curve")]
)
@pytest.mark.parametrize(
    "arguments",
    [{"size": -1}, {"size": 0}, {"size": 2.5}, {"size": None}, {"n_labels": -1},
     {"n_labels": 100}, {"n_labels": "3"}, {"seed": -1}, {"seed": "x"}, {"labelling": "other"}],
)  # fmt: skip
def test_sizes_that_nothing_has_are_refused(name, arguments):
    given = {"n_labels": 5} | arguments
    size = given.pop("size", 20)
    with pytest.raises(CJEError):
        getattr(simulate, name)(size, **given)


@pytest.mark.parametrize(
    "call",
    [
        lambda: simulate.policies_on_shared_prompts(20, n_labels=5, draws=0),
        lambda: simulate.policies_on_shared_prompts(20, n_policies=7, n_labels=5),
        lambda: simulate.policies_on_shared_prompts(20, n_labels=5, prompt_correlation=1.5),
        lambda: simulate.skewed_outcomes(20, n_policies=0, n_labels=5),
        lambda: simulate.length_biased_judge(20, 5, bias=float("nan")),
        lambda: simulate.heteroscedastic_judge(20, 5, overconfidence=0.0),
        lambda: simulate.monotone_judge(20, 5, concentration=-1.0),
        lambda: simulate.monotone_judge(20, 5, levels=1),
        lambda: simulate.monotone_judge(20, 5, levels="few"),
        lambda: simulate.logged_with_logprobs(20, 5, fresh_draws=-1),
        lambda: simulate.logged_with_logprobs(20, 5, targets={"t": 0.0}),
        lambda: simulate.logged_with_logprobs(20, 5, targets=["t"]),
        lambda: simulate.logged_with_logprobs(20, 5, direct_effect=2.0),
        lambda: simulate.true_curve(["monotone"]),
    ],
)
def test_parameters_beyond_their_range_are_refused(call):
    with pytest.raises(CJEError):
        call()
