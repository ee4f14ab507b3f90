"""Promises of `by=`: adjusted wherever it is shown, nothing is omitted without a finding."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cje.simulate as simulate
from cje import analyze_dataset
from cje.cli.main import main
from cje.data import Dataset
from cje.errors import CJEError
from cje.estimators import EstimationResult


def _logged(rare: int = 3) -> tuple[Dataset, Dataset]:
    """Logged rows and fresh draws of two targets; a level of a handful of rows."""
    sim = simulate.logged_with_logprobs(500, 200, seed=1, targets={"t": 0.7, "u": 0.8})

    def tag(data: Dataset) -> Dataset:
        codes = np.array([int(name.lstrip("p")) for name in data.prompt_id.decode()])
        return data.with_columns(
            domain=["rare" if c < rare else "xy"[c % 2] for c in codes.tolist()]
        )

    assert sim.fresh is not None
    return tag(sim.dataset), tag(sim.fresh)


@pytest.fixture(scope="module")
def off_policy() -> EstimationResult:
    logged, fresh = _logged()
    return analyze_dataset(fresh, logged_data=logged, estimator="dr-cpo", by="domain")


@pytest.fixture(scope="module")
def direct() -> EstimationResult:
    data = simulate.policies_on_shared_prompts(400, 3, 120, seed=5).dataset
    groups = [f"d{code % 3}" for code in data.prompt_id.codes]
    return analyze_dataset(data.with_columns(domain=groups), by="domain", margin=0.05)


# ---- nothing vanishes ------------------------------------------------------------------------


def test_a_level_too_small_to_estimate_is_named_among_the_findings(
    off_policy: EstimationResult,
) -> None:
    assert "domain=rare" in off_policy.summary()
    codes = {(f.code, f.subject) for f in off_policy.all_findings()}
    assert ("subgroup-left-out", "domain=rare") in codes
    saved = json.loads(off_policy.to_json(influence=False))
    subjects = [f["subject"] for f in saved["subgroups"]["domain"]["findings"]]
    assert "domain=rare" in subjects


def test_the_command_prints_the_findings_of_subgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = simulate.policies_on_shared_prompts(300, 2, 100, seed=1).dataset
    frame = pl.DataFrame(
        {
            "policy": data.policy.decode(),
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
            "domain": ["rare" if code < 3 else "most" for code in data.prompt_id.codes],
        }
    )
    frame.write_csv(tmp_path / "rows.csv")
    monkeypatch.setattr(sys, "argv", ["cje", "analyze", str(tmp_path / "rows.csv"), "--by=domain"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert "base, domain=rare: " in capsys.readouterr().out


def test_a_level_only_one_source_or_policy_has_is_reported() -> None:
    logged, fresh = _logged(rare=0)
    few = fresh.select(np.array([name == "y" for name in fresh.groups["domain"].decode()]))
    part = analyze_dataset(few, logged_data=logged, estimator="dr-cpo", by="domain")
    messages = {f.subject: f.message for f in part.all_findings() if f.code == "subgroup-left-out"}
    assert "in the fresh draws" in messages["domain=x"]
    data = simulate.policies_on_shared_prompts(300, 2, 100, seed=1).dataset
    data = data.with_columns(domain=["a" if c % 2 else "b" for c in data.prompt_id.codes])
    gone = (data.policy.codes == 1) & data.groups["domain"].mask("b")
    part = analyze_dataset(data.select(~gone), by="domain")
    messages = {f.subject: f.message for f in part.all_findings() if f.code == "subgroup-left-out"}
    assert "of policy candidate_1" in messages["domain=b"]
    assert len(part.subgroups["domain"].policies) == 3


# ---- adjusted everywhere -----------------------------------------------------------------------


def test_every_export_of_a_subgroup_has_the_joint_limits_and_the_single_ones(
    direct: EstimationResult,
) -> None:
    part = direct.subgroups["domain"]
    joint = [tuple(i) for i in part.influence.simultaneous_intervals(0.95)]
    single = [tuple(i) for i in part.influence.intervals(0.95)]
    assert part.ci() == joint
    assert part.ci(joint=False) == single
    frame = direct.to_frame().filter(pl.col("subgroup").is_not_null())
    assert frame.select("low", "high").rows() == joint
    assert frame.select("single_low", "single_high").rows() == single
    table = json.loads(direct.to_json(influence=False))["subgroups"]["domain"]["table"]
    assert [(row["low"], row["high"]) for row in table] == joint
    assert f"{joint[0][0]:.3f} to {joint[0][1]:.3f}" in direct.summary()
    whole = direct.to_frame().filter(pl.col("subgroup").is_null())
    assert whole.select("low", "high").rows() == direct.ci()
    assert whole.select("joint_low", "joint_high").rows() == direct.ci(joint=True)


def test_differences_are_within_levels_and_adjusted_for_all_of_them(
    direct: EstimationResult,
) -> None:
    part = direct.subgroups["domain"]
    pairs = part.differences()
    assert len(pairs) == 3 * 3
    assert {pair["group"] for pair in pairs} == {"d0", "d1", "d2"}
    for pair, p in part.compare_all():
        own = part.compare_policies(pair.a, pair.b)
        assert p >= own.p_value
        assert pair.adjusted_interval.width > own.interval.width
        assert own.adjusted_interval is None
        assert pair.margin == 0.05
        zero_out = pair.adjusted_interval.low > 0 or pair.adjusted_interval.high < 0
        assert not zero_out or p < 0.05
    assert "paired differences within each level" in direct.summary()
    assert "candidate_1 - base | d1" in direct.summary()
    assert "differences within each level" in direct.to_html()


def test_rows_and_labels_of_off_policy_subgroups_are_counted(off_policy: EstimationResult) -> None:
    frame = off_policy.to_frame().filter(pl.col("subgroup") == "domain=x")
    logged, _ = _logged()
    at = logged.groups["domain"].mask("x")
    assert frame["n_rows"].to_list() == [int(at.sum())] * 2
    assert frame["n_labels"].to_list() == [int((at & logged.is_labelled).sum())] * 2


# ---- names are data ----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["direct", "dr-cpo"])
def test_a_level_with_a_bar_in_its_name_stays_whole(estimator: str) -> None:
    logged, fresh = _logged(rare=0)

    def barred(data: Dataset) -> Dataset:
        names = ["b | c" if n == "x" else "y" for n in data.groups["domain"].decode()]
        return data.with_columns(domain=names)

    result = analyze_dataset(
        barred(fresh), logged_data=barred(logged), estimator=estimator, by="domain"
    )
    frame = result.to_frame().filter(pl.col("column") == "domain")
    assert set(frame["policy"]) == {"t", "u"}
    assert set(frame["group"]) == {"b | c", "y"}
    assert set(frame["subgroup"]) == {"domain=b | c", "domain=y"}
    back = EstimationResult.from_json(result.to_json())
    assert back.to_frame().equals(result.to_frame())


def test_two_cells_that_spell_one_name_are_an_error() -> None:
    data = simulate.policies_on_shared_prompts(60, 2, 30, seed=1).dataset
    policy = ["a | b" if name == "base" else "a" for name in data.policy.decode()]
    level = ["c" if name == "a | b" else "b | c" for name in policy]
    with pytest.raises(CJEError, match="two subgroups have the same name"):
        analyze_dataset(data.with_columns(policy=policy, domain=level), by="domain")


def test_a_column_with_thousands_of_levels_is_refused_before_anything_is_computed() -> None:
    rows = [
        {
            "prompt_id": f"p{i}",
            "policy": "a",
            "judge_score": 0.5,
            "oracle_label": i % 2,
            "user": str(i),
        }
        for i in range(300)
    ]
    with pytest.raises(CJEError, match="more than 200 levels"):
        analyze_dataset(fresh_draws_data=rows, by=["user"])
