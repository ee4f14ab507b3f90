"""Promises of the direct and naive estimators."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats

import cje.simulate as simulate
from cje.data import Dataset
from cje.errors import CJEError
from cje.estimators import DirectEstimator, NaiveEstimator, bootstrap_direct
from cje.estimators.direct.bootstrap import isotonic_rows
from cje.estimators.direct.rectifier import LabelledCell, own_slope, rectified_mean, shrunken_slopes
from cje.inference import Severity


def _data(seed: int = 0, **options: object) -> Dataset:
    return simulate.policies_on_shared_prompts(300, 2, 60, seed=seed, **options).dataset  # type: ignore[arg-type]


def _strip_labels(data: Dataset, policy: str, keep: int = 0) -> Dataset:
    label = data.oracle_label.copy()
    rows = np.flatnonzero(data.policy.mask(policy) & data.is_labelled)
    label[rows[keep:]] = np.nan
    return data.with_columns(oracle_label=label)


# ---- identities -------------------------------------------------------------------------------


def test_all_rows_labelled_gives_the_mean_label_and_its_standard_error() -> None:
    sim = simulate.policies_on_shared_prompts(200, 2, 200, seed=1)
    result = DirectEstimator(sim.dataset).fit_and_estimate()
    for k, name in enumerate(result.policies):
        labels = sim.dataset.select_policy(name).oracle_label
        assert result.estimates[k] == pytest.approx(labels.mean(), abs=1e-12)
        assert result.standard_errors[k] == pytest.approx(
            labels.std(ddof=1) / np.sqrt(len(labels)), rel=0.02
        )


def test_a_constant_judge_gives_the_labels_mean_up_to_fold_noise() -> None:
    data = _data().with_columns(judge_score=np.full(600, 0.5))
    result = DirectEstimator(data).fit_and_estimate()
    for k, name in enumerate(result.policies):
        labels = data.select(data.is_labelled & data.policy.mask(name)).oracle_label
        assert result.estimates[k] == pytest.approx(labels.mean(), abs=1e-3)


def test_slope_one_is_aipw_and_slope_zero_is_the_mean_label() -> None:
    rng = np.random.default_rng(0)
    f, at = rng.random(50), np.arange(10)
    y = rng.random(10)
    cell = LabelledCell(f[at], y, np.full(10, 0.1), np.ones(10), np.arange(10))
    aipw = rectified_mean(f.mean(), cell, 1.0).value
    assert aipw == pytest.approx(f.mean() + (y - f[at]).mean())
    assert rectified_mean(f.mean(), cell, 0.0).value == pytest.approx(y.mean())


def test_the_least_squares_slope_minimises_the_estimated_variance() -> None:
    rng = np.random.default_rng(1)
    f = rng.random(400)
    at = np.arange(80)
    y = 0.3 * f[at] + rng.normal(0, 0.1, 80)
    cell = LabelledCell(f[at], y, np.full(80, 1 / 80), np.ones(80), np.arange(80))
    best = own_slope(cell).value

    def variance(slope: float) -> float:
        found = rectified_mean(f.mean(), cell, slope)
        influence = found.of_rows(f) / len(f)
        influence[at] += found.labels
        return float((influence**2).sum())

    assert variance(best) < variance(best + 0.3)
    assert variance(best) < variance(best - 0.3)


def test_imprecise_slopes_are_pooled_and_precise_ones_are_kept() -> None:
    rng = np.random.default_rng(2)
    cells = []
    for n, slope in ((5000, 0.5), (12, 2.0)):
        f = rng.random(n)
        y = slope * f + rng.normal(0, 0.2, n)
        cells.append(own_slope(LabelledCell(f, y, np.full(n, 1 / n), np.ones(n), np.arange(n))))
    shrunk = shrunken_slopes(cells)
    assert abs(shrunk[0] - cells[0].value) < 0.01
    assert abs(shrunk[1] - 0.5) < abs(cells[1].value - 0.5)


def test_row_order_and_policy_order_do_not_matter() -> None:
    data = _data(3)
    shuffled = data.select(np.random.default_rng(0).permutation(len(data)))
    first = DirectEstimator(data).fit_and_estimate()
    again = DirectEstimator(shuffled).fit_and_estimate()
    np.testing.assert_allclose(first.estimates, again.estimates, atol=1e-12)
    np.testing.assert_allclose(first.ci(), again.ci(), atol=1e-12)


def test_several_draws_of_a_prompt_count_as_one_cluster() -> None:
    """The same rows written twice as draws must not shrink the standard error."""
    data = _data(4)
    twice = Dataset.from_arrays(
        prompt_id=data.prompt_id.decode() * 2,
        policy=data.policy.decode() * 2,
        judge_score=np.tile(data.judge_score, 2),
        oracle_label=np.tile(data.oracle_label, 2),
    )
    once, both = (DirectEstimator(d).fit_and_estimate() for d in (data, twice))
    np.testing.assert_allclose(both.estimates, once.estimates, atol=2e-3)
    np.testing.assert_allclose(both.standard_errors, once.standard_errors, rtol=0.06)


def test_a_prompt_with_more_draws_has_no_more_weight() -> None:
    rng = np.random.default_rng(0)
    prompts = [f"p{i}" for i in range(40)]
    ids = prompts + ["p0"] * 60
    score = np.concatenate([rng.random(40), np.full(60, 0.99)])
    data = Dataset.from_arrays(
        prompt_id=ids, policy="a", judge_score=score, oracle_label=score.clip(0, 1)
    )
    value = DirectEstimator(data).fit_and_estimate().estimates[0]
    per_prompt = np.concatenate([[np.mean(np.append(score[40:], score[0]))], score[1:40]])
    assert value == pytest.approx(per_prompt.mean(), abs=0.01)


# ---- borrowed calibration -----------------------------------------------------------------------


def test_a_policy_without_labels_is_borrowed_marked_and_wider_than_its_sampling_error() -> None:
    data = _strip_labels(_data(5), "candidate_1")
    result = DirectEstimator(data).fit_and_estimate()
    assert result.metadata["borrowed"] == ["candidate_1"]
    assert result.robust_standard_errors[1] > 1.2 * result.standard_errors[1]
    assert result.robust_standard_errors[0] == result.standard_errors[0]
    finding = next(f for f in result.findings if f.code == "borrowed-calibration")
    assert finding.subject == "candidate_1"
    assert "borrowed" in str(result.compare_policies("candidate_1", "base"))
    assert result.rows()[1]["borrowed_calibration"]


def test_a_borrowed_value_shares_the_noise_of_the_labels_it_borrows() -> None:
    """The difference to the lender is sharper than independent label noise would make it."""
    result = DirectEstimator(_strip_labels(_data(5), "candidate_1")).fit_and_estimate()
    gap = result.compare_policies("candidate_1", "base").standard_error
    assert gap < 0.8 * np.sqrt((result.robust_standard_errors**2).sum())
    assert gap > 0.0


def test_a_handful_of_labels_is_not_enough_for_a_rectifier() -> None:
    data = _strip_labels(_data(5), "candidate_1", keep=5)
    result = DirectEstimator(data).fit_and_estimate()
    assert result.metadata["borrowed"] == ["candidate_1"]
    assert result.metadata["n_labels"]["candidate_1"] == 5


def test_calibration_data_serves_a_policy_without_labels() -> None:
    data = _data(6)
    unlabelled = data.select(data.policy.mask("base")).with_columns(
        oracle_label=np.full(300, np.nan)
    )
    with pytest.raises(CJEError, match="oracle labels"):
        DirectEstimator(unlabelled).fit_and_estimate()
    result = DirectEstimator(
        unlabelled, calibration_data=[data.select(data.is_labelled)]
    ).fit_and_estimate()
    assert result.metadata["borrowed"] == ["base"]
    assert abs(result.estimates[0] - 0.534) < 0.1


# ---- labels outside the data ---------------------------------------------------------------------


# ---- statistics -------------------------------------------------------------------------------


def _family_bounds(repetitions: int, tests: int, level: float = 0.95) -> tuple[float, float]:
    """Binomial limits whose family-wise error is 1% over `tests` coverage checks."""
    tail = 0.01 / (2 * tests)
    limits = stats.binom.ppf([tail, 1 - tail], repetitions, level)
    return tuple(limits / repetitions)  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("monotone", partial(simulate.policies_on_shared_prompts, 300, 2, 50)),
        ("mar", partial(simulate.policies_on_shared_prompts, 300, 2, 60, labelling="mar")),
        ("skewed", partial(simulate.skewed_outcomes, 300, 2, 50)),
        ("dip", partial(simulate.policies_on_shared_prompts, 300, 2, 50, shape="non_monotone")),
    ],
)
def test_intervals_cover_values_and_differences(name: str, make) -> None:  # type: ignore[no-untyped-def]
    repetitions = 300
    hits = np.zeros(3)
    for seed in range(repetitions):
        sim = make(seed=seed)
        result = DirectEstimator(sim.dataset, seed=seed).fit_and_estimate()
        truth = np.array([sim.truth[p] for p in result.policies])
        inside = [lo <= t <= hi for (lo, hi), t in zip(result.ci(), truth, strict=True)]
        gap = result.compare_policies("candidate_1", "base").interval
        hits += [*inside, truth[1] - truth[0] in gap]
    low, high = _family_bounds(repetitions, 12)
    assert (hits / repetitions >= low).all(), (name, hits / repetitions)
    assert (hits / repetitions <= high).all(), (name, hits / repetitions)


@pytest.mark.slow
def test_borrowed_intervals_need_the_jackknife_and_have_it() -> None:
    """Without the label term a plug-in covers far too little (about 54% where labels are few)."""
    with_term, without = 0, 0
    for seed in range(200):
        sim = simulate.policies_on_shared_prompts(1000, 2, 60, seed=seed)
        data = _strip_labels(sim.dataset, "candidate_1")
        result = DirectEstimator(data, seed=seed).fit_and_estimate()
        error = abs(result.estimates[1] - sim.truth["candidate_1"])
        low, high = result.ci()[1]
        with_term += low <= sim.truth["candidate_1"] <= high
        without += error <= 1.96 * result.standard_errors[1]
    assert without / 200 < 0.75
    assert with_term / 200 > 0.90


def test_the_rectifier_survives_a_judge_that_is_wrong_about_one_policy() -> None:
    sim = simulate.policies_on_shared_prompts(2000, 2, 200, seed=7)
    bent = sim.dataset.judge_score.copy()
    liar = sim.dataset.policy.mask("candidate_1")
    bent[liar] = np.clip(bent[liar] + 0.3, 0, 1)
    result = DirectEstimator(sim.dataset.with_columns(judge_score=bent)).fit_and_estimate()
    low, high = result.ci()[1]
    assert low <= sim.truth["candidate_1"] <= high
    naive = NaiveEstimator(sim.dataset.with_columns(judge_score=bent)).fit_and_estimate()
    low, high = naive.ci()[1]
    assert not low <= sim.truth["candidate_1"] <= high


def test_pairing_makes_the_difference_sharper_than_independence_would() -> None:
    sim = simulate.policies_on_shared_prompts(2000, 2, 2000, seed=8, prompt_correlation=0.9)
    result = DirectEstimator(sim.dataset).fit_and_estimate()
    independent = np.sqrt((result.standard_errors**2).sum())
    assert result.compare_policies("candidate_1", "base").standard_error < 0.85 * independent


def test_covariates_shorten_intervals_where_length_explains_the_labels() -> None:
    rng = np.random.default_rng(0)
    n, length = 600, rng.normal(size=600)
    score = np.clip(0.5 + 0.1 * rng.normal(size=n), 0, 1)
    y = np.clip(0.5 + 0.5 * (score - 0.5) + 0.12 * length + 0.03 * rng.normal(size=n), 0, 1)
    label = np.where(np.arange(n) % 6 == 0, y, np.nan)
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(n)], policy="a", judge_score=score, oracle_label=label,
        covariates={"length": length},
    )  # fmt: skip
    plain = DirectEstimator(data).fit_and_estimate()
    helped = DirectEstimator(data, covariates=("length",)).fit_and_estimate()
    assert helped.standard_errors[0] < 0.7 * plain.standard_errors[0]


def test_identical_labels_still_have_an_interval() -> None:
    label = np.full(100, np.nan)
    label[np.random.default_rng(0).permutation(100)[:30]] = 0.0
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(100)], policy="a",
        judge_score=np.linspace(0, 1, 100), oracle_label=label,
    )  # fmt: skip
    result = DirectEstimator(data).fit_and_estimate()
    low, high = result.ci()[0]
    assert low == 0.0
    exact = 1.0 - 0.025 ** (1 / 30)
    assert 0.8 * exact < high <= exact
    assert any(f.code == "identical-labels" for f in result.findings)


# ---- subgroups, scales, bootstrap -------------------------------------------------------------


def test_estimates_by_group_average_to_the_whole_where_labels_are_complete() -> None:
    sim = simulate.policies_on_shared_prompts(200, 2, 200, seed=1)
    group = [f"g{code % 2}" for code in sim.dataset.prompt_id.codes]
    data = sim.dataset.with_columns(domain=group)
    estimator = DirectEstimator(data)
    whole, parts = estimator.fit_and_estimate(), estimator.estimate_by("domain")
    assert set(parts.policies) == {f"{p} | {g}" for p in whole.policies for g in ("g0", "g1")}
    base = [v for n, v in zip(parts.policies, parts.estimates, strict=True) if n.startswith("base")]
    assert np.mean(base) == pytest.approx(whole.estimates[0], abs=1e-9)


def test_results_come_out_on_the_labels_own_scale() -> None:
    data = _data(9)
    likert = data.with_columns(oracle_scale=(1, 5))
    unit, five = (DirectEstimator(d).fit_and_estimate() for d in (data, likert))
    np.testing.assert_allclose(five.estimates, 1 + 4 * unit.estimates)
    np.testing.assert_allclose(five.standard_errors, 4 * unit.standard_errors)
    np.testing.assert_allclose(five.ci(), 1 + 4 * np.array(unit.ci()))


def test_bootstrap_agrees_with_the_influence_function() -> None:
    data = simulate.policies_on_shared_prompts(600, 2, 200, seed=2, levels=11).dataset
    draws = bootstrap_direct(data, n_draws=3000, seed=1)
    result = DirectEstimator(data).fit_and_estimate()
    np.testing.assert_allclose(draws.std(axis=0), result.standard_errors, rtol=0.12)
    np.testing.assert_allclose(draws.mean(axis=0), result.estimates, atol=0.01)
    gap = draws[:, 1] - draws[:, 0]
    assert gap.std() == pytest.approx(
        result.compare_policies("candidate_1", "base").standard_error, rel=0.15
    )


def test_the_bootstrap_refuses_a_labelled_row_without_propensity_as_direct_does() -> None:
    data = _data(1)
    chance = np.full(len(data), 0.2)
    chance[np.flatnonzero(data.is_labelled)[0]] = np.nan
    data = data.with_columns(label_propensity=chance)
    for estimate in (bootstrap_direct, lambda d: DirectEstimator(d).fit_and_estimate()):
        with pytest.raises(CJEError, match="a labelled row has no label_propensity"):
            estimate(data)


@pytest.mark.parametrize("levels", [5, 60])
def test_isotonic_rows_equal_one_fit_per_row(levels: int) -> None:
    from scipy.optimize import isotonic_regression

    rng = np.random.default_rng(0)
    weight = rng.random((20, levels)) + 0.2
    mean = rng.random((20, levels))
    fast = isotonic_rows(mean * weight, weight, np.zeros(levels))
    slow = [isotonic_regression(m, weights=w).x for m, w in zip(mean, weight, strict=True)]
    np.testing.assert_allclose(fast, slow, atol=1e-4)


# ---- naive, and what is refused ---------------------------------------------------------------


def test_naive_is_the_mean_score_and_is_marked_uncalibrated() -> None:
    data = _data(1)
    result = NaiveEstimator(data).fit_and_estimate()
    np.testing.assert_allclose(
        result.estimates, [data.select_policy(p).judge_score.mean() for p in result.policies]
    )
    assert result.findings[0].severity is Severity.REFUSE
    assert result.best_policy().policy is None


def test_missing_scores_are_named_not_dropped() -> None:
    score = _data().judge_score.copy()
    score[3] = np.nan
    with pytest.raises(CJEError, match=r"1 of 600 rows have no judge_score .*row 4"):
        DirectEstimator(_data().with_columns(judge_score=score)).fit_and_estimate()


def test_labels_on_one_prompt_are_refused() -> None:
    data = Dataset.from_arrays(
        prompt_id=["p0"] * 12 + [f"q{i}" for i in range(30)], policy="a",
        judge_score=np.linspace(0, 1, 42),
        oracle_label=np.concatenate([np.linspace(0, 1, 12), np.full(30, np.nan)]),
    )  # fmt: skip
    with pytest.raises(CJEError, match="one prompt"):
        DirectEstimator(data).fit_and_estimate()


def test_unknown_covariate_and_subgroup_list_the_known_ones() -> None:
    with pytest.raises(CJEError, match="available covariates: none"):
        DirectEstimator(_data(), covariates=("length",)).fit_and_estimate()
    with pytest.raises(CJEError, match="available columns: none"):
        DirectEstimator(_data()).estimate_by("domain")
