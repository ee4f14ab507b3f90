"""Is the labelled slice of a log the random one it is taken for?"""

from __future__ import annotations

import numpy as np
import pytest

from cje import CalibratedIPS, PrecomputedSampler, simulate
from cje.data import Codes, Dataset
from cje.estimators import DRCPOEstimator, SNIPSEstimator, StackedDREstimator, TRCPOEstimator

CODES = {"labels-not-random", "labels-miss-target"}


def relabelled(sim, labelled, propensity=None):
    labels = np.where(labelled, sim.outcomes, np.nan)
    columns = {"oracle_label": labels}
    if propensity is not None:
        columns["label_propensity"] = propensity
    return PrecomputedSampler(sim.dataset.with_columns(**columns))


def codes(sampler):
    return {f.code for f in CalibratedIPS(sampler).fit_and_estimate().findings}


def test_labels_on_high_scores_alone_are_reported_unless_propensities_are_recorded():
    sim = simulate.logged_with_logprobs(2000, 2000, seed=1, targets={"t": 0.6})
    score = sim.dataset.judge_score
    chance = np.where(score > np.quantile(score, 0.7), 0.5, 0.05)
    labelled = np.random.default_rng(0).random(2000) < chance
    assert "labels-not-random" in codes(relabelled(sim, labelled))
    assert not CODES & codes(relabelled(sim, labelled, chance))


def test_labels_that_carry_little_of_a_targets_weight_are_refused_for_it():
    sim = simulate.logged_with_logprobs(2000, 2000, seed=2, targets={"t": 0.5})
    ratio = PrecomputedSampler(sim.dataset).log_ratios()[:, 0]
    result = CalibratedIPS(relabelled(sim, ratio < np.quantile(ratio, 0.3))).fit_and_estimate()
    assert "t" in result.refused()
    assert "labels-miss-target" in {f.code for f in result.findings}


@pytest.mark.slow
def test_a_random_slice_rarely_gets_a_finding():
    """200 data sets, three tests each at 0.1%: at most 5 accused (99.9% binomial bound)."""
    accused = 0
    for seed in range(200):
        sim = simulate.logged_with_logprobs(
            400, 80, seed=seed, targets={"near": 0.8, "moderate": 0.4}
        )
        accused += bool(CODES & codes(PrecomputedSampler(sim.dataset)))
    assert accused <= 5


def repeated(n_prompts=600, seed=0):
    """Good prompts logged nine times, bad ones once; fresh draws once each; truth by prompt."""
    rng = np.random.default_rng(seed)
    good = np.arange(n_prompts) % 2 == 0
    rows = np.repeat(np.arange(n_prompts), np.where(good, 9, 1))

    def draw(prompt, n):
        quality = np.where(good[prompt], 0.7, 0.2) + 0.1 * rng.standard_normal(n)
        score = np.clip(quality + 0.05 * rng.standard_normal(n), 0, 1)
        return score, np.clip(quality, 0, 1)

    score, label = draw(rows, len(rows))
    label[rng.random(len(rows)) > 0.4] = np.nan
    names = tuple(f"p{i}" for i in range(n_prompts))
    _, position = np.unique(rows, return_index=True)
    logged = Dataset.from_arrays(
        prompt_id=Codes(rows, names),
        draw_idx=np.arange(len(rows)) - position[rows],
        policy=Codes(np.zeros(len(rows), dtype=np.int64), ("base",)),
        judge_score=score,
        oracle_label=label,
        base_policy_logprob=np.full(len(rows), -10.0),
        target_policy_logprobs=(-10.0 + 0.05 * rng.standard_normal(len(rows)))[:, None],
        target_policies=("t",),
    )
    fresh_score, _ = draw(np.arange(n_prompts), n_prompts)
    fresh = Dataset.from_arrays(
        prompt_id=Codes(np.arange(n_prompts), names),
        policy=Codes(np.zeros(n_prompts, dtype=np.int64), ("t",)),
        judge_score=fresh_score,
    )
    return PrecomputedSampler(logged), fresh, 0.45


@pytest.mark.parametrize("make", [SNIPSEstimator, CalibratedIPS, DRCPOEstimator, TRCPOEstimator])
def test_a_prompt_logged_nine_times_counts_once(make):
    sampler, fresh, truth = repeated()
    result = make(sampler, fresh).fit_and_estimate()
    row = result.rows()[0]
    assert row["low"] <= truth <= row["high"]
    assert row["high"] - row["low"] < 0.12


@pytest.mark.parametrize(("n_prompts", "refused"), [(600, False), (12_000, True)])
def test_a_significant_gap_refuses_only_where_it_is_material(n_prompts, refused):
    """The gap of -0.002 is a fifth of the standard error at 600 prompts, 0.9 of it at 12,000."""
    sampler, _, _ = repeated(n_prompts)
    result = SNIPSEstimator(sampler, label_weight="projected").fit_and_estimate()
    (found,) = [f for f in result.findings if f.code == "calibration-does-not-carry-over"]
    assert found.details["p_adjusted"] < 0.001
    assert (found.severity == "refuse") is refused
    assert bool(result.refused()) is refused


def test_a_stack_with_tr_cpo_is_gated_as_tr_cpo_is():
    sim = simulate.logged_with_logprobs(2000, 60, seed=3, targets={"t": 0.05})
    sampler = PrecomputedSampler(sim.dataset)
    alone = TRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    stack = StackedDREstimator(
        sampler=sampler, fresh_draws=sim.fresh, components=("tr-cpo",)
    ).fit_and_estimate()
    refusing = {f.code for f in alone.findings if f.severity == "refuse"}
    assert refusing <= {f.code for f in stack.findings if f.severity == "refuse"}
    assert {"heavy-tail"} <= {f.code for f in stack.findings}
