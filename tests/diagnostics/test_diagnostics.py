"""Diagnostics say what the weights, scores, labels and raters look like; gates draw the line."""

from __future__ import annotations

import numpy as np
import pytest

from cje import CJEError
from cje.data import RaterLabels
from cje.diagnostics import (
    GateThresholds,
    TransportStatus,
    audit_transport,
    calibration_fit,
    effective_sample_size,
    hill_tail_index,
    labelling_tests,
    not_checked,
    rater_agreement,
    score_overlap,
    score_overlap_findings,
    weight_diagnostics,
    weight_findings,
)
from cje.diagnostics.labelling import chance_gap
from cje.inference import Severity


def test_effective_sample_size_does_not_depend_on_the_scale_of_the_weights():
    weights = np.random.default_rng(0).lognormal(size=1000)
    assert effective_sample_size(weights * 1e200) == pytest.approx(effective_sample_size(weights))
    assert effective_sample_size(np.ones(7)) == 7.0
    assert effective_sample_size(np.array([1.0, 0.0])) == 1.0


@pytest.mark.parametrize("index", [0.8, 1.5, 3.0])
def test_hill_recovers_the_tail_index_of_a_pareto_law(index):
    draws = np.random.default_rng(1).pareto(index, 200_000) + 1.0
    assert hill_tail_index(draws) == pytest.approx(index, rel=0.05)


def test_equal_weights_have_no_tail():
    assert hill_tail_index(np.ones(1000)) == np.inf
    assert weight_diagnostics("p", np.ones(100)).to_dict()["tail_index"] is None


def test_weight_diagnostics_name_the_heavy_rows():
    weights = np.concatenate([np.full(99, 0.1), [1000.0]])
    found = weight_diagnostics("p", weights)
    assert found.max_share > 0.98
    assert found.near_zero_share == 0.99
    assert weight_findings(found)[0].severity is Severity.REFUSE


@pytest.mark.parametrize("bad", [np.zeros(5), np.array([1.0, -1.0]), np.array([np.nan, 1.0])])
def test_impossible_weights_are_an_error(bad):
    with pytest.raises(CJEError, match="finite, non-negative"):
        weight_diagnostics("p", bad)


def test_even_weights_give_no_finding_and_clipping_is_reported():
    weights = np.random.default_rng(0).lognormal(-0.02, 0.2, 2000)
    assert weight_findings(weight_diagnostics("p", weights)) == []
    clipped = weight_findings(weight_diagnostics("p", weights, n_clipped=3))
    assert [f.code for f in clipped] == ["clipped-ratios"]
    assert clipped[0].severity is Severity.WARNING
    cut = weight_findings(weight_diagnostics("p", weights, n_clipped=3, n_above=1))
    assert [(f.code, f.severity) for f in cut] == [("clipped-ratios", Severity.REFUSE)]


def test_a_constant_factor_in_the_weights_is_found():
    weights = 1.3 * np.random.default_rng(0).lognormal(-0.02, 0.2, 2000)
    assert [f.code for f in weight_findings(weight_diagnostics("p", weights))] == ["mean-weight"]


def test_thresholds_can_be_set():
    weights = np.random.default_rng(0).lognormal(-0.5, 1.0, 2000)
    strict = GateThresholds(ess_fraction_refuse=0.9)
    codes = {f.code: f.severity for f in weight_findings(weight_diagnostics("p", weights), strict)}
    assert codes["low-ess"] is Severity.REFUSE


def test_scores_beyond_the_labels_are_refused_and_thin_ones_warned_of():
    rng = np.random.default_rng(0)
    labelled = rng.uniform(0.5, 1.0, 200)
    far = score_overlap("p", rng.uniform(0.0, 0.6, 500), labelled)
    assert score_overlap_findings(far)[0].severity is Severity.REFUSE
    thin = score_overlap("p", rng.uniform(0.42, 1.0, 500), labelled)
    assert score_overlap_findings(thin)[0].severity is Severity.WARNING
    assert score_overlap_findings(score_overlap("p", labelled, labelled)) == []


def _audit(shift, n=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    predicted = rng.uniform(0.3, 0.7, n)
    labels = predicted + shift + rng.normal(0, 0.1, n)
    return audit_transport("p", labels, predicted, **options)


def test_transport_passes_fails_or_is_inconclusive():
    assert _audit(0.0, margin=0.05).status is TransportStatus.PASS
    assert _audit(0.3, margin=0.05).status is TransportStatus.FAIL
    assert _audit(0.0, n=12, margin=0.01).status is TransportStatus.INCONCLUSIVE
    assert _audit(0.0, n=2, margin=0.05).status is TransportStatus.NOT_CHECKED
    assert not_checked("p").findings()[0].severity is Severity.WARNING
    assert _audit(0.3, margin=0.05).findings()[0].severity is Severity.REFUSE
    assert _audit(0.0, margin=0.05).findings() == []


def test_without_a_margin_an_audit_has_an_interval_and_no_grade():
    audit = _audit(0.3)
    assert audit.status is TransportStatus.NOT_GRADED
    assert audit.low < 0.3 < audit.high
    assert [f.code for f in audit.findings()] == ["transport-not-graded"]
    assert audit.findings(borrowed=False) == []


def test_a_difference_beyond_zero_and_across_the_margin_is_inconclusive():
    audit = _audit(0.05, margin=0.05)
    assert audit.low > 0.0
    assert audit.low < 0.05 < audit.high
    assert audit.status is TransportStatus.INCONCLUSIVE


def test_no_audit_passes_on_fewer_than_twenty_effective_prompts():
    for n, status in ((19, TransportStatus.INCONCLUSIVE), (20, TransportStatus.PASS)):
        assert _audit(0.0, n=n, margin=0.5).status is status
    weights = np.r_[np.full(5, 100.0), np.ones(95)]
    audit = _audit(0.0, n=100, margin=0.5, weights=weights)
    assert audit.n_effective < 10
    assert audit.status is TransportStatus.INCONCLUSIVE
    assert "count as" in audit.findings()[0].message


def test_audits_of_several_policies_hold_at_once():
    one, four = _audit(0.0), _audit(0.0, among=4)
    assert four.level == pytest.approx(0.9875)
    assert four.high - four.low > 1.2 * (one.high - one.low)


def test_a_pass_at_the_margin_is_rare():
    """A true difference at the margin passes in at most 2.5%; 400 repetitions, 0.1% bound."""
    passed = [_audit(0.02, n=60, seed=s, margin=0.02).status for s in range(400)]
    assert passed.count(TransportStatus.PASS) <= 21


def test_a_calibration_that_holds_is_failed_at_the_nominal_rate():
    """A tiny margin makes FAIL a plain 5% test; 400 repetitions, 0.1% binomial bounds."""
    fails = [_audit(0.0, n=40, seed=s, margin=1e-6).status for s in range(400)]
    share = np.mean([status is TransportStatus.FAIL for status in fails])
    assert 0.02 <= share <= 0.09


def test_uncertain_predictions_widen_the_audit():
    behind = np.zeros(205)
    behind[200:] = 0.1 / np.sqrt(5)  # five prompts of their own: variance 0.01
    plain, unsure = _audit(0.05), _audit(0.05, prediction_influence=behind, clusters=np.arange(200))
    assert unsure.high - unsure.low > 2 * (plain.high - plain.low)


def test_several_labels_of_a_prompt_count_as_one_in_the_audit():
    """20 prompts of 10 draws, and nothing but prompt effects: row by row 52% failed."""
    prompts = np.repeat(np.arange(20), 10)
    fails = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        predicted = rng.uniform(0.3, 0.7, 200)
        labels = predicted + rng.normal(0, 0.12, 20)[prompts] + rng.normal(0, 0.02, 200)
        audit = audit_transport("p", labels, predicted, clusters=prompts, margin=1e-6)
        fails += audit.status is TransportStatus.FAIL
    assert 0.02 <= fails / 400 <= 0.09


def test_an_audit_of_copied_labels_is_the_audit_of_the_labels():
    once = _audit(0.05, n=40)
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0.3, 0.7, 40)
    labels = predicted + 0.05 + rng.normal(0, 0.1, 40)
    five = audit_transport(
        "p", np.repeat(labels, 5), np.repeat(predicted, 5), clusters=np.repeat(np.arange(40), 5)
    )
    assert (five.low, five.high) == pytest.approx((once.low, once.high), abs=1e-12)


def test_prompt_effects_shared_with_the_calibrations_labels_cancel_in_the_audit():
    rng = np.random.default_rng(0)
    effect, predicted = rng.normal(0, 0.1, 50), np.full(50, 0.5)
    behind = (effect - effect.mean()) / 50
    labels = predicted + effect + rng.normal(0, 0.01, 50)
    alone, shared = (
        audit_transport("p", labels, predicted, clusters=np.arange(n, n + 50),
                        prediction_influence=np.r_[behind, np.zeros(50)])
        for n in (50, 0)
    )  # fmt: skip
    assert shared.high - shared.low < 0.2 * (alone.high - alone.low)


def test_labels_on_a_single_prompt_check_nothing():
    audit = _audit(0.0, n=30, clusters=np.zeros(30, dtype=int))
    assert audit.status is TransportStatus.NOT_CHECKED


@pytest.mark.parametrize("whole_prompts", [True, False])
def test_the_chance_gap_is_the_one_that_random_labelling_shows(whole_prompts):
    """Its standard deviation against that of 5,000 labellings."""
    rng = np.random.default_rng(0)
    prompts = np.repeat(np.arange(30), 4)
    values = rng.normal(size=30)[prompts] + 0.5 * rng.normal(size=120)
    draws = []
    for _ in range(5_000):
        if whole_prompts:
            labelled = np.isin(prompts, rng.permutation(30)[:9])
        else:
            labelled = np.isin(np.arange(120), rng.permutation(120)[:36])
        draws.append(values[labelled].mean() - values.mean())
    found = chance_gap(values, labelled, prompts)
    assert found.gap == pytest.approx(draws[-1])
    assert found.sd == pytest.approx(np.std(draws), rel=0.08)


def test_with_one_row_per_prompt_the_chance_gap_is_that_of_a_simple_random_sample():
    rng = np.random.default_rng(1)
    values, labelled = rng.random(80), rng.permutation(80) < 25
    found = chance_gap(values, labelled, np.arange(80))
    assert found.gap == pytest.approx(values[labelled].mean() - values.mean())
    assert found.sd == pytest.approx(values.std(ddof=1) * np.sqrt(1 / 25 - 1 / 80))


def test_labelling_whole_prompts_at_random_is_random():
    """A length or domain is the prompt's: row by row half of all choices looked made."""
    prompts = np.repeat(np.arange(60), 6)
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        length, domain = rng.random(60)[prompts], rng.integers(0, 3, 60)[prompts]
        labelled = np.isin(prompts, rng.permutation(60)[:20])
        tests = labelling_tests(labelled, {"length": length}, {"domain": domain}, prompts=prompts)
        found.append([test.p_value < 0.05 for test in tests])
    assert (np.mean(found, axis=0) < 0.1).all()
    by_length = labelling_tests(length > np.median(length), {"length": length}, {}, prompts=prompts)
    assert by_length[0].p_value < 1e-6


def test_calibration_fit_finds_a_region_that_is_off_and_a_useless_judge():
    rng = np.random.default_rng(0)
    scores = rng.random(600)
    labels = np.clip(scores + rng.normal(0, 0.05, 600), 0, 1)
    good = calibration_fit(scores, labels, scores)
    assert good.r2 > 0.9
    assert good.findings() == []
    bent = calibration_fit(scores, labels, scores + 0.1 * (scores > 2 / 3))
    assert [f.code for f in bent.findings()] == ["calibration-residual"]
    useless = calibration_fit(scores, rng.random(600), np.full(600, 0.5))
    assert useless.findings()[0].code == "low-calibration-r2"


def test_rater_agreement_matches_the_pairwise_definition():
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(30), 3)
    value = np.clip(np.repeat(rng.random(30), 3) + rng.normal(0, 0.1, 90), 0, 1)
    found = rater_agreement(RaterLabels.from_arrays(row, value))
    within = [
        (value[i] - value[j]) ** 2 for i in range(90) for j in range(90)
        if i != j and row[i] == row[j]
    ]  # fmt: skip
    overall = [(value[i] - value[j]) ** 2 for i in range(90) for j in range(90) if i != j]
    assert found.alpha == pytest.approx(1 - np.mean(within) / np.mean(overall))
    assert found.rater_variance == pytest.approx(np.mean(within) / 2)


def test_raters_who_never_share_a_response_have_no_agreement():
    assert rater_agreement(RaterLabels.from_arrays([0, 1, 2], [0.1, 0.5, 0.9])) is None


def test_disagreeing_raters_are_reported():
    rng = np.random.default_rng(0)
    found = rater_agreement(RaterLabels.from_arrays(np.repeat(np.arange(50), 2), rng.random(100)))
    assert found.findings()[0].code == "low-rater-agreement"
