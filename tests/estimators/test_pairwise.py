"""`pairwise` against other libraries, identities, position, style, findings, coverage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje.analysis import analyze_dataset
from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.findings import Severity
from studies.pairwise import WORLDS, World, coverage_study, simulate

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "pairwise" / "complete.json"
ENTRY = find_estimator("pairwise")


@pytest.fixture(scope="module")
def peers() -> dict[str, Any]:
    return dict(json.loads(FIXTURE.read_text()))


def complete(peers: dict[str, Any], **options: Any) -> Any:
    """The estimator on comparisons that people judged completely."""
    rows = peers["comparisons"]
    worth = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    data = Comparisons.from_arrays(
        prompt_id=rows["prompt_id"],
        first=rows["model_a"],
        second=rows["model_b"],
        human=[worth[w] for w in rows["winner"]],
        covariates={"length": rows["length"]},
    )
    estimator = ENTRY.build(data, position=False, **options)
    estimator.fit_and_estimate()
    return estimator


# ---- against arena-rank and choix -------------------------------------------------------------


def test_strengths_equal_those_of_arena_rank_and_choix(peers: dict[str, Any]) -> None:
    strengths = complete(peers).ranking_.strengths.select(peers["models"])
    np.testing.assert_allclose(strengths.values, peers["arena_rank"]["ratings"], atol=1e-8)
    np.testing.assert_allclose(strengths.values, peers["choix"], atol=1e-6)


def test_style_controlled_strengths_equal_those_of_arena_rank(peers: dict[str, Any]) -> None:
    ranking = complete(peers, covariates=["length"]).ranking_
    wanted = peers["arena_rank_style"]
    strengths = ranking.strengths.select(peers["models"])
    np.testing.assert_allclose(strengths.values, wanted["ratings"], atol=1e-6)
    np.testing.assert_allclose(ranking.style.values, wanted["coefficients"], atol=1e-6)


@pytest.mark.parametrize("style", [False, True])
def test_variances_are_those_of_arena_ranks_sandwich(peers: dict[str, Any], style: bool) -> None:
    ranking = complete(peers, covariates=["length"] if style else []).ranking_
    wanted = peers["arena_rank_style" if style else "arena_rank"]["variances"]
    ratio = np.diag(ranking.strengths.select(peers["models"]).covariance()) / wanted
    assert ((ratio > 1.0) & (ratio < 1.02)).all()  # ours corrects for the fitted parameters


def test_a_win_rate_of_complete_data_is_the_mean_over_opponents(peers: dict[str, Any]) -> None:
    estimator = complete(peers)
    rows = peers["comparisons"]
    worth = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    by_opponent: dict[str, list[float]] = {}
    for a, b, w in zip(rows["model_a"], rows["model_b"], rows["winner"], strict=True):
        if "oak" in (a, b):
            won = worth[w] if a == "oak" else 1.0 - worth[w]
            by_opponent.setdefault(b if a == "oak" else a, []).append(won)
    result = estimator.fit_and_estimate()
    wanted = np.mean([np.mean(v) for v in by_opponent.values()])
    assert result.estimates[result.policies.index("oak")] == pytest.approx(wanted, abs=1e-12)


# ---- identities -------------------------------------------------------------------------------


def two_policies(seed: int = 3) -> Comparisons:
    return simulate(WORLDS["two policies, one order"], np.random.default_rng(seed))


def test_two_win_rates_sum_to_one_and_their_difference_tests_one_half() -> None:
    result = ENTRY.build(two_policies()).fit_and_estimate()
    assert result.estimates.sum() == pytest.approx(1.0, abs=1e-12)
    pair = result.compare_policies(*result.policies)
    assert pair.difference == pytest.approx(2.0 * result.estimates[0] - 1.0, abs=1e-12)
    head = result.diagnostics["pairwise"]["pairs"][0]
    assert head["p_even"] == pytest.approx(pair.p_value, rel=1e-9)
    assert head["win_rate"] == pytest.approx(result.estimates[0], abs=1e-12)


def test_turning_every_comparison_around_changes_no_number() -> None:
    data = two_policies()
    turned = Comparisons.from_arrays(
        prompt_id=data.prompt_id, first=data.first, second=data.second, judge=data.judge,
        human=data.human,
    )  # fmt: skip
    back = Comparisons.from_arrays(
        prompt_id=data.prompt_id, first=data.second, second=data.first, judge=1.0 - data.judge,
        human=1.0 - data.human,
    )  # fmt: skip
    a, b = (ENTRY.build(d).fit_and_estimate() for d in (turned, back))
    order = [b.policies.index(name) for name in a.policies]
    np.testing.assert_allclose(a.estimates, b.estimates[order], atol=1e-12)
    np.testing.assert_allclose(
        a.influence.standard_errors(), b.influence.standard_errors()[order], atol=1e-12
    )


def test_row_order_changes_nothing() -> None:
    data = simulate(WORLDS["four policies, two pairs per prompt"], np.random.default_rng(5))
    mixed = data.select(np.random.default_rng(0).permutation(len(data)))
    a, b = ENTRY.build(data), ENTRY.build(mixed)
    one, other = a.fit_and_estimate(), b.fit_and_estimate()
    order = [other.policies.index(name) for name in one.policies]
    np.testing.assert_allclose(one.estimates, other.estimates[order], atol=1e-12)
    np.testing.assert_allclose(
        a.ranking_.strengths.values, b.ranking_.strengths.values[order], atol=1e-9
    )


def test_a_judge_that_agrees_with_people_narrows_the_interval() -> None:
    world = World((0.2, -0.2), both_orders=True, n_prompts=1000)
    widths = []
    for with_judge in (True, False):
        data = simulate(world, np.random.default_rng(8))
        if not with_judge:
            data = Comparisons.from_arrays(
                prompt_id=data.prompt_id, first=data.first, second=data.second, human=data.human
            )
        (low, high), _ = ENTRY.build(data).fit_and_estimate().influence.intervals()
        widths.append(high - low)
    assert widths[0] < 0.85 * widths[1]


# ---- position and style -----------------------------------------------------------------------


def shown(share: float, bias: float, n: int = 4000, seed: int = 1) -> Comparisons:
    """Two equal policies; people prefer what is shown first, `a` in a given share of rows."""
    rng = np.random.default_rng(seed)
    a_first = rng.random(n) < share
    first_wins = rng.random(n) < 0.5 + bias
    return Comparisons.from_arrays(
        prompt_id=[f"p{i}" for i in range(n)],
        first=np.where(a_first, "a", "b").tolist(),
        second=np.where(a_first, "b", "a").tolist(),
        human=first_wins.astype(float),
    )


def test_position_bias_is_removed_by_a_term_where_orders_are_unbalanced() -> None:
    data = shown(0.8, 0.2)
    result = ENTRY.build(data).fit_and_estimate()
    naive = ENTRY.build(data, position=False).fit_and_estimate()
    a = result.policies.index("a")
    assert abs(result.estimates[a] - 0.5) < 0.03
    assert naive.estimates[a] > 0.58  # 0.5 + (0.8 - 0.2) * 0.2
    bias = result.diagnostics["pairwise"]["position"]["human"]
    assert bias["low"] < 0.2 < bias["high"]


def test_one_order_throughout_is_reported_as_confounded() -> None:
    result = ENTRY.build(shown(1.0, 0.1)).fit_and_estimate()
    assert [f.code for f in result.findings] == ["position-confounded"]
    assert result.estimates[0] > 0.58  # the bias stays in: nothing tells it from the versions


def test_a_fixed_order_of_three_versions_is_not_unmixed_by_the_model() -> None:
    rng = np.random.default_rng(9)
    pairs = np.array([("a", "b"), ("a", "c"), ("b", "c")])[rng.integers(0, 3, 900)]
    data = Comparisons.from_arrays(
        prompt_id=np.arange(900), first=pairs[:, 0].tolist(), second=pairs[:, 1].tolist(),
        human=(rng.random(900) < 0.7).astype(float),
    )  # fmt: skip
    result = ENTRY.build(data).fit_and_estimate()
    assert [f.code for f in result.findings] == ["position-confounded"]
    assert result.diagnostics["pairwise"]["position"] == {}


def test_the_judges_position_bias_is_measured_by_swapping() -> None:
    data = simulate(WORLDS["two policies, both orders"], np.random.default_rng(2))
    position = ENTRY.build(data).fit_and_estimate().diagnostics["pairwise"]["position"]["judge"]
    assert "both orders" in position["source"]
    assert 0.03 < position["low"] < position["high"] < 0.15
    assert 0.5 < position["same_verdict_in_both"] < 0.9


def test_controlling_style_removes_a_preference_for_length() -> None:
    rng = np.random.default_rng(4)
    n = 4000
    gap = rng.normal(0.3, 0.3, n)  # a is longer
    human = (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * gap))).astype(float)
    data = Comparisons.from_arrays(
        prompt_id=np.arange(n), first=["a"] * n, second=["b"] * n, human=human,
        covariates={"length": gap},
    )  # fmt: skip
    plain = ENTRY.build(data).fit_and_estimate()
    controlled = ENTRY.build(data, covariates=["length"])
    result = controlled.fit_and_estimate()
    assert plain.estimates[0] > 0.57
    assert abs(result.estimates[0] - 0.5) < 0.04
    assert result.metadata["quantity"] == "win rate at equal length"
    low, high = controlled.ranking_.style.intervals()[0]
    assert low < 1.5 < high


# ---- findings and refusals --------------------------------------------------------------------


def test_without_human_verdicts_every_value_is_refused() -> None:
    data = two_policies()
    judged = Comparisons.from_arrays(
        prompt_id=data.prompt_id, first=data.first, second=data.second, judge=data.judge
    )
    result = analyze_dataset(judged)
    assert set(result.refused()) == {"m0", "m1"}
    assert result.diagnostics["pairwise"]["ranking"] is None
    assert "0.5" not in result.summary()


def test_a_version_with_few_human_verdicts_has_no_number_anywhere() -> None:
    data = simulate(World((0.3, 0.0, -0.3), 300, 3, 120), np.random.default_rng(6))
    rare = np.array([n == "m2" for n in data.first.decode()])
    rare |= np.array([n == "m2" for n in data.second.decode()])
    human = np.where(rare & (np.cumsum(rare) > 20), np.nan, data.human)
    result = ENTRY.build(Comparisons.from_arrays(
        prompt_id=data.prompt_id, first=data.first, second=data.second, judge=data.judge,
        human=human,
    )).fit_and_estimate()  # fmt: skip
    assert set(result.refused()) == {"m2"}
    found = result.diagnostics["pairwise"]
    for pair in found["pairs"]:
        assert (pair["win_rate"] is None) == ("m2" in (pair["a"], pair["b"]))
    assert {row["policy"] for row in found["ranking"]} == {"m0", "m1"}


def test_many_verdicts_on_few_prompts_are_refused() -> None:
    n = 200
    data = Comparisons.from_arrays(
        prompt_id=np.arange(n) % 5, first=["a"] * n, second=["b"] * n, item=np.arange(n),
        human=np.arange(n) % 3 / 2.0,
    )  # fmt: skip
    assert set(ENTRY.build(data).fit_and_estimate().refused()) == {"a", "b"}


def test_versions_never_compared_have_no_ranking() -> None:
    n = 60
    data = Comparisons.from_arrays(
        prompt_id=[f"p{i}" for i in range(2 * n)], first=["a"] * n + ["c"] * n,
        second=["b"] * n + ["d"] * n, human=np.tile([1.0, 0.0, 1.0], 2 * n // 3),
    )  # fmt: skip
    result = ENTRY.build(data).fit_and_estimate()
    codes = {f.code for f in result.findings}
    assert {"different-opponents", "no-ranking"} <= codes
    assert "never compared" in result.diagnostics["pairwise"]["ranking_reason"]


def test_a_version_that_wins_everything_has_no_finite_strength() -> None:
    n = 40
    data = Comparisons.from_arrays(
        prompt_id=[f"p{i}" for i in range(3 * n)], first=["a"] * n + ["a"] * n + ["b"] * n,
        second=["b"] * n + ["c"] * n + ["c"] * n, human=[1.0] * (2 * n) + [1.0, 0.0] * (n // 2),
    )  # fmt: skip
    result = ENTRY.build(data).fit_and_estimate()
    assert result.diagnostics["pairwise"]["ranking"] is None
    low, high = result.ci()["a"]
    assert low < 1.0 == high  # identical verdicts are not certainty
    assert any(f.code == "identical-labels" for f in result.findings)


def test_labels_chosen_by_the_judges_verdict_are_reported() -> None:
    data = two_policies()
    chosen = np.isnan(data.judge) | (data.judge > 0.5)
    human = np.where(chosen & (np.arange(len(data)) % 2 == 0), 1.0, np.nan)
    result = ENTRY.build(Comparisons.from_arrays(
        prompt_id=data.prompt_id, first=data.first, second=data.second, judge=data.judge,
        human=human,
    )).fit_and_estimate()  # fmt: skip
    assert any(f.code == "labels-depend-on" for f in result.findings)
    assert all(f.severity is not Severity.INFO for f in result.findings if "labels" in f.code)


def test_comparisons_go_to_no_other_estimator() -> None:
    with pytest.raises(CJEError, match="compare two"):
        analyze_dataset(two_policies(), estimator="direct")
    with pytest.raises(CJEError, match="needs comparisons"):
        ENTRY.build(None)


# ---- coverage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["two policies, 80% in one order", "four policies, two pairs per prompt"]
)
def test_intervals_cover_with_a_hundred_human_verdicts(name: str) -> None:
    found = coverage_study(WORLDS[name], 100, seed=77)
    for value in (found.win_rate, found.strength, found.probability):
        assert 0.90 <= value <= 0.995  # 2.3 standard errors of 100 repetitions


def test_the_audit_alone_finds_what_the_result_carries() -> None:
    data = shown(1.0, 0.1, n=60)
    details, findings = ENTRY.build(data).audit()
    result = ENTRY.build(data).fit_and_estimate()
    assert {f.code for f in findings} == {f.code for f in result.findings}
    assert details["human_verdicts"] == 60


def test_a_pair_never_compared_has_no_share_of_wins() -> None:
    estimator = ENTRY.build(shown(0.5, 0.0, n=60))
    assert 0.0 < estimator.pair_estimate("a", "b").values[0] < 1.0
    with pytest.raises(CJEError, match="no such version"):
        estimator.pair_estimate("a", "z")
