"""Where they differ: the right pairs, their numbers, and hostile text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.analysis import analyze_dataset
from cje.estimators import EstimationResult
from cje.report import PairExamples
from cje.results.report_pairs import _greatest, _least, pairs_part

_BAD = "</script><script>window.pwned=1</script><!-- &amp; \u2028"


@pytest.fixture(scope="module")
def result() -> EstimationResult:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(150):
        for policy in ("prod", "cand", "other"):
            label = float(np.clip(3 + rng.normal(), 1, 5))
            rows.append(
                {"prompt_id": f"p{i}", "policy": policy, "judge_score": round(label * 2) / 2,
                 "oracle_label": label if i % 3 == 0 else None, "topic": ["a", "b"][i % 2],
                 "prompt": f"question {i} {_BAD}", "response": f"answer of {policy} to {i} {_BAD}"}
            )  # fmt: skip
    return analyze_dataset(
        rows, by="topic", baseline="prod", text=True, judge_scale="1-5", oracle_scale="1-5"
    )


def test_pairs_are_the_largest_calibrated_differences_on_one_prompt(
    result: EstimationResult,
) -> None:
    part = pairs_part(result)
    assert isinstance(part, PairExamples)
    assert (part.baseline, part.candidates, part.columns) == ("prod", ("cand", "other"), ("topic",))
    data, evidence = result.evidence.dataset, result.evidence  # type: ignore[union-attr]
    value = evidence.predict(np.arange(len(data))) * 4  # type: ignore[union-attr, misc]
    where = {
        (p, q): k
        for k, (p, q) in enumerate(zip(data.policy.decode(), data.prompt_id.decode(), strict=True))
    }
    gains = {
        f"p{i}": value[where["cand", f"p{i}"]] - value[where["prod", f"p{i}"]] for i in range(150)
    }
    own = [row for row in part.rows if row.candidate == "cand"]
    shown = {row.prompt_id: row for row in own}
    for name in (
        *sorted(gains, key=gains.__getitem__)[:5],
        *sorted(gains, key=gains.__getitem__)[-5:],
    ):
        assert shown[name].difference == pytest.approx(gains[name])
    assert [row.difference for row in own] == sorted(row.difference for row in own)
    for row in own:
        i = int(row.prompt_id[1:])
        assert row.before.startswith(f"answer of prod to {i} ")
        assert row.after.startswith(f"answer of cand to {i} ")
        assert (row.labels[0] is None) == (i % 3 != 0)
        assert row.groups == (["a", "b"][i % 2],)
    assert sum(None not in row.labels for row in own) >= 10


def test_hostile_text_in_pairs_stays_text(result: EstimationResult) -> None:
    page = result.to_html()
    assert "window.pwned=1</script>" not in page
    assert page.count("<script") == 3
    found = re.search(
        r'<script type="application/json" id="samples-\w+">(\{"baseline".*?)</script>', page
    )
    assert found is not None
    data = json.loads(found[1])
    assert len(data["rows"]) == len(pairs_part(result).rows)  # type: ignore[union-attr]
    assert data["rows"][0]["prompt"].endswith(_BAD)


def test_a_page_without_texts_or_with_one_version_has_no_pairs(result: EstimationResult) -> None:
    assert pairs_part(result.with_(evidence=None)) is None
    rows = [{"prompt_id": i, "policy": "one", "judge_score": i % 5, "oracle_label": i % 5,
             "response": "x"} for i in range(40)]  # fmt: skip
    assert pairs_part(analyze_dataset(rows, text=True)) is None


def test_a_refused_version_is_not_shown(result: EstimationResult) -> None:
    from cje.inference import Finding, Severity

    refusal = Finding("x", "too few", Severity.REFUSE, "label more", "cand")
    part = pairs_part(result.with_(findings=(refusal,)))
    assert part is not None
    assert part.candidates == ("other",)


@given(st.lists(st.integers(-3, 3).map(float), max_size=30), st.integers(0, 40))
def test_the_ends_are_those_of_a_stable_sort(values, n):
    order = np.argsort(np.array(values), kind="stable")
    assert _least(np.array(values), n).tolist() == order[:n].tolist()
    last = order[max(len(order) - n, 0) :]
    assert sorted(_greatest(np.array(values), n).tolist()) == sorted(last.tolist())
