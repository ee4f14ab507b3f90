"""The registry of findings: one rule per code, and the same finding from every entrance."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cje.simulate as simulate
from cje import analyze_dataset
from cje.analysis.doctor import examine
from cje.cli.main import app
from cje.data.dataset import Dataset
from cje.estimators.registry import find_estimator
from cje.findings import RULES, Finding, Severity, describe
from cje.hints import command_line_hints

SOURCE = Path(__file__).parents[1] / "src" / "cje"
ROOT = SOURCE.parents[1]


def test_no_package_makes_a_finding_without_its_rule() -> None:
    made = []
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "findings":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Finding":
                made.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert made == []


def test_every_rule_is_used_by_some_package() -> None:
    modules = [p for p in SOURCE.rglob("*.py") if p.parent.name != "findings"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    names = {code: code.upper().replace("-", "_") for code in RULES}
    assert [code for code, name in names.items() if name not in text] == []


def test_a_rule_writes_its_finding_and_refuses_a_severity_it_does_not_have() -> None:
    found = RULES["low-ess"].finding("b", ess=8.0, n=1000, ess_fraction=0.008)
    assert str(found).startswith("[refuse] b: effective sample size 8 of 1000 logged rows (0.8%).")
    assert Finding.from_dict(found.to_dict()) == found
    with pytest.raises(AssertionError):
        RULES["low-ess"].finding("b", severity=Severity.INFO, ess=8.0, n=1000, ess_fraction=0.008)


def test_the_page_of_findings_is_the_registry() -> None:
    path = ROOT / "scripts" / "findings_page.py"
    spec = importlib.util.spec_from_file_location("findings_page", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    kept = script.PAGE.read_text(encoding="utf-8")
    assert kept == script.page(), "run `python scripts/findings_page.py`"


def test_the_command_prints_all_rules_or_one() -> None:
    runner = CliRunner()
    with command_line_hints():
        assert runner.invoke(app, ["findings"]).output == describe()
    one = runner.invoke(app, ["findings", "low-ess"]).output
    assert "refuse fraction 0.1" in one
    assert "heavy-tail" not in one


# ---- the same finding from every entrance ---------------------------------------------------


def _skewed(data: Dataset) -> Dataset:
    """Labels on the rows with the highest scores only."""
    high = data.judge_score > np.quantile(data.judge_score, 0.8)
    kept = np.where(high, np.nan_to_num(data.oracle_label, nan=0.5), np.nan)
    return data.with_columns(oracle_label=kept, label_propensity=None)


def _unlabelled(data: Dataset, policy: str) -> Dataset:
    away = data.policy.mask(policy)
    return data.with_columns(oracle_label=np.where(away, np.nan, data.oracle_label))


POLICIES = simulate.policies_on_shared_prompts(400, 3, 80, seed=1).dataset
FRESH = {
    "shared prompts": POLICIES,
    "monotone": simulate.monotone_judge(600, 150, seed=2).dataset,
    "mar": simulate.monotone_judge(600, 150, seed=3, labelling="mar").dataset,
    "non-monotone": simulate.non_monotone_judge(600, 150, seed=4).dataset,
    "length-biased": simulate.length_biased_judge(600, 150, seed=5, bias=0.4).dataset,
    "mild dip": simulate.mild_dip_judge(600, 150, seed=6).dataset,
    "heteroscedastic": simulate.heteroscedastic_judge(600, 150, seed=7).dataset,
    "skewed outcomes": simulate.skewed_outcomes(400, 2, 80, seed=7).dataset,
    "skewed labels": _skewed(POLICIES),
    "borrowed": _unlabelled(POLICIES, POLICIES.policy.names[0]),
    "constant judge": POLICIES.with_columns(judge_score=np.full(len(POLICIES), 0.5)),
    "identical labels": POLICIES.with_columns(
        oracle_label=np.where(POLICIES.is_labelled, 0.5, np.nan)
    ),
    "few labels": simulate.policies_on_shared_prompts(400, 2, 10, seed=8).dataset,
}


def _said(findings: object) -> set[tuple[str, str | None, str, str]]:
    return {(f.code, f.subject, str(f.severity), f.message) for f in findings}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FRESH)
def test_doctor_analyze_and_the_class_find_the_same_on_fresh_draws(name: str) -> None:
    data = FRESH[name]
    doctor, used = examine(data).findings, analyze_dataset(data).findings
    alone = find_estimator("direct").build(fresh=data).fit_and_estimate().findings
    assert _said(alone) == _said(used)
    of_doctor_only = {"judge-bias", "labels-depend-on", "one-row"}
    assert {f for f in _said(doctor) if f[0] not in of_doctor_only} == _said(used)


@pytest.mark.parametrize("overlap", [0.6, 0.2, 0.05])
@pytest.mark.parametrize("skewed", [False, True])
def test_doctor_analyze_and_the_class_find_the_same_on_a_log(overlap: float, skewed: bool) -> None:
    data = simulate.logged_with_logprobs(
        800, 200, targets={"near": 0.8, "far": overlap}, seed=9
    ).dataset
    data = _skewed(data) if skewed else data
    doctor = examine(data).findings
    used = analyze_dataset(logged_data=data).findings
    alone = find_estimator("calibrated-ips").build(logged=data).fit_and_estimate().findings
    assert _said(alone) == _said(used)
    of_doctor_only = {"judge-bias", "labels-depend-on", "one-row"}
    assert {f for f in _said(doctor) if f[0] not in of_doctor_only} == _said(used)
    snips = find_estimator("snips").build(logged=data).fit_and_estimate().findings
    shared = {"low-ess", "mean-weight", "labels-not-random", "low-calibration-r2"}
    assert {f for f in _said(snips) if f[0] in shared} == {f for f in _said(used) if f[0] in shared}


def test_a_constant_judge_is_not_labels_chosen_by_score() -> None:
    codes = {f.code for f in analyze_dataset(FRESH["constant judge"]).findings}
    assert "constant-judge" in codes
    assert "labels-not-random" not in codes


def test_a_finding_uses_the_scale_of_the_labels() -> None:
    from cje.data.scale import Scale
    from cje.diagnostics import label_choice_findings

    data = _skewed(POLICIES)
    five = data.with_columns(judge_scale=Scale(1, 5), oracle_scale=Scale(1, 5))
    one = label_choice_findings(data)[0]
    four = label_choice_findings(five)[0]
    assert four.details["gap"] == pytest.approx(4 * one.details["gap"])
