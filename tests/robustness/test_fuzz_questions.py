"""The gate, monitoring, drift and the judge's report, on a user's rows, under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje import GateRule, analyze_dataset, drift, gate, judge_report, monitor, read
from tests.robustness.fuzzing import BAD_CELLS, fuzz, holds_rule

SPOILED = (*BAD_CELLS, None, "x", "", {})
sizes = st.sampled_from([None, 0.0, 0.02, 0.5, -1.0, float("nan"), float("inf")])
levels = st.sampled_from([0.95, 0.95, 0.95, 0.5, 0.999999, 1.0, float("nan")])


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of two policies in six periods; a few levels or many; in a third, one bad cell."""
    n = draw(st.sampled_from([1, 12, 90, 90, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    score = rng.random((n, 2))
    label = score + draw(st.sampled_from([0.0, 0.1, 0.5])) * rng.normal(size=(n, 2))
    if draw(st.integers(0, 4)):
        label = np.clip(label, 0.0, 1.0)
    cut = draw(st.sampled_from([0, 0, 1, 2, 5]))
    if cut:
        score, label = np.round(score * cut) / cut, np.round(label * cut) / cut
    every = draw(st.sampled_from([1, 1, 2, 3, 1000]))
    rows = [
        {"prompt_id": f"p{i}", "row": 2 * i + k, "policy": "ab"[k],
         "period": f"2026-01-0{i % 6 + 1}", "judge_score": score[i, k].item(),
         "oracle_label": label[i, k].item() if i % every == 0 else None}
        for i in range(n) for k in range(2)
    ]  # fmt: skip
    if draw(st.integers(0, 2)) == 0:
        column = draw(st.sampled_from(["judge_score", "oracle_label", "policy", "period"]))
        rows[draw(st.integers(0, len(rows) - 1))][column] = draw(st.sampled_from(SPOILED))
    return rows


@fuzz()
@given(tables(), st.sampled_from(["margin", "min_gain"]), sizes, st.sampled_from("bbbac"))
def test_the_gate_decides_or_refuses(rows: Any, kind: str, size: Any, candidate: str) -> None:
    def decide() -> Any:
        result = analyze_dataset(rows, baseline="a")
        found = gate(result, candidate, rule=GateRule(**{kind: size}))
        assert found.exit_code in (0, 1, 2)
        return found.sentences(), found.to_dict()

    holds_rule(decide)


@fuzz()
@given(tables(), tables(), st.sampled_from(["row", "row", "row", "prompt_id", "nonsense"]), sizes)
def test_drift_is_finite_or_refused(old: Any, new: Any, on: str, margin: Any) -> None:
    def compare() -> Any:
        found = drift(old, new, on=on, margin=margin)
        return found.summary(), found.to_dict()

    holds_rule(compare)


@fuzz()
@given(tables(), st.sampled_from(["period", "period", "period", None]), levels, st.booleans())
def test_monitoring_is_finite_or_refused(rows: Any, time: Any, level: Any, twice: bool) -> None:
    def watch() -> Any:
        found = monitor([rows, rows] if twice else [rows], time=time, level=level)
        return found.summary(), found.to_dict()

    holds_rule(watch)


@fuzz()
@given(tables(), st.sampled_from([["period"], [], ["nonsense"]]), levels)
def test_a_judge_s_report_is_finite_or_refused(rows: Any, groups: Any, level: Any) -> None:
    holds_rule(lambda: judge_report(read(rows, groups=groups), level=level))
