"""Every public entry point has a fuzz target, or stands here with the reason why it has none."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import cje
from cje.estimators.registry import REGISTRY

TESTS = Path(__file__).resolve().parents[1]
TARGETS = [
    *TESTS.glob("robustness/test_fuzz_*.py"), TESTS / "data/test_fuzz.py",
    TESTS / "estimators/test_direct_fuzz.py", TESTS / "survival/test_rubbish.py",
]  # fmt: skip

# What another entry point makes and hands over: its fields are looked into there.
MADE_ELSEWHERE = {
    "cje": {"CJEError"},
    "cje.calibration": {
        "CalibrationResult", "CrossFittedRewardModel", "ModeSelection", "OracleSliceConfig",
        "RewardModel",
    },
    "cje.classification": {
        "Assessment", "CalibrationTest", "ClassRow", "ClassifierCheck", "CorpDecomposition",
        "NullReference", "SubgroupAssessment",
    },
    "cje.data": {"Strings"},
    "cje.diagnostics": {
        "BiasEffect", "CalibrationFit", "GateThresholds", "JudgeBias", "JudgeCard", "LabellingTest",
        "Measure", "RaterAgreement", "RegionResidual", "ScoreOverlap", "TransportAudit",
        "Typicality", "WeightDiagnostics",
    },
    "cje.estimators": {"BestPolicy", "Comparison"},
    "cje.findings": {"Finding", "Rule", "describe"},
    "cje.results": {"BestPolicy", "Comparison"},
    "cje.inference": {"Finding", "Interval"},
    "cje.judges": {"JoinReport", "JudgeConfig", "JudgeTemplate", "JudgedScore", "LabelSlice",
                   "Parsed"},
    "cje.pipeline": {"PipelineConfig", "PipelineResult"},
    "cje.policies": {"Capability", "Generation", "LogProb", "PolicyConfig"},
    "cje.simulate": {"Simulation"},
    "cje.survival": {
        "BaselineHazard", "CalibrationDraws", "CalibrationIndex", "CensoringTest",
        "MetricDifference", "MetricEstimate", "NetBenefit", "OptimismCorrected", "Recalibration",
        "SurvivalComparison", "SurvivalReport", "SurvivalSample",
    },
    "cje.uncertainty": {
        "CalibratedReward", "CalibratedRewards", "Gamma", "MultiPolicyUncertaintyResult",
        "PolicyUncertaintyResult", "UncertaintyAwareEstimate", "UncertaintyJudgeConfig",
        "UncertaintyReport", "VarianceDecomposition",
    },
}  # fmt: skip
# They talk to a server: `tests/server` answers with faults of every kind instead.
SERVERS = {
    "APIJudge", "APIPolicyRunner", "CJEPipeline", "CallableOracle", "ModelOracle",
    "MultiTargetSampler", "TargetPolicyStage", "UncertaintyAPIJudge", "make_multi_sampler",
    "make_runner", "render_prompt", "safe_call",
}  # fmt: skip
# Parts of a page, and what calls and errors are made of: no data of the user's is computed with.
PLAIN = {
    "cje.checks", "cje.errors", "cje.hints", "cje.models", "cje.pytest_plugin", "cje.report",
    "cje.terminal",
}  # fmt: skip
REPORTS = {"classification_report", "survival_report"}  # they lay out results that are checked


def entry_points() -> list[tuple[str, str]]:
    """(module, name) of every public class and function that computes."""
    found = []
    packages = [info.name for info in pkgutil.iter_modules(cje.__path__) if info.name[0] != "_"]
    for module in (cje, *(importlib.import_module(f"cje.{name}") for name in packages)):
        for name in getattr(module, "__all__", ()):
            value: Any = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            abstract = getattr(value, "_is_protocol", False) or (
                inspect.isclass(value) and issubclass(value, enum.Enum)
            )
            if not abstract and value.__module__.startswith("cje"):
                found.append((module.__name__, name))
    return found


def test_every_public_entry_point_has_a_fuzz_target() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in TARGETS)
    named = set(re.findall(r"\w+", source))
    named |= {entry.load().__name__ for entry in REGISTRY.values()}  # fuzzed through the registry
    named.add("find_estimator")  # a look-up of a name: `analyze_dataset(estimator=...)` is fuzzed
    if re.search(r"simulate\.__all__", source):
        named |= set(importlib.import_module("cje.simulate").__all__)
    excused = SERVERS | REPORTS
    missing = [
        f"{module}.{name}"
        for module, name in entry_points()
        if module not in PLAIN
        and name not in named | excused
        and name not in MADE_ELSEWHERE.get(module, set())
    ]
    assert missing == []


def test_excuses_name_what_exists() -> None:
    known = {name for _, name in entry_points()}
    assert known >= SERVERS | REPORTS
    assert known >= set().union(*MADE_ELSEWHERE.values())


def test_the_rule_can_fail() -> None:
    from tests.robustness.fuzzing import holds_rule

    for broken in (lambda: float("nan"), lambda: {"a": [float("inf")]}, lambda: 1 / 0):
        try:
            holds_rule(broken)
        except (AssertionError, ZeroDivisionError):
            continue
        raise AssertionError("the rule let a broken result pass")
