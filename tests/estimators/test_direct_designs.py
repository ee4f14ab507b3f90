"""Clusters, raters, ranks and few own labels in the direct estimator."""

import numpy as np
import pytest

import cje.simulate as simulate
from cje.analysis.pilot import measure_pilot
from cje.data import RaterLabels, read
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators import DirectEstimator
from cje.estimators.direct.own_labels import few_labels, towards_borrowed
from cje.estimators.direct.rectifier import LabelledCell, rectified_mean
from cje.estimators.registry import find_estimator
from cje.results.result import EstimationResult
from studies.stress_direct import CELLS


def _data(seed: int = 3, labels: int = 60) -> Dataset:
    return simulate.policies_on_shared_prompts(400, 3, labels, seed=seed).dataset


def _without_labels(data: Dataset, policy: str, keep: int = 0) -> Dataset:
    label = data.oracle_label.copy()
    rows = np.flatnonzero(data.policy.mask(policy) & data.is_labelled)
    label[rows[keep:]] = np.nan
    return data.with_columns(oracle_label=label)


def _codes(result) -> set[str]:
    return {finding.code for finding in result.findings}


# ---- clusters ------------------------------------------------------------------------------------


def test_clusters_of_one_prompt_each_change_nothing() -> None:
    data = _data()
    named = data.with_columns(cluster=data.prompt_id.decode())
    plain, same = (DirectEstimator(d).fit_and_estimate() for d in (data, named))
    np.testing.assert_allclose(same.estimates, plain.estimates, atol=1e-12)
    np.testing.assert_allclose(same.ci(), plain.ci(), atol=1e-12)


def test_copies_of_every_prompt_in_one_cluster_add_no_information() -> None:
    data = _data()
    prompts = data.prompt_id.decode()
    twice = Dataset.from_arrays(
        prompt_id=prompts + [f"{p} again" for p in prompts],
        policy=data.policy.decode() * 2,
        judge_score=np.tile(data.judge_score, 2),
        oracle_label=np.tile(data.oracle_label, 2),
        cluster=prompts * 2,
    )
    once, both = (DirectEstimator(d).fit_and_estimate() for d in (data, twice))
    np.testing.assert_allclose(both.standard_errors, once.standard_errors, rtol=0.06)
    assert both.metadata["n_labelled_clusters"] == once.metadata["n_labelled_clusters"]


def test_labels_of_fewer_than_five_clusters_are_refused_by_name() -> None:
    data = _data()
    four = np.array([f"c{i % 4}" for i in range(400)])[data.prompt_id.codes]
    with pytest.raises(CJEError, match=r"180 labels are on 4 clusters.*at least 5 clusters"):
        DirectEstimator(data.with_columns(cluster=four)).fit_and_estimate()


def test_labelled_prompts_not_labels_decide_what_is_few() -> None:
    rng = np.random.default_rng(1)
    prompt = np.repeat(np.arange(60), 10)
    label = np.where(prompt < 12, rng.random(600), np.nan)
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in prompt], policy="a", judge_score=rng.random(600),
        oracle_label=label,
    )  # fmt: skip
    result = DirectEstimator(data).fit_and_estimate()
    assert "120 labels on 12 prompts" in str(result.findings)
    assert result.influence.degrees_of_freedom()[0] <= 11.5


def test_calibration_rows_without_clusters_join_those_of_their_prompts() -> None:
    data = _data()
    users = np.array([f"u{i // 4}" for i in range(400)])[data.prompt_id.codes]
    fresh = _without_labels(data, data.policies[2]).with_columns(cluster=users)
    other = data.select(data.policy.mask(data.policies[2]) & data.is_labelled)
    estimator = DirectEstimator(fresh, calibration_data=[other])
    estimator.fit_and_estimate()
    assert estimator.pool_.clusters.max() < fresh.units.n_names


# ---- few labels of one's own ---------------------------------------------------------------------


def test_the_value_moves_from_the_borrowed_to_the_rectified_one_without_a_jump() -> None:
    weights = [(towards_borrowed(0.52, 0.5, 0.01 / n, n, 8) - 0.5) / 0.02 for n in (3, 5, 7, 8)]
    assert weights == sorted(weights)
    assert 0.5 < weights[0] < weights[2] < 1.0
    assert weights[3] == pytest.approx(1.0)


def test_a_large_offset_is_not_shrunk_away() -> None:
    assert towards_borrowed(0.2, 0.8, 0.0016, 4, 8) == pytest.approx(0.2, abs=0.005)


def test_residuals_that_happen_to_agree_do_not_look_certain() -> None:
    cell = LabelledCell(np.zeros(4), np.full(4, 0.3), np.full(4, 0.25), np.ones(4), np.arange(4))
    own = rectified_mean(0.0, cell, 1.0)
    few = few_labels(own, cell, 0.04)
    assert not few.influence.any()
    assert few.unseen == pytest.approx(4.0 * (0.04 / 4) / 8.0)


def test_a_slope_fitted_elsewhere_has_no_leverage_on_a_few_labels() -> None:
    rng = np.random.default_rng(5)
    prediction, label = rng.random(3), rng.random(3)
    cell = LabelledCell(prediction, label, np.full(3, 1 / 3), np.ones(3), np.arange(3))
    own = rectified_mean(0.5, cell, 0.8, fitted_here=False)
    error = label - 0.8 * prediction
    assert np.sum(own.labels**2) == pytest.approx(error.var(ddof=1) / 3)


def test_the_interval_of_few_labels_is_that_of_their_own_mean_and_holds_the_value() -> None:
    data = _data()
    few = _without_labels(data, data.policies[2], keep=4)
    result = DirectEstimator(few).fit_and_estimate()
    estimate, k = result.influence, 2
    assert estimate.shrinkage is not None
    assert estimate.shrinkage[k] != 0.0
    assert (estimate.shrinkage[:2] == 0.0).all()
    low, high = estimate.intervals(method="t")[k]
    assert (low + high) / 2 == pytest.approx(estimate.centre[k])
    assert estimate.intervals(0.05)[k].low <= estimate.values[k] <= estimate.intervals(0.05)[k].high
    gap = estimate.difference(data.policies[2], data.policies[0])
    assert gap.centre[0] == pytest.approx(estimate.centre[2] - estimate.centre[0])
    # its four labels and the four of the prior, and next to them the sample's own rows
    assert 8.0 <= estimate.degrees_of_freedom()[k] < 9.5
    assert EstimationResult.from_json(result.to_json()).rows() == result.rows()


def test_labels_of_the_first_rows_are_reported_although_the_score_was_modelled() -> None:
    """Chance makes scores of labelled rows differ at 2%; the order is a finding all the same."""
    cell = next(c for c in CELLS if c.name == "first 50 rows, drift, no time")
    data = cell.draw(np.random.default_rng([38, 20])).dataset
    assert {"labels-modelled", "first-rows-labelled"} <= _codes(
        DirectEstimator(data).fit_and_estimate()
    )


def test_a_file_in_the_order_of_a_modelled_score_is_not_reported_for_its_order() -> None:
    rng = np.random.default_rng(2)
    n = 500
    score = np.sort(rng.random(n))
    chosen = rng.random(n) < 0.1 + 0.4 * score
    label = np.where(chosen, np.clip(score + rng.normal(0, 0.05, n), 0, 1), np.nan)
    data = Dataset.from_arrays(prompt_id=[f"p{i}" for i in range(n)], policy=["a"] * n,
                               judge_score=score, oracle_label=label)  # fmt: skip
    codes = _codes(DirectEstimator(data).fit_and_estimate())
    assert "labels-modelled" in codes
    assert "first-rows-labelled" not in codes


def test_three_labels_audit_the_borrowed_calibration() -> None:
    data = _data()
    result = DirectEstimator(_without_labels(data, data.policies[2], keep=3)).fit_and_estimate()
    assert result.diagnostics["transport"][data.policies[2]]["status"] != "NOT_CHECKED"
    two = DirectEstimator(_without_labels(data, data.policies[2], keep=2)).fit_and_estimate()
    assert two.diagnostics["transport"][data.policies[2]]["status"] == "NOT_CHECKED"


def test_own_labels_do_not_widen_the_range_that_the_overlap_gate_reads() -> None:
    rng = np.random.default_rng(0)
    score = np.concatenate([0.4 * rng.random(300), 0.6 + 0.4 * rng.random(300)])
    label = np.full(600, np.nan)
    label[:40] = score[:40]
    label[300:305] = 0.1
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(300)] * 2, policy=["good"] * 300 + ["bad"] * 300,
        judge_score=score, oracle_label=label,
    )  # fmt: skip
    assert "bad" in DirectEstimator(data).fit_and_estimate().refused()


# ---- the borrowed standard error and ranks -------------------------------------------------------


def test_the_borrowed_standard_error_does_not_depend_on_the_seed_of_the_folds() -> None:
    data = _data()
    fresh = _without_labels(data, data.policies[2])
    errors = [
        DirectEstimator(fresh, seed=s).fit_and_estimate().robust_standard_errors[2]
        for s in range(10)
    ]
    assert max(errors) / min(errors) <= 1.1


@pytest.mark.parametrize("power", [0.3, 4.0])
def test_an_increasing_transformation_of_the_judge_moves_nothing_in_monotone_mode(power) -> None:
    data = _without_labels(_data(), "candidate_2")
    assert "candidate_2" in data.policies
    other = data.with_columns(judge_score=data.judge_score**power)
    a, b = (DirectEstimator(d, mode="monotone").fit_and_estimate() for d in (data, other))
    np.testing.assert_allclose(a.estimates, b.estimates, atol=1e-12)
    np.testing.assert_allclose(a.ci(), b.ci(), atol=1e-12)


# ---- raters --------------------------------------------------------------------------------------


def _rated(raters: int, effect: float) -> Dataset:
    data, rng = _data(), np.random.default_rng(0)
    rows = np.flatnonzero(data.is_labelled)
    who = rng.integers(0, raters, len(rows))
    shift = effect * np.where(np.arange(raters) % 2, 1.0, -1.0)
    values = np.clip(data.oracle_label[rows] + shift[who], 0, 1)
    labels = RaterLabels.from_arrays(rows, values, [f"r{i}" for i in who])
    return data.with_columns(oracle_label=None, rater_labels=labels)


def test_strong_rater_effects_widen_values_but_hardly_their_differences() -> None:
    data = _rated(4, 0.15)
    random, fixed = (
        DirectEstimator(data, raters=r).fit_and_estimate() for r in ("random", "fixed")
    )
    ratio = random.robust_standard_errors / fixed.robust_standard_errors
    assert (ratio > 2.0).all()
    np.testing.assert_allclose(random.estimates, fixed.estimates)
    gaps = [r.influence.all_pairs().standard_errors() for r in (random, fixed)]
    assert (gaps[0] / gaps[1] < 1.6).all()


@pytest.mark.parametrize(
    ("raters", "said"),
    [(1, "by one rater"), (2, "by these 2 raters"), (3, "by raters like these 3")],
)
def test_what_is_estimated_is_stated_with_its_raters(raters: int, said: str) -> None:
    result = DirectEstimator(_rated(raters, 0.05)).fit_and_estimate()
    assert said in result.metadata["quantity"]


def test_raters_as_a_sample_need_names_of_raters() -> None:
    with pytest.raises(CJEError, match="the rater of each label"):
        DirectEstimator(_data(), raters="random").fit_and_estimate()


def test_a_column_of_raters_beside_the_labels_is_read() -> None:
    rows = [
        {"prompt_id": f"p{i}", "policy": "a", "judge_score": i / 60, "annotator": f"r{i % 3}",
         "human_label": i / 60 if i < 30 else None}
        for i in range(60)
    ]  # fmt: skip
    data = read(rows)
    assert data.rater_labels is not None
    assert (len(data.rater_labels), data.rater_labels.rater.names) == (30, ("r0", "r1", "r2"))


def test_an_unknown_role_of_raters_is_refused_with_the_choices() -> None:
    with pytest.raises(CJEError, match="random"):
        DirectEstimator(_rated(3, 0.0), raters="some").fit_and_estimate()


# ---- covariates ----------------------------------------------------------------------------------


def test_automatic_covariates_without_text_or_length_are_the_plain_estimate() -> None:
    data = _data()
    plain, auto = (DirectEstimator(data, covariates=c).fit_and_estimate() for c in ((), "auto"))
    np.testing.assert_array_equal(plain.estimates, auto.estimates)


# ---- clusters in other estimators ---------------------------------------------------------------


def _clustered(data: Dataset, size: int) -> Dataset:
    return data.with_columns(cluster=[f"u{int(p[1:]) // size}" for p in data.prompt_id.decode()])


def test_logged_prompts_of_one_user_are_one_cluster_of_off_policy_intervals() -> None:
    sim = simulate.logged_with_logprobs(400, 200, targets={"near": 0.9}, seed=1)
    logged = sim.dataset.with_columns(prompt_id=[f"p{i}" for i in range(400)])
    for name in ("snips", "calibrated-ips"):
        entry = find_estimator(name)
        plain, users = (
            entry.build(fresh=None, logged=data).fit_and_estimate()
            for data in (logged, _clustered(logged, 4))
        )
        assert (plain.influence.n_clusters, users.influence.n_clusters) == (400, 100)


def test_fresh_draws_take_the_clusters_of_their_logged_prompts() -> None:
    sim = simulate.logged_with_logprobs(400, 200, targets={"near": 0.9}, seed=1)
    prompts = dict(zip(sim.dataset.prompt_id.names, range(400), strict=True))

    def renamed(data: Dataset) -> Dataset:
        return data.with_columns(prompt_id=[f"p{prompts[p]}" for p in data.prompt_id.decode()])

    logged, fresh = renamed(sim.dataset), renamed(sim.fresh)
    entry = find_estimator("dr-cpo")
    users = entry.build(fresh=fresh, logged=_clustered(logged, 4)).fit_and_estimate()
    both = entry.build(fresh=_clustered(fresh, 4), logged=_clustered(logged, 4)).fit_and_estimate()
    assert users.influence.n_clusters == 100
    np.testing.assert_allclose(users.ci(), both.ci())
    with pytest.raises(CJEError, match="logged rows do not"):
        entry.build(fresh=_clustered(fresh, 4), logged=logged).fit_and_estimate()


def test_a_pilot_with_correlated_label_errors_within_users_asks_for_more_labels() -> None:
    data = next(cell for cell in CELLS if cell.name.startswith("users of 20")).draw(
        np.random.default_rng(0)
    ).dataset  # fmt: skip
    plain, users = (
        measure_pilot(d, n_draws=5).quality for d in (data.with_columns(cluster=None), data)
    )
    assert users.sd > 1.3 * plain.sd
