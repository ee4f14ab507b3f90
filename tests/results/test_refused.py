"""A refused value has no number anywhere: text, JSON, report, picture, frame, comparisons."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import cje.simulate as simulate
from cje import analyze_dataset
from cje.errors import CJEError
from cje.estimators import EstimationResult
from cje.inference import Finding, InfluenceEstimate, Severity

# Values whose digits occur nowhere else: wherever they are shown, they are found.
_VALUE, _OTHER = 0.7391628, 0.5
_REASON = "effective sample size too small"


def _made(refused: str | None = "cand") -> EstimationResult:
    n = 400
    noise = np.random.default_rng(0).normal(size=(n, 3))
    noise = np.linalg.qr(noise - noise.mean(axis=0))[0]
    values = np.array([_OTHER, _VALUE, 0.51])
    estimate = InfluenceEstimate.from_influence(("prod", "cand", "third"), values, 0.01 * noise)
    findings = []
    if refused is not None:
        findings = [Finding("gate", _REASON, Severity.REFUSE, "label more", refused)]
    return EstimationResult("direct", estimate, findings=tuple(findings))


def _without_diagnostics(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _without_diagnostics(v) for k, v in content.items() if k != "diagnostics"}
    return [_without_diagnostics(v) for v in content] if isinstance(content, list) else content


def _hidden_digits() -> set[str]:
    """The refused value, its limits and its differences, as they could be printed."""
    shown = _made(refused=None)
    low, high = shown.ci()["cand"]
    numbers = [_VALUE, low, high, _VALUE - 0.5, 0.51 - _VALUE]
    return {f"{abs(v):.{places}f}" for v in numbers for places in (3, 4)}


def test_the_hidden_digits_are_shown_where_nothing_is_refused() -> None:
    text = _made(refused=None).summary()
    assert any(digits in text for digits in _hidden_digits())


@pytest.mark.parametrize("form", ["summary", "repr", "html", "fragment", "json", "small json"])
def test_a_refused_value_is_in_no_output(form: str) -> None:
    result = _made()
    text = {
        "summary": result.summary,
        "repr": lambda: repr(result),
        "html": result.to_html,
        "fragment": result._repr_html_,
        "json": lambda: json.dumps(_without_diagnostics(json.loads(result.to_json()))),
        "small json": lambda: json.dumps(
            _without_diagnostics(json.loads(result.to_json(influence=False)))
        ),
    }[form]()
    for digits in _hidden_digits():
        assert digits not in text, f"{digits} in {form}"
    assert _REASON in text


def test_a_refused_value_is_none_in_rows_and_frame_and_not_a_number_in_ci() -> None:
    result = _made()
    row = next(row for row in result.rows() if row["policy"] == "cand")
    assert {row[key] for key in ("estimate", "low", "high", "joint_low")} == {None}
    assert row["reason"] == _REASON
    assert all(math.isnan(limit) for limit in result.ci()["cand"])
    frame = result.to_frame().filter(pl.col("policy") == "cand")
    floats = frame.select(pl.selectors.float())
    assert floats.null_count().row(0) == (1,) * floats.width
    assert frame["verdict"].item() == "refused"


def test_a_pair_with_a_refused_value_has_no_number_and_no_verdict() -> None:
    result = _made()
    for pair, p in result.compare_all():
        refused = "cand" in (pair.a, pair.b)
        assert (pair.verdict == "refused") == refused
        assert math.isnan(p) == refused
        assert math.isnan(pair.difference) == refused
        numbers = [v for v in pair.to_dict().values() if isinstance(v, float)]
        assert bool(numbers) != refused
    pair = result.compare_policies("cand", "prod", margin=0.1)
    assert str(pair) == f"cand - prod: refused (cand: {_REASON})"


def test_refused_pairs_cost_the_others_nothing() -> None:
    ((pair, p),) = [x for x in _made().compare_all() if x[0].refused is None]
    assert p == pair.p_value
    assert pair.adjusted_interval is not None
    assert tuple(pair.adjusted_interval) == tuple(pair.interval)


@pytest.mark.parametrize("influence", [True, False])
def test_a_saved_result_keeps_what_was_computed_under_diagnostics(influence: bool) -> None:
    result = _made()
    content = json.loads(result.to_json(influence=influence))
    assert content["diagnostics"]["refused_values"]["cand"]["estimate"] == _VALUE
    assert content["values"]["values"][1] is None
    loaded = EstimationResult.from_json(json.dumps(content))
    np.testing.assert_array_equal(loaded.estimates, result.estimates)
    np.testing.assert_allclose(
        loaded.influence.covariance(), result.influence.covariance(), rtol=1e-12
    )
    assert loaded.summary() == result.summary()
    assert loaded.to_json(influence=influence) == result.to_json(influence=influence)


def test_pictures_show_no_point_for_a_refused_value() -> None:
    ax = _made().plot_estimates()
    drawn = [float(bar[0].get_xdata()[0]) for bar in ax.containers]
    assert drawn == [_OTHER, 0.51]
    assert "cand\n(refused)" in [t.get_text() for t in ax.get_yticklabels()]


def test_a_refused_baseline_leaves_no_candidate_with_a_verdict() -> None:
    result = _made("prod")
    assert {pair.verdict for pair in result.versus_baseline()} == {"refused"}
    text = result.summary().splitlines()[0]
    assert text == f"cand cannot be compared: the value of prod is refused: {_REASON}."


def test_off_policy_values_a_gate_refused_are_in_no_output() -> None:
    targets = {"near": 0.85, "far": 0.03}
    made = simulate.logged_with_logprobs(1500, 400, targets=targets, seed=4)
    result = analyze_dataset(logged_data=made.dataset)
    assert set(result.refused()) == {"far"}
    value = result.refused_values()["far"]["estimate"]
    page, text = result.to_html(), result.summary()
    for digits in (f"{value:.3f}", f"{value:.4f}", f"{value:.4g}"):
        assert not re.search(rf"(?<![\d.]){re.escape(digits)}(?!\d)", text)
        assert f"<b>{digits}</b>" not in page


# ---- the baseline --------------------------------------------------------------------------------


def test_tables_begin_with_the_baseline_and_differences_are_candidate_minus_it() -> None:
    result = _made(refused=None).with_(metadata={"baseline": "third"})
    assert [row["policy"] for row in result.rows()] == ["third", "prod", "cand"]
    assert [(c.a, c.b) for c in result.versus_baseline()] == [("prod", "third"), ("cand", "third")]
    frame = result.to_frame()
    assert frame["policy"].to_list() == ["third", "prod", "cand"]
    assert frame["difference"].to_list() == [
        None,
        pytest.approx(-0.01),
        pytest.approx(_VALUE - 0.51),
    ]
    assert result.policies == ("prod", "cand", "third")


def test_intervals_have_names() -> None:
    result = _made(refused=None)
    assert result.ci()["prod"] == result.ci()[0]
    assert list(result.ci().to_dict()) == list(result.policies)
    assert "cand" in repr(result.ci())
    with pytest.raises(CJEError, match="no such policy"):
        result.ci()["nobody"]


def test_a_frame_comes_back_in_the_callers_library() -> None:
    pd = pytest.importorskip("pandas")
    rows = [
        {"prompt_id": i, "policy": p, "judge_score": (i * k) % 7, "oracle_label": (i * k) % 5}
        for i in range(60)
        for k, p in ((3, "prod"), (4, "cand"))
    ]
    result = analyze_dataset(pd.DataFrame(rows), judge_scale="0-6", oracle_scale="0-4")
    assert isinstance(result.to_frame(), pd.DataFrame)
    assert isinstance(analyze_dataset(rows, judge_scale="0-6").to_frame(), pl.DataFrame)
    again = EstimationResult.from_json(result.to_json())
    assert again.to_frame().equals(result.to_frame())


def test_a_guessed_baseline_is_stated() -> None:
    rows = [
        {"prompt_id": i, "policy": p, "judge_score": (i * k) % 7, "oracle_label": (i * k) % 5}
        for i in range(60)
        for k, p in ((3, "cand-v2"), (4, "prod-v1"))
    ]
    guessed = analyze_dataset(rows)
    assert guessed.baseline == "prod-v1"
    assert "from its name" in guessed.metadata["baseline_note"]
    named = analyze_dataset(rows, baseline="cand-v2")
    assert named.baseline == "cand-v2"
    assert "baseline_note" not in named.metadata
