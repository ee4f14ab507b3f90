"""What tells wrong weights from right ones: their mean, the target's own draws, known noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cje
from cje import CJEError, PrecomputedSampler, simulate
from cje.diagnostics import target_typicality, weight_diagnostics, weight_findings
from cje.estimators import DRCPOEstimator, IPSEstimator, SNIPSEstimator, TRCPOEstimator
from cje.findings import Severity
from cje.findings.weights import WEIGHTS_MISS_DRAWS
from cje.kernels.weights import effective_sample_size
from studies.stress_offpolicy import World, draw

RNG = np.random.default_rng(0)


def codes(result):
    return {(f.code, str(f.severity)) for f in result.findings}


def logs(**options):
    made = draw(World(**options), np.random.default_rng(5))
    return PrecomputedSampler(made.logged), made.fresh


@pytest.mark.parametrize(("offset", "code"), [(0.4, "mean-weight"), (-0.4, "support-truncated")])
def test_a_mean_weight_far_from_one_refuses_what_is_weighted_by_it(offset, code):
    sampler, fresh = logs(offset=offset)
    for label_weight in ("raw", "projected"):
        alone = SNIPSEstimator(sampler, label_weight=label_weight).fit_and_estimate()
        assert (code, "refuse") in codes(alone)
    assert (code, "refuse") in codes(TRCPOEstimator(sampler, fresh).fit_and_estimate())
    result = TRCPOEstimator(sampler, fresh, label_weight="projected").fit_and_estimate()
    assert (code, "warning") in codes(result)
    assert result.refused() == {}


def test_rows_of_one_prompt_are_not_separate_evidence_on_the_mean_weight():
    weights = np.repeat(RNG.lognormal(-0.125, 0.5, 200), 10)
    alone = weight_diagnostics("t", weights)
    together = weight_diagnostics("t", weights, clusters=np.repeat(np.arange(200), 10))
    assert together.mean_weight_se == pytest.approx(np.sqrt(10) * alone.mean_weight_se, rel=0.01)
    assert abs(together.mean_weight_z) < abs(alone.mean_weight_z)


def test_honest_skewed_weights_rarely_get_a_finding():
    """400 logs at an overlap of 0.2: at most 4 beyond 3.29 (plain standard errors: about 3%)."""
    d = np.sqrt(-np.log(0.2))
    accused = 0
    for seed in range(400):
        x = np.random.default_rng(seed).standard_normal(400)
        found = weight_findings(weight_diagnostics("t", np.exp(d * x - d * d / 2)))
        accused += any(f.code in ("mean-weight", "support-truncated") for f in found)
    assert accused <= 4


def test_equal_weights_of_another_mean_are_far_from_one():
    assert weight_diagnostics("t", np.ones(50)).mean_weight_z == 0.0
    assert weight_diagnostics("t", np.full(50, 1.2)).mean_weight_z > 1e3


def test_stated_noise_divides_the_weights_by_its_mean_factor():
    sampler, _ = logs(noise=0.5)
    plain = IPSEstimator(sampler).fit_and_estimate().diagnostics["weights"]["t"]
    stated = IPSEstimator(sampler, logprob_noise=0.5).fit_and_estimate()
    mean = stated.diagnostics["weights"]["t"]["mean_weight"]
    assert mean == pytest.approx(plain["mean_weight"] / np.exp(0.25))
    assert stated.refused() == {}
    with pytest.raises(CJEError, match="logprob_noise"):
        IPSEstimator(sampler, logprob_noise=1.5)


def test_the_interval_of_ips_widens_by_what_the_mean_weight_shows():
    sampler, _ = logs(offset=0.05)
    result = IPSEstimator(sampler).fit_and_estimate()
    d = result.diagnostics["weights"]["t"]
    shown = max((d["mean_weight"] - 1.0) ** 2 - d["mean_weight_se"] ** 2, 0.0)
    factor = (result.estimates[0] - result.diagnostics["label_correction"]["t"]) / d["mean_weight"]
    parts = [c for c in result.influence.components if c.kind == "weights"]
    assert shown > 0
    assert float(parts[0].covariance[0, 0]) == pytest.approx(factor**2 * shown)


def test_weights_wrong_by_length_are_found_where_both_files_have_it():
    wrong = {"per_length": 0.3, "hidden_slope": 0.4}
    sampler, fresh = logs(**wrong, lengths=True)
    result = TRCPOEstimator(sampler, fresh).fit_and_estimate()
    (found,) = [f for f in result.findings if f.code == WEIGHTS_MISS_DRAWS.code]
    assert found.details["feature"] == "length"
    assert found.severity is Severity.REFUSE
    assumed = TRCPOEstimator(sampler, fresh, label_weight="projected").fit_and_estimate()
    assert ("weights-miss-draws", "warning") in codes(assumed)
    blind = TRCPOEstimator(*logs(**wrong)).fit_and_estimate()
    assert "weights-miss-draws" not in {f.code for f in blind.findings}


def test_right_weights_reproduce_the_draws():
    """100 logs, family-wise 5%: at most 13 accused (99.9% binomial bound), none refused."""
    accused = refused = 0
    for seed in range(100):
        made = draw(World(n=400, n_labels=80, lengths=True), np.random.default_rng(seed))
        result = DRCPOEstimator(PrecomputedSampler(made.logged), made.fresh).fit_and_estimate()
        found = [f for f in result.findings if f.code == WEIGHTS_MISS_DRAWS.code]
        accused += bool(found)
        refused += any(f.severity is Severity.REFUSE for f in found)
    assert accused <= 13
    assert refused <= 1


def test_typical_coverage_is_never_below_the_effective_sample_size_times_the_mass_squared():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        target, ratio = rng.normal(-50, 10, 300), rng.normal(0, rng.uniform(0.1, 2), 300)
        found = target_typicality(target, ratio)
        share = effective_sample_size(np.exp(ratio)) / 300
        assert found.coverage >= found.mass**2 * share - 1e-12
        assert found.mass >= 0.9 - 1e-12


def test_typicality_matches_a_slow_form_by_hand():
    target = np.array([-1.0, -2.0, -3.0, -4.0])
    ratio = np.log(np.array([2.0, 1.0, 0.9, 0.1]))
    found = target_typicality(target, ratio)  # 90% of the mass of 4: the first three
    assert found.coverage == 0.75
    assert found.mass == pytest.approx(3.9 / 4.0)
    w = np.array([2.0, 1.0, 0.9])
    assert found.shape**2 == pytest.approx(np.mean(w**2) / np.mean(w) ** 2)
    assert found.floor == pytest.approx(found.mass * found.shape / np.sqrt(0.75))
    lengths = np.array([1.0, 1.0, 1.0, 40.0])  # the last is now the most typical per token
    assert target_typicality(target, ratio, lengths).coverage == 1.0
    with pytest.raises(CJEError, match="positive length"):
        target_typicality(target, ratio, np.zeros(4))


def test_auto_weighs_logged_labels_where_only_they_exist():
    sim = simulate.logged_with_logprobs(600, 200, seed=3, targets={"near": 0.8, "far": 0.6})
    assert cje.analyze_dataset(sim.fresh, logged_data=sim.dataset).estimator == "tr-cpo"
    own = sim.fresh.with_columns(oracle_label=sim.fresh_outcomes)
    assert cje.analyze_dataset(own, logged_data=sim.dataset).estimator == "direct"
    more = replace(sim, fresh=sim.fresh.select(sim.fresh.policy.mask("near"))).fresh
    assert cje.analyze_dataset(more, logged_data=sim.dataset).estimator == "direct"
    assert cje.analyze_dataset(logged_data=sim.dataset).estimator == "calibrated-ips"
