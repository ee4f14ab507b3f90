"""Promises of `gate` and `cje gate`: the decision, its exit code, and what would decide."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import cje.simulate as simulate
from cje import analyze_dataset
from cje.analysis.gate import gate
from cje.analysis.gate_formats import to_junit, to_markdown
from cje.analysis.label_plan import Goal, plan_study
from cje.analysis.pilot import measure_pilot
from cje.cli.main import main
from cje.errors import CJEError
from cje.estimators import EstimationResult
from cje.inference import Decision, Finding, GateRule, InfluenceEstimate, Severity
from studies.gate import WORLDS, World, gap_of_power, judge_quality, run_gates


def _made(difference: float, se: float, **fields: Any) -> EstimationResult:
    """Two independent values whose difference has the standard error `se`."""
    n = 2000
    noise = np.random.default_rng(0).normal(size=(n, 2))
    noise = np.linalg.qr(noise - noise.mean(axis=0))[0]
    values = np.array([0.5, 0.5 + difference])
    estimate = InfluenceEstimate.from_influence(("prod", "cand"), values, se / np.sqrt(2.0) * noise)
    return EstimationResult("direct", estimate, **fields)


@pytest.mark.parametrize(
    ("difference", "rule", "decision", "code"),
    [
        (0.41, GateRule(), Decision.PASS, 0),
        (-0.41, GateRule(), Decision.FAIL, 1),
        (0.01, GateRule(), Decision.UNDECIDED, 2),
        (-0.05, GateRule(margin=0.3), Decision.PASS, 0),
        (-0.41, GateRule(margin=0.1), Decision.FAIL, 1),
        (-0.2, GateRule(margin=0.2), Decision.UNDECIDED, 2),
        (0.41, GateRule(min_gain=0.8), Decision.FAIL, 1),
    ],
)
def test_the_interval_against_the_threshold_decides(
    difference: float, rule: GateRule, decision: Decision, code: int
) -> None:
    found = gate(_made(difference, 0.1), "cand", rule=rule)
    assert (found.decision, found.exit_code) == (decision, code)
    low, high = _made(difference, 0.1).compare_policies("cand", "prod").interval
    assert (found.rows[0].low, found.rows[0].high) == (low, high)


def test_a_finding_that_does_not_bear_on_the_decision_changes_nothing() -> None:
    warning = Finding("low-r2", "the judge explains little", Severity.WARNING, "label more")
    info = Finding("note", "something", Severity.INFO, "nothing")
    found = gate(_made(0.41, 0.1, findings=(warning, info)), "cand")
    assert found.exit_code == 0


@pytest.mark.parametrize("subject", ["cand", "prod", None])
def test_a_refused_value_leaves_the_gate_undecided_with_the_step_to_take(subject: str) -> None:
    refusal = Finding("gate", "too few labels", Severity.REFUSE, "label 50 responses", subject)
    found = gate(_made(0.41, 0.1, findings=(refusal,)), "cand")
    assert found.decision is Decision.UNDECIDED
    assert found.rows[0].difference is None
    text = " ".join(found.sentences())
    assert "too few labels" in text
    assert "label 50 responses" in text


def test_an_unknown_version_or_the_baseline_itself_is_an_error() -> None:
    with pytest.raises(CJEError, match="not in the data"):
        gate(_made(0.1, 0.1), "nobody")
    with pytest.raises(CJEError, match="with itself"):
        gate(_made(0.1, 0.1), "prod")


def test_more_labels_are_those_of_the_plan() -> None:
    data = simulate.policies_on_shared_prompts(2000, 2, 60, seed=3).dataset
    result = analyze_dataset(data)
    pair = result.compare_policies("candidate_1", "base")
    rule = GateRule(min_gain=pair.difference - 0.6 * pair.interval.width)
    if rule.decide(*pair.interval) is not Decision.PASS:
        raise AssertionError("chosen to pass")
    rule = GateRule(min_gain=pair.difference - 0.3 * pair.interval.width)
    found = gate(result, "candidate_1", rule=rule)
    assert found.decision is Decision.UNDECIDED
    quality = measure_pilot(data, n_draws=0).quality
    goal = Goal("power", 0.3 * pair.interval.width)
    design = plan_study(quality, goal, max_prompts=2000)
    said = int(re.search(r"about ([\d,]+) more labels", found.needed)[1].replace(",", ""))  # type: ignore[index]
    assert said == pytest.approx(design.total_labels - data.n_labelled, rel=0.11)


def _grouped() -> EstimationResult:
    """Better by 0.5 in one level, worse by 0.5 in the other, of 1,000 prompts each."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(600):
        for policy in ("prod", "cand"):
            level = "good" if i % 4 else "bad"
            gain = 0.0 if policy == "prod" else (0.8 if level == "good" else -1.0)
            label = 3.0 + gain + rng.normal(0, 0.5)
            rows.append(
                {"prompt_id": i, "policy": policy, "judge_score": label + rng.normal(0, 0.3),
                 "oracle_label": label if rng.random() < 0.4 else None, "kind": level}
            )  # fmt: skip
    return analyze_dataset(rows, by="kind", judge_scale="-5-10", oracle_scale="-5-10")


def test_subgroups_are_reported_and_change_the_code_only_with_each() -> None:
    result = _grouped()
    found = gate(result, "cand", "prod")
    assert found.exit_code == 0
    assert {row.group: row.decision for row in found.rows[1:]} == {
        "kind=good": Decision.PASS,
        "kind=bad": Decision.FAIL,
    }
    each = gate(result, "cand", "prod", each=True)
    assert each.exit_code == 1
    assert "where kind=bad" in each.sentences()[0]


def test_intervals_of_levels_are_adjusted_for_their_number() -> None:
    result = _grouped()
    part = result.subgroups["kind"]
    row = next(r for r in gate(result, "cand", "prod").rows if r.group == "kind=good")
    gap = part.influence.difference("cand | good", "prod | good")
    assert (row.low, row.high) == tuple(gap.intervals(1.0 - 0.05 / 2)[0])


def test_the_exit_code_of_undecided_is_the_one_asked_for() -> None:
    result = _made(0.01, 0.1)
    codes = [gate(result, "cand", undecided=how).exit_code for how in ("undecided", "pass", "fail")]  # type: ignore[arg-type]
    assert codes == [2, 0, 1]


def test_markdown_and_junit_show_names_as_text() -> None:
    result = _made(-0.41, 0.1)
    name = "<b>a|b</b>\n# @all"
    odd = EstimationResult("direct", result.influence.renamed(["prod", name]))
    found = gate(odd, name)
    text = to_markdown(found)
    for mark in ("<b>", "a|b", "\n# ", "@all"):
        assert mark not in text
    assert "| all | -0.41 | -0.61 to -0.21 | FAIL |" in text
    suite = ElementTree.fromstring(to_junit(found))
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure") is not None


# ---- the command --------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    data = simulate.policies_on_shared_prompts(300, 2, 60, seed=1).dataset
    frame = pl.DataFrame(
        {
            "policy": data.policy.decode(),
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
            "domain": ["x" if code % 2 else "y" for code in data.prompt_id.codes],
        }
    )
    frame.write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["cje", "gate", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--baseline", "base"], 0),
        (["--baseline", "candidate_1"], 1),
        (["--baseline", "base", "--min-gain", "0.12"], 2),
        (["--baseline", "base", "--min-gain", "0.12", "--undecided", "fail"], 1),
        (["--baseline", "base", "--min-gain", "0.12", "--undecided", "pass"], 0),
        (["--baseline", "nobody"], 3),
        (["--baseline", "base", "--margin", "-1"], 3),
        (["--baseline", "base", "--margin", "wide"], 3),
        (["--baseline", "base", "--margin", "1", "--min-gain", "1"], 3),
        (["--baseline", "base", "--each"], 3),
        ([], 3),
    ],
)
def test_the_exit_code_is_the_decision(
    rows: Path, options: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(monkeypatch, str(rows), *options) == code


def test_a_candidate_that_is_worse_fails_the_build_without_any_finding(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, str(rows), "--baseline", "candidate_1", "--candidate", "base") == 1
    assert capsys.readouterr().out.startswith("FAIL: base is worse than candidate_1.")


def test_no_labels_leave_the_gate_undecided(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(rows).drop("oracle_label").write_csv(rows)
    assert _run(monkeypatch, str(rows), "--baseline", "base") == 2
    assert "label a random slice" in capsys.readouterr().out


def test_every_output_shows_the_same_decision(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("g.md", "g.xml", "g.html")]
    code = _run(
        monkeypatch, str(rows), "--baseline", "base", "--by", "domain", "--json",
        "--markdown", str(files[0]), "--junit", str(files[1]), "--report", str(files[2]),
    )  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert (found["decision"], found["exit_code"], code) == ("PASS", 0, 0)
    assert [row["group"] for row in found["rows"]] == ["", "domain=y", "domain=x"]
    assert files[0].read_text().startswith("### cje gate: PASS")
    assert ElementTree.parse(files[1]).getroot().get("failures") == "0"
    assert "candidate_1 better than base" in files[2].read_text().replace("\u2068", "").replace(
        "\u2069", ""
    )


def test_a_gate_errs_as_rarely_and_passes_as_often_as_promised() -> None:
    """300 repetitions, 0.1% binomial bounds; 4,000 are in ``python -m benchmarks.gate``."""
    world = WORLDS["five scores"]
    runs = run_gates(world, 100, 300, 300, seed=50_000)
    passed, failed = runs.shares(0.0)
    assert max(passed, failed) <= 0.06
    gap = gap_of_power(judge_quality(world), 100, 300, 0.8)
    assert runs.shares(gap)[0] == pytest.approx(0.8, abs=0.03 + 0.08)


def test_the_study_decides_as_the_gate_does() -> None:
    made = simulate.policies_on_shared_prompts(300, 2, 50, seed=50_000)
    runs = run_gates(World(), 100, 300, 1, seed=50_000)
    result = analyze_dataset(made.dataset)
    for gap in (-0.3, 0.0, 0.3):
        threshold = runs.truth - gap
        rule = GateRule(min_gain=threshold) if threshold > 0 else GateRule(margin=-threshold)
        decision = gate(result, "candidate_1", "base", rule=rule).decision
        assert runs.shares(gap) == (decision is Decision.PASS, decision is Decision.FAIL)


def test_the_report_of_a_gate_opens_with_its_decision_and_draws_the_margin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = simulate.policies_on_shared_prompts(300, 2, 100, seed=3).dataset
    rows = {
        "prompt_id": made.prompt_id.decode(), "policy": made.policy.decode(),
        "judge_score": made.judge_score, "oracle_label": made.oracle_label,
    }  # fmt: skip
    pl.DataFrame(rows).fill_nan(None).write_csv(tmp_path / "rows.csv")
    page = tmp_path / "gate.html"
    words = ["gate", tmp_path / "rows.csv", "--baseline", "base", "--margin", "0.02",
             "--report", page]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["cje", *map(str, words)])
    with pytest.raises(SystemExit):
        main()
    text = page.read_text()
    assert "<h1><bdi>Gate: PASS" in text
    assert "margin: at most 0.02 worse or better" in text
    assert text.index("PASS: candidate_1 is at most 0.02 worse") < text.index("What you cannot say")


def test_a_gate_with_anytime_intervals_decides_by_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a fixed interval passes after few labels, an anytime interval leaves open."""
    folder = Path(__file__).parents[2] / "examples" / "may_i_stop_now"
    words = ["--baseline", "prod", "--candidate", "cand"]
    assert _run(monkeypatch, str(folder / "after_80.csv"), *words) == 0
    assert _run(monkeypatch, str(folder / "after_80.csv"), *words, "--anytime") == 2
    assert "Keep labelling" in capsys.readouterr().out
    capsys.readouterr()
    late = str(folder / "after_240.csv")
    assert _run(monkeypatch, late, *words, "--anytime", "--json") == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    result = analyze_dataset(folder / "after_240.csv", baseline="prod", anytime=True)
    looks = {look["name"]: look for look in result.metadata["anytime"]["looks"]}
    assert row["low"] == pytest.approx(looks["cand - prod"]["low"], abs=1e-12)
    assert row["high"] == pytest.approx(looks["cand - prod"]["high"], abs=1e-12)


def test_before_the_first_look_an_anytime_gate_is_undecided_and_says_why() -> None:
    made = {"labels": 12, "tuned_at": 500, "method": "mixture", "level": 0.95, "looks": []}
    found = gate(_made(0.41, 0.1, metadata={"anytime": made}), "cand")
    assert found.exit_code == 2
    assert "12 labels are too few for a first anytime look" in " ".join(found.sentences())
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_anytime_gate_refuses_subgroups() -> None:
    data = simulate.policies_on_shared_prompts(200, 2, 60, seed=1).dataset
    topics = np.where(np.arange(len(data)) % 2 == 0, "a", "b")
    rows = [
        {"prompt_id": p, "policy": v, "judge_score": s, "oracle_label": y, "topic": t}
        for p, v, s, y, t in zip(
            data.prompt_id.decode(), data.policy.decode(), data.judge_score.tolist(),
            [None if np.isnan(y) else y for y in data.oracle_label.tolist()], topics, strict=True,
        )
    ]  # fmt: skip
    result = analyze_dataset(rows, by="topic", anytime=True, baseline="base")
    with pytest.raises(CJEError, match="subgroups have no anytime intervals"):
        gate(result, "candidate_1")
