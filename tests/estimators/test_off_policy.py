"""Off-policy estimators: identities, robustness, coverage, gates, and the Arena sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cje import CalibratedIPS, CJEError, PrecomputedSampler, simulate
from cje.calibration import OracleSliceConfig
from cje.data import Dataset, read
from cje.estimators import (
    DRCPOEstimator,
    IPSEstimator,
    MRDREstimator,
    SNIPSEstimator,
    StackedDREstimator,
    TMLEEstimator,
    TRCPOEstimator,
    find_estimator,
)
from cje.inference import LABELS, SAMPLING

NAMES = ("ips", "snips", "calibrated-ips", "dr-cpo", "mrdr", "tmle", "tr-cpo", "stacked-dr")


def make(n=1500, n_labels=300, seed=1, targets=None, **options):
    targets = targets or {"near": 0.8, "moderate": 0.4}
    sim = simulate.logged_with_logprobs(n, n_labels, seed=seed, targets=targets, **options)
    return sim, PrecomputedSampler(sim.dataset)


def estimate(name, sim, sampler, **options):
    return find_estimator(name).load()(sampler, sim.fresh, **options).fit_and_estimate()


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_is_close_to_the_truth(name):
    sim, sampler = make(n=4000, n_labels=800)
    result = estimate(name, sim, sampler)
    assert result.policies == ("near", "moderate")
    for policy, value, (low, high), se in zip(
        result.policies, result.estimates, result.ci(), result.robust_standard_errors, strict=True
    ):
        assert abs(value - sim.truth[policy]) < min(0.05, 3.5 * se)
        assert low < value < high
    assert (result.robust_standard_errors >= result.standard_errors).all()


@pytest.mark.parametrize("name", NAMES)
def test_row_order_changes_nothing(name):
    sim, sampler = make(n=400, n_labels=100)
    order = np.random.default_rng(3).permutation(400)
    shuffled = PrecomputedSampler(sim.dataset.select(order))
    one, two = estimate(name, sim, sampler), estimate(name, sim, shuffled)
    np.testing.assert_allclose(one.estimates, two.estimates, atol=1e-12)
    np.testing.assert_allclose(
        one.robust_standard_errors, two.robust_standard_errors, rtol=0, atol=1e-12
    )


def test_snips_with_all_labels_is_the_weighted_mean_of_the_labels():
    sim, sampler = make(n=500, n_labels=500)
    result = SNIPSEstimator(sampler).fit_and_estimate()
    weights = sampler.weight_matrix()
    np.testing.assert_allclose(result.estimates, sim.outcomes @ weights / 500, atol=1e-12)
    assert result.metadata["label_uncertainty"] == "influence"
    np.testing.assert_array_equal(result.standard_errors, result.robust_standard_errors)


def test_ips_is_unbiased_with_all_labels_over_repetitions():
    errors = []
    for seed in range(60):
        sim, sampler = make(n=300, n_labels=300, seed=seed, targets={"t": 0.7})
        errors.append(IPSEstimator(sampler).fit_and_estimate().estimates[0] - sim.truth["t"])
    errors = np.array(errors)
    assert abs(errors.mean()) < 3.5 * errors.std(ddof=1) / np.sqrt(len(errors))


def test_a_constant_in_the_target_log_probs_moves_ips_and_cancels_in_snips():
    sim, sampler = make(n=400)
    shifted = sim.dataset.with_columns(
        target_policy_logprobs=sim.dataset.target_policy_logprobs + 1.0
    )
    other = PrecomputedSampler(shifted)
    one, two = (SNIPSEstimator(s).fit_and_estimate().estimates for s in (sampler, other))
    np.testing.assert_allclose(one, two, atol=1e-12)
    one, two = (IPSEstimator(s).fit_and_estimate().estimates for s in (sampler, other))
    assert (two > 2 * one).all()


def test_the_percentile_shift_changes_nothing_where_no_ratio_is_clipped():
    _, sampler = make(n=400)
    plain = SNIPSEstimator(sampler).fit_and_estimate()
    shifted = SNIPSEstimator(sampler, log_ratio_shift=True).fit_and_estimate()
    np.testing.assert_allclose(plain.estimates, shifted.estimates, atol=1e-12)


@pytest.mark.parametrize("factor", [3.0, 0.2])
def test_doubly_robust_survives_wrong_weights_where_fresh_draws_are_right(factor):
    """Log-ratios multiplied by a factor: the weights are wrong, the outcome model is not."""
    sim, _ = make(n=3000, n_labels=1500, targets={"t": 0.7})
    data = sim.dataset
    base = data.base_policy_logprob[:, None]
    wrong = data.with_columns(
        target_policy_logprobs=base + factor * (data.target_policy_logprobs - base)
    )
    sampler = PrecomputedSampler(wrong)
    robust = DRCPOEstimator(sampler, sim.fresh).fit_and_estimate().estimates[0]
    weighted = SNIPSEstimator(sampler).fit_and_estimate().estimates[0]
    assert abs(robust - sim.truth["t"]) < 0.03
    assert abs(weighted - sim.truth["t"]) > 0.05


class Constant:
    """A useless outcome model."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), 0.05)


def test_doubly_robust_survives_a_wrong_outcome_model_where_the_weights_are_right():
    """Over 20 data sets the mean error is within 3.3 of its own standard errors, and small."""
    errors, sizes = [], []
    for seed in range(20):
        sim, sampler = make(n=4000, n_labels=2000, targets={"t": 0.7}, seed=seed)
        result = DRCPOEstimator(sampler, sim.fresh, outcome_model=Constant).fit_and_estimate()
        errors.append(result.estimates[0] - sim.truth["t"])
        sizes.append(result.robust_standard_errors[0])
    assert abs(np.mean(errors)) < 3.3 * np.mean(sizes) / np.sqrt(20)
    assert max(sizes) < 0.02


def test_triply_robust_survives_a_calibration_that_does_not_carry_over():
    """Y depends on the response beyond the score, so E[Y|S] differs between the policies."""
    options = {"n": 8000, "n_labels": 4000, "targets": {"t": 0.6}, "direct_effect": 0.9}
    sim, sampler = make(**options)
    triply = TRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    doubly = DRCPOEstimator(sampler, sim.fresh, label_weight="projected").fit_and_estimate()
    projected = TRCPOEstimator(sampler, sim.fresh, label_weight="projected").fit_and_estimate()
    low, high = triply.ci()[0]
    assert low < sim.truth["t"] < high
    assert abs(doubly.estimates[0] - sim.truth["t"]) > 3 * doubly.robust_standard_errors[0]
    assert abs(projected.estimates[0] - sim.truth["t"]) > 3 * projected.standard_errors[0]


@pytest.mark.parametrize("name", ["snips", "calibrated-ips", "dr-cpo", "stacked-dr"])
def test_a_calibration_that_does_not_carry_over_is_corrected_or_found_from_the_labels(name):
    options = {"n": 4000, "n_labels": 1500, "targets": {"t": 0.6}, "direct_effect": 0.9}
    sim, sampler = make(**options)
    assumed = estimate(name, sim, sampler, label_weight="projected")
    assert "calibration-does-not-carry-over" in {f.code for f in assumed.findings}
    assert "t" in assumed.refused()
    found = estimate(name, sim, sampler)
    assert found.refused() == {}
    assert {(f.code, str(f.severity)) for f in found.findings} >= {
        ("calibration-does-not-carry-over", "info")
    }
    low, high = found.ci()[0]
    assert low < sim.truth["t"] < high


def test_a_calibration_that_carries_over_rarely_gets_a_finding():
    """120 data sets, 5% family-wise: at most 14 accused (99.9% binomial bound), one refused."""
    accused = refused = 0
    for seed in range(120):
        _, sampler = make(n=400, n_labels=100, seed=seed)
        result = SNIPSEstimator(sampler, label_weight="projected").fit_and_estimate()
        found = [f for f in result.findings if f.code == "calibration-does-not-carry-over"]
        accused += bool(found)
        refused += any(f.severity == "refuse" for f in found)
    assert accused <= 14
    assert refused <= 1


def test_label_uncertainty_is_counted_once():
    sim, sampler = make()
    triply = TRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    np.testing.assert_array_equal(triply.standard_errors, triply.robust_standard_errors)
    doubly = DRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    assert (doubly.robust_standard_errors > 1.5 * doubly.standard_errors).all()
    without = DRCPOEstimator(sampler, sim.fresh, oua_jackknife=False).fit_and_estimate()
    np.testing.assert_array_equal(without.standard_errors, without.robust_standard_errors)


def test_label_variance_has_as_few_degrees_of_freedom_as_labels_decide():
    _, sampler = make(n=1000, n_labels=60)
    estimate = SNIPSEstimator(sampler).fit_and_estimate().influence
    (spread,) = (part.spread for part in estimate.components if part.kind == LABELS)
    assert ((spread > 0).sum(axis=0) == 60).all()
    gap = spread[:, 1] - spread[:, 0]
    few = (gap**2).sum() ** 2 / (gap**4).sum()
    assert few < 30
    assert estimate.difference("moderate", "near").degrees_of_freedom()[0] < 60
    full = SNIPSEstimator(sampler, oua_jackknife=False).fit_and_estimate().influence
    assert [part.kind for part in full.components] == [SAMPLING]


def test_tmle_stays_within_the_unit_interval():
    sim, sampler = make(n=300, n_labels=60, concentration=None)
    values = TMLEEstimator(sampler, sim.fresh).fit_and_estimate().estimates
    assert ((values >= 0) & (values <= 1)).all()


def test_stacking_one_component_is_that_component():
    sim, sampler = make()
    stack = StackedDREstimator(sampler, sim.fresh, components=("mrdr",)).fit_and_estimate()
    alone = MRDREstimator(sampler, sim.fresh).fit_and_estimate()
    np.testing.assert_allclose(stack.estimates, alone.estimates, atol=1e-12)
    np.testing.assert_allclose(
        stack.robust_standard_errors, alone.robust_standard_errors, atol=1e-12
    )


def influence_variance(result):
    """What the stack minimises: the squared influence, labels included."""
    return (result.influence.influence**2).sum(axis=0)


def test_the_stack_is_a_convex_combination_with_no_more_variance_than_its_components():
    sim, sampler = make(n=1000, n_labels=150)
    names = ("dr-cpo", "mrdr", "tmle", "tr-cpo")
    stack = StackedDREstimator(sampler, sim.fresh, components=names, ridge=0.0).fit_and_estimate()
    for weights in stack.diagnostics["stack_weights"].values():
        assert sum(weights.values()) == pytest.approx(1.0)
        assert min(weights.values()) >= 0.0
    best = np.min([influence_variance(estimate(name, sim, sampler)) for name in names], axis=0)
    assert (influence_variance(stack) <= best * (1 + 1e-9)).all()


def test_the_founding_snippet_on_oracle_uncertainty_runs_as_written(capsys):
    _, sampler = make()
    estimator = CalibratedIPS(sampler, oua_jackknife=True)  # Default
    result = estimator.fit_and_estimate()
    oracle_config = OracleSliceConfig(
        enable_augmentation=True, enable_cross_fit=True, min_pi=0.01, use_mar=False
    )
    augmented = CalibratedIPS(sampler, oracle_slice_config=oracle_config).fit_and_estimate()
    if result.robust_standard_errors is not None:
        print(f"Standard SE: {result.standard_errors[0]:.4f}")
        print(f"OUA-adjusted SE: {result.robust_standard_errors[0]:.4f}")
        oracle_var = result.robust_standard_errors[0] ** 2 - result.standard_errors[0] ** 2
        print(f"Oracle uncertainty contribution: {oracle_var:.6f}")
    assert oracle_var > 0
    np.testing.assert_array_equal(augmented.standard_errors, augmented.robust_standard_errors)
    assert "Oracle uncertainty contribution" in capsys.readouterr().out


def test_calibrated_weights_are_more_even_but_claim_no_more_certainty_than_raw_ones():
    """The projection hides the weights' variance; the interval must not forget it."""
    _, sampler = make(n=1500, targets={"t": 0.4})
    result = CalibratedIPS(sampler).fit_and_estimate()
    raw = sampler.weights("t")
    calibrated = result.diagnostics["calibrated_ess_fraction"]["t"]
    assert calibrated > 1.05 * raw.sum() ** 2 / (raw**2).sum() / len(raw)
    snips = SNIPSEstimator(sampler).fit_and_estimate()
    assert result.standard_errors[0] == pytest.approx(snips.standard_errors[0], rel=1e-9)


@pytest.mark.parametrize("name", ["snips", "calibrated-ips", "dr-cpo", "tmle", "tr-cpo"])
def test_nominal_95_percent_intervals_cover(name):
    """160 repetitions, 2 policies; the bound is the 0.1% tail of a binomial at 95%."""
    covered = []
    for seed in range(160):
        sim, sampler = make(n=500, n_labels=120, seed=seed)
        result = estimate(name, sim, sampler)
        covered.append(
            [
                low <= sim.truth[p] <= high
                for p, (low, high) in zip(result.policies, result.ci(), strict=True)
            ]
        )
    share = np.mean(covered, axis=0)
    assert (share >= 0.89).all(), share


def test_poor_overlap_is_refused_and_good_overlap_is_not():
    sim, sampler = make(targets={"near": 0.8, "far": 0.01})
    for name in NAMES:
        result = estimate(name, sim, sampler)
        assert set(result.refused()) == {"far"}, name
        assert result.best_policy().policy == "near"


def test_identical_weights_are_an_error_that_explains_the_forgotten_step():
    sim, _ = make(n=200, n_labels=50)
    data = sim.dataset
    forgotten = data.with_columns(
        target_policy_logprobs=np.repeat(data.base_policy_logprob[:, None], 2, axis=1)
    )
    sampler = PrecomputedSampler(forgotten)
    with pytest.raises(CJEError, match="teacher forcing"):
        CalibratedIPS(sampler).fit_and_estimate()
    allowed = CalibratedIPS(sampler, same_as_logging=["near", "moderate"]).fit_and_estimate()
    assert allowed.estimates[0] == pytest.approx(allowed.estimates[1])


def test_ratios_cut_at_the_clip_are_refused_and_weights_that_all_sit_there_are_an_error():
    """Cut weights look even: without a gate of their own they would pass the one on ESS."""
    sim, _ = make(n=300, n_labels=80)
    data = sim.dataset
    half = data.target_policy_logprobs.copy()
    half[:150, 0] += 60.0
    cut = PrecomputedSampler(data.with_columns(target_policy_logprobs=half))
    for name in NAMES:
        assert set(estimate(name, sim, cut).refused()) == {"near"}, name
    everywhere = data.target_policy_logprobs + np.linspace(40.0, 60.0, 300)[:, None]
    with pytest.raises(CJEError, match="beyond the clip"):
        SNIPSEstimator(
            PrecomputedSampler(data.with_columns(target_policy_logprobs=everywhere))
        ).fit_and_estimate()


@pytest.mark.parametrize("name", NAMES)
def test_identical_labels_are_not_certain(name):
    sim, _ = make(n=300, n_labels=60)
    data = sim.dataset
    ones = PrecomputedSampler(
        data.with_columns(oracle_label=np.where(np.isnan(data.oracle_label), np.nan, 1.0))
    )
    for low, high in estimate(name, sim, ones).ci():
        assert low < 0.96
        assert high >= 1.0


def test_a_constant_judge_is_refused_where_labels_are_not_reweighted():
    sim, _ = make(n=400, n_labels=200)
    flat = PrecomputedSampler(sim.dataset.with_columns(judge_score=np.full(400, 0.5)))
    sim = replace(sim, fresh=sim.fresh.with_columns(judge_score=np.full(800, 0.5)))
    for name in NAMES:
        assert estimate(name, sim, flat).refused() == {}, name
        assumed = estimate(name, sim, flat, label_weight="projected")
        assert set(assumed.refused()) == {"near", "moderate"}, name


def test_labels_on_fresh_draws_are_reported_as_unused():
    sim, sampler = make(n=200, n_labels=50)
    labelled = sim.fresh.with_columns(oracle_label=sim.fresh_outcomes)
    plain = DRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    warned = DRCPOEstimator(sampler, labelled).fit_and_estimate()
    np.testing.assert_array_equal(plain.estimates, warned.estimates)
    assert {f.code for f in warned.findings} - {f.code for f in plain.findings} == {
        "fresh-labels-unused"
    }


def test_scores_read_on_different_ranges_are_an_error():
    sim, sampler = make(n=200, n_labels=50)
    other = sim.fresh.with_columns(judge_scale="0-10")
    with pytest.raises(CJEError, match="one calibration cannot serve both"):
        DRCPOEstimator(sampler, other).fit_and_estimate()


def test_recorded_propensities_count_however_small_and_must_be_complete():
    """One label in two hundred, chosen by score: a floor of 1% would undo the design."""
    sim, _ = make(n=20_000, n_labels=100, targets={"t": 0.9}, labelling="mar")
    data = sim.dataset
    assert data.label_propensity.min() < 0.003
    same = SNIPSEstimator(PrecomputedSampler(data)).fit_and_estimate()
    tenfold = data.with_columns(label_propensity=10 * data.label_propensity)
    larger = SNIPSEstimator(PrecomputedSampler(tenfold)).fit_and_estimate()
    np.testing.assert_allclose(same.estimates, larger.estimates, atol=1e-12)
    gaps = data.label_propensity.copy()
    gaps[np.argmax(data.is_labelled)] = np.nan
    with pytest.raises(CJEError, match="no label_propensity"):
        SNIPSEstimator(
            PrecomputedSampler(data.with_columns(label_propensity=gaps))
        ).fit_and_estimate()


def test_two_clones_differ_by_nothing():
    sim, _ = make(n=400, targets={"a": 0.6})
    column = sim.dataset.target_policy_logprobs[:, 0]
    twins = sim.dataset.with_columns(
        target_policy_logprobs=np.column_stack([column, column]), target_policies=("a", "b")
    )
    result = SNIPSEstimator(PrecomputedSampler(twins)).fit_and_estimate()
    pair = result.compare_policies("a", "b")
    assert pair.difference == 0.0
    assert pair.p_value == 1.0


def test_results_come_out_on_the_labels_own_scale():
    sim, sampler = make(n=400)
    stars = PrecomputedSampler(sim.dataset.with_columns(oracle_scale="1-5"))
    unit = SNIPSEstimator(sampler).fit_and_estimate()
    scaled = SNIPSEstimator(stars).fit_and_estimate()
    np.testing.assert_allclose(scaled.estimates, 1 + 4 * unit.estimates)
    np.testing.assert_allclose(scaled.standard_errors, 4 * unit.standard_errors)


def test_too_few_labels_missing_draws_and_bad_options_are_explained():
    sim, sampler = make(n=200, n_labels=5)
    with pytest.raises(CJEError, match="at least 10"):
        SNIPSEstimator(sampler).fit_and_estimate()
    sim, sampler = make(n=200, n_labels=50)
    with pytest.raises(CJEError, match="needs fresh draws"):
        DRCPOEstimator(sampler)
    only_near = sim.fresh.select(sim.fresh.policy.mask("near"))
    with pytest.raises(CJEError, match="no fresh draws of moderate"):
        DRCPOEstimator(sampler, only_near).fit_and_estimate()
    with pytest.raises(CJEError, match="unknown component"):
        StackedDREstimator(sampler, sim.fresh, components=("magic",))
    with pytest.raises(CJEError, match="no such covariate"):
        SNIPSEstimator(sampler, covariates=["length"]).fit_and_estimate()


def test_several_draws_per_prompt_count_as_one_cluster():
    sim, sampler = make(n=300, n_labels=100, fresh_draws=4)
    result = DRCPOEstimator(sampler, sim.fresh).fit_and_estimate()
    assert result.influence.n_clusters == 300
    assert result.diagnostics["draws_per_prompt"]["near"] == 4.0


def test_fresh_prompts_may_differ_from_the_logged_ones():
    sim, sampler = make(n=300, n_labels=100)
    fresh = sim.fresh
    renamed = Dataset.from_arrays(
        prompt_id=["x" + fresh.prompt_id.names[c] for c in fresh.prompt_id.codes],
        policy=fresh.policy,
        judge_score=fresh.judge_score,
    )
    result = DRCPOEstimator(sampler, renamed).fit_and_estimate()
    assert result.influence.n_clusters == 600


def test_arena_weights_are_refused_and_a_stated_assumption_agrees_with_the_clones_draws(arena):
    """With 1,000 rows even the clone's weights have a tail too heavy to reweight labels."""
    logged, fresh = read(arena / "logged.jsonl"), read(arena / "fresh_draws")
    sampler = PrecomputedSampler(logged)
    default = StackedDREstimator(sampler, fresh).fit_and_estimate()
    assert {"unhelpful", "parallel_universe_prompt"} <= set(default.refused())
    assumed = StackedDREstimator(sampler, fresh, label_weight="projected")
    result = assumed.fit_and_estimate()
    refused = result.refused()
    assert "unhelpful" in refused
    assert "parallel_universe_prompt" in refused
    assert "clone" not in refused
    value = dict(zip(result.policies, result.estimates, strict=True))
    base = np.nanmean(logged.oracle_label)
    assert abs(value["clone"] - base) < 0.04
    ips = CalibratedIPS(sampler).fit_and_estimate()
    assert {"unhelpful", "parallel_universe_prompt"} <= set(ips.refused())
