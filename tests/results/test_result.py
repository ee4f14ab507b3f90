"""Promises of `EstimationResult`: what it answers, saves, and refuses to make up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cje.simulate as simulate
from cje import analyze_dataset
from cje.data import PrecomputedSampler
from cje.errors import CJEError
from cje.estimators import DRCPOEstimator, EstimationResult
from cje.inference import Finding, InfluenceEstimate, Severity


def _made(values: list[float], se: float, **metadata: Any) -> EstimationResult:
    """Independent policies of one standard error, known over many clusters."""
    k, n = len(values), 400
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(n, k))
    noise = np.linalg.qr(noise - noise.mean(axis=0))[0]  # orthogonal: no skewness to speak of
    psi = se * noise * np.sqrt((n - 1) / n)
    names = tuple(f"p{i}" for i in range(k))
    estimate = InfluenceEstimate.from_influence(
        names, np.array(values), psi, clusters=[f"c{i}" for i in range(n)]
    )
    return EstimationResult("direct", estimate, metadata=metadata)


@pytest.fixture(scope="module")
def off_policy() -> EstimationResult:
    sim = simulate.logged_with_logprobs(600, 120, targets={"a": 0.6, "b": 0.8}, seed=1)
    return DRCPOEstimator(PrecomputedSampler(sim.dataset), sim.fresh).fit_and_estimate()


@pytest.fixture(scope="module")
def grouped() -> EstimationResult:
    data = simulate.policies_on_shared_prompts(300, 3, 100, seed=2).dataset
    groups = [f"d{code % 2}" for code in data.prompt_id.codes]
    return analyze_dataset(data.with_columns(domain=groups), by="domain", margin=0.02)


# ---- verdicts ----------------------------------------------------------------------------------


def test_the_verdict_of_a_table_follows_its_adjusted_p_value() -> None:
    result = _made([0.5, 0.5, 0.5, 0.529], 0.01)
    apart = [(c, p) for c, p in result.compare_all() if 0.0 not in c.interval]
    assert apart, "the pair alone would differ significantly"
    for c, p in apart:
        assert p > 0.05
        assert c.verdict == "inconclusive"
        assert result.compare_policies(c.a, c.b).verdict == "better"
    for c, p in _made([0.5, 0.5, 0.5, 0.7], 0.01).compare_all():
        assert (c.verdict == "inconclusive") == (p >= 0.05)


def test_claims_of_non_inferiority_are_adjusted_for_their_number_too() -> None:
    result = _made([0.5, 0.5, 0.5, 0.5], 0.01, margin=0.031)
    for c, _ in result.compare_all():
        assert c.p_non_inferior < 0.025 <= c.p_non_inferior_adjusted
        assert c.verdict == "inconclusive"
        assert result.compare_policies(c.a, c.b).verdict == "non-inferior"
    ((only, _),) = _made([0.5, 0.5], 0.01, margin=0.031).compare_all()
    assert only.p_non_inferior_adjusted == only.p_non_inferior  # one pair: nothing to adjust
    assert only.p_non_inferior_back_adjusted == only.p_non_inferior_back


def test_a_reversed_comparison_is_the_comparison_the_other_way(grouped: EstimationResult) -> None:
    up = grouped.compare_policies("candidate_1", "base")
    down = grouped.compare_policies("base", "candidate_1")
    back = up.reversed()
    assert (back.a, back.b, back.verdict) == (down.a, down.b, down.verdict)
    assert tuple(back.interval) == pytest.approx(tuple(down.interval), abs=1e-12)
    assert back.p_non_inferior == pytest.approx(down.p_non_inferior, rel=1e-9, abs=1e-300)


def test_the_margin_and_its_p_values_are_printed(grouped: EstimationResult) -> None:
    text = grouped.summary()
    assert "margin 0.02" in text
    assert "p 1st non-inferior" in text
    assert "margin of 0.02" in str(grouped.compare_policies("candidate_1", "base"))


@pytest.mark.parametrize("margin", [-0.1, 0.0, float("nan"), float("inf"), "a", True])
def test_a_margin_is_a_positive_number(grouped: EstimationResult, margin: Any) -> None:
    with pytest.raises(CJEError, match="margin must be positive"):
        grouped.compare_policies("candidate_1", "base", margin=margin)


# ---- the best, and what is said of it ----------------------------------------------------------


def test_the_best_policy_is_named_with_its_warnings() -> None:
    warned = Finding("low-ess", "effective sample size 21.5%", Severity.WARNING, "draw", "p1")
    other = Finding("low-ess", "another", Severity.WARNING, "draw", "p0")
    best = _made([0.5, 0.6], 0.01).with_(findings=[warned, other]).best_policy()
    assert best.policy == "p1"
    assert best.warnings == ("effective sample size 21.5%",)
    assert "effective sample size 21.5%" in best.note
    assert "another" not in best.note


def test_a_borrowed_policy_is_reported_with_its_number_of_labels() -> None:
    result = _made([0.5, 0.6], 0.01, borrowed=["p0", "p1"], n_labels={"p0": 5, "p1": 0})
    caveats = " ".join(result.compare_policies("p0", "p1").caveats)
    assert "p0 rests on borrowed calibration (5 labels of its own)" in caveats
    assert "p1 rests on borrowed calibration (no labels of its own)" in caveats


@pytest.mark.parametrize("level", [0, 0.0, 1, 95, -0.1])
def test_a_level_that_is_not_a_probability_is_an_error(level: float) -> None:
    with pytest.raises(CJEError, match="level"):
        _made([0.5], 0.01).ci(level)


# ---- files -------------------------------------------------------------------------------------


def test_json_has_differences_best_policy_and_joint_intervals(grouped: EstimationResult) -> None:
    saved = json.loads(grouped.to_json(influence=False))
    assert saved["best"]["policy"] == grouped.best_policy().policy
    first = saved["differences"][0]
    assert first["verdict"] == grouped.compare_all()[0][0].verdict
    assert first["p_adjusted"] == grouped.compare_all()[0][1]
    assert first["p_non_inferior"] is not None
    assert first["margin"] == 0.02
    assert [(r["joint_low"], r["joint_high"]) for r in saved["table"]] == grouped.ci(joint=True)
    assert len(saved["subgroups"]["domain"]["differences"]) == 6


@pytest.mark.parametrize("which", ["off_policy", "grouped"])
def test_a_result_saved_without_its_influence_gives_the_numbers_it_was_saved_with(
    which: str, request: pytest.FixtureRequest
) -> None:
    result: EstimationResult = request.getfixturevalue(which)
    small = EstimationResult.from_json(result.to_json(influence=False))
    assert small.ci() == result.ci()
    assert small.ci(joint=True) == result.ci(joint=True)
    assert small.summary() == result.summary()
    assert small.to_frame().equals(result.to_frame())
    np.testing.assert_array_equal(small.standard_errors, result.standard_errors)
    a, b = result.policies[:2]
    for pair in ((a, b), (b, a)):
        mine, theirs = small.compare_policies(*pair), result.compare_policies(*pair)
        assert tuple(mine.interval) == pytest.approx(tuple(theirs.interval), abs=1e-12)
        assert mine.p_value == theirs.p_value
        assert mine.verdict == theirs.verdict
    assert small.best_policy() == result.best_policy()
    assert small.to_json() == result.to_json(influence=False)
    assert len(small.to_html()) > 1000


def test_it_refuses_what_it_was_not_saved_with(grouped: EstimationResult) -> None:
    small = EstimationResult.from_json(grouped.to_json(influence=False))
    refused: list[Callable[[], object]] = [
        lambda: small.ci(0.9),
        lambda: small.compare_policies("candidate_1", "base", margin=0.5),
        lambda: small.with_(
            findings=[Finding("x", "bad", Severity.REFUSE, "stop", small.best_policy().policy)]
        ).best_policy(),
    ]
    for question in refused:
        with pytest.raises(CJEError, match="saved without its influence matrix"):
            question()
    with pytest.raises(CJEError, match="no such quantity"):
        small.compare_policies("candidate_1", "nobody")
    with pytest.raises(CJEError, match="with itself"):
        small.compare_policies("base", "base")


def _packed(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["values"]["components"][0]["influence"]
    return found


_DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "base85": lambda c: _packed(c).update(zlib_f8="~~~é"),
    "zlib": lambda c: _packed(c).update(zlib_f8="00000"),
    "shape": lambda c: _packed(c).update(shape=[3, 3]),
    "bounds": lambda c: c["values"].update(bounds=[[1]]),
    "bounds of text": lambda c: c["values"].update(bounds=[["low", "high"]] * 2),
    "bounds swapped": lambda c: c["values"].update(bounds=[[1.0, 0.0]] * 2),
    "values": lambda c: c["values"].update(values=["x", "y"]),
    "names": lambda c: c["values"].update(names=["x"]),
    "names are a number": lambda c: c["values"].update(names=3),
    "findings": lambda c: c.update(findings=[{"severity": "loud"}]),
    "curves": lambda c: c.update(curves=[1]),
    "level": lambda c: c["metadata"].update(level="high"),
    "counts": lambda c: c["metadata"].update(n_rows=3),
    "cells": lambda c: c["metadata"].update(cells=[{"policy": "a"}]),
    "degrees of freedom": lambda c: c["values"]["components"][0].update(df="many"),
    "component": lambda c: c["values"].update(components=[{"kind": "sampling"}]),
    "counts of text": lambda c: c["metadata"].update(n_rows={"base": "many"}),
    "label of a curve": lambda c: next(iter(c["curves"].values())).update(x_label=[1]),
    "diagnostics of the labels": lambda c: c["diagnostics"].update(labelling=True),
    "diagnostics of the fit": lambda c: c["diagnostics"].update(calibration_fit={"r2": [1]}),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_file_is_reported_as_damaged(damage: str, off_policy: EstimationResult) -> None:
    content = json.loads(off_policy.to_json())
    _DAMAGES[damage](content)
    with pytest.raises(CJEError, match="damaged"):
        EstimationResult.from_json(json.dumps(content))


def test_a_damaged_table_of_a_small_file_is_reported_as_damaged(
    off_policy: EstimationResult,
) -> None:
    for damage in ({"table": []}, {"differences": [{}]}, {"best": 3}):
        content = json.loads(off_policy.to_json(influence=False)) | damage
        with pytest.raises(CJEError, match="damaged"):
            EstimationResult.from_json(json.dumps(content))


def test_a_binary_file_and_a_path_that_cannot_be_written_are_errors(
    tmp_path: Path, off_policy: EstimationResult
) -> None:
    (tmp_path / "bin").write_bytes(bytes(range(256)))
    with pytest.raises(CJEError, match="not UTF-8"):
        EstimationResult.from_json(tmp_path / "bin")
    with pytest.raises(CJEError, match="cannot write the result"):
        off_policy.to_json(tmp_path / "nowhere" / "x.json")


def test_a_file_of_format_version_2_gives_its_standard_errors_and_nearly_its_intervals() -> None:
    path = Path(__file__).parents[1] / "fixtures" / "results" / "version_2.json"
    saved = json.loads(path.read_text())
    result = EstimationResult.from_json(path)
    assert saved["version"] == 2
    for row, (low, high), se in zip(
        saved["table"], result.ci(), result.robust_standard_errors, strict=True
    ):
        # Intervals are computed anew; since then their skewness is weighed by how well it is known.
        assert low == pytest.approx(row["single_low"], abs=0.15 * se)
        assert high == pytest.approx(row["single_high"], abs=0.15 * se)
        assert se == pytest.approx(row["robust_standard_error"], abs=1e-12)
    assert json.loads(result.to_json())["version"] == 3


def test_a_file_of_an_unknown_format_version_is_refused_with_the_versions_it_reads() -> None:
    path = Path(__file__).parents[1] / "fixtures" / "results" / "version_2.json"
    content = json.loads(path.read_text()) | {"version": 1}
    with pytest.raises(CJEError, match="reads versions 2 and 3"):
        EstimationResult.from_json(json.dumps(content))


def test_many_policies_are_compared_with_the_baseline_and_the_best_only() -> None:
    """Pairs grow with the number of policies, not its square; p-values count every pair."""
    rng = np.random.default_rng(0)
    values = np.linspace(0.0, 1.0, 40)
    influence = rng.normal(size=(200, 40)) / 200
    names = [f"p{k}" for k in range(40)]
    found = EstimationResult("direct", InfluenceEstimate.from_influence(names, values, influence))
    pairs = found.compare_all()
    assert len(pairs) == 39 + 38
    assert {pair.b for pair, _ in pairs} == {"p0", "p39"}
    smallest = min((pair for pair, _ in pairs), key=lambda pair: pair.p_value)
    assert smallest.p_adjusted == pytest.approx(min(smallest.p_value * 40 * 39 / 2, 1.0))
    assert "any other" in found.summary()
