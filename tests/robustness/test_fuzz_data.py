"""Data sets, the sampler, the doctor and the whole analysis under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje import analyze_dataset
from cje.analysis.doctor import examine
from cje.data import Dataset, PrecomputedSampler
from cje.diagnostics import LabelledRows, label_choice_findings, propensity_findings
from tests.robustness.fuzzing import columns, fuzz, holds_rule, sizes

names = st.sampled_from([["a"], ["a", "b"], ["a", "a"], [], "a", [""], [1], None])


@st.composite
def pieces(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `from_arrays`, each sound or spoiled."""
    n = draw(sizes)
    ids = draw(st.sampled_from([1, 2, 1000]))
    made: dict[str, Any] = {
        "prompt_id": draw(
            st.sampled_from([[f"p{i % ids}" for i in range(n)], list(range(n)), ["p"] * n, "p", []])
        ),
        "policy": draw(
            st.sampled_from(["m", ["m"] * n, ["ab"[i % 2] for i in range(n)], [""] * n])
        ),
        "judge_score": draw(columns(n)),
    }
    optional = {
        "oracle_label": columns(n),
        "judge_variance": columns(n, high=0.25),
        "label_propensity": columns(n, low=0.1),
        "draw_idx": st.sampled_from([None, list(range(n)), [0] * n, np.arange(n) % 2]),
        "base_policy_logprob": columns(n, low=-30.0, high=0.0),
        "rewards": columns(n),
        "covariates": columns(n).map(lambda column: {"x": column}),
        "groups": st.sampled_from([{"g": ["u", "v"] * (n // 2)}, {"g": 3}, None]),
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            made[name] = draw(strategy)
    if draw(st.booleans()):
        column = draw(columns(n, low=-30.0, high=0.0))
        made["target_policy_logprobs"] = draw(st.sampled_from([{"t": column}, column]))
        if draw(st.booleans()):
            made["target_policies"] = draw(names)
    return made


# NaN there means "has none"
MISSING = (
    "judge_score", "oracle_label", "logprob", "covariates", "judge_variance", "label_propensity"
)  # fmt: skip


@fuzz()
@given(pieces())
def test_a_data_set_is_sound_or_refused(given_pieces: dict[str, Any]) -> None:
    data = holds_rule(lambda: Dataset.from_arrays(**given_pieces), missing=MISSING)
    if data is not None:
        data.summary()
        holds_rule(lambda: label_choice_findings(data))
        rows = LabelledRows.of(data, np.ones(len(data), dtype=bool))
        if rows is not None:
            holds_rule(lambda: propensity_findings(rows, None))
        known = data.judge_score[~np.isnan(data.judge_score)]
        assert ((known >= 0.0) & (known <= 1.0)).all()
        holds_rule(lambda: PrecomputedSampler(data).weight_matrix())
        holds_rule(lambda: examine(data).summary())


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows as a user may have them."""
    n = draw(sizes)
    score, label = draw(columns(n, high=draw(st.sampled_from([1.0, 5.0, 100.0])))), draw(columns(n))
    share = draw(st.sampled_from([0, 1, 2, 5]))
    rows = []
    for i in range(n):
        row = {"prompt_id": f"p{i // 2}", "policy": "ab"[i % 2], "judge_score": _cell(score, i)}
        if share and i % share == 0:
            row["oracle_label"] = _cell(label, i)
        rows.append(row)
    return rows


def _cell(column: Any, i: int) -> Any:
    try:
        value = column[i]
    except (IndexError, TypeError, KeyError):
        return None
    return value.item() if isinstance(value, np.generic) else value


@fuzz()
@given(tables(), st.sampled_from(["auto", "direct", "naive", "snips", "nonsense"]))
def test_an_analysis_is_finite_or_refused(rows: list[dict[str, Any]], estimator: str) -> None:
    def analyse() -> Any:
        result = analyze_dataset(rows, estimator=estimator)
        result.summary()
        result.best_policy()
        refused = result.refused()  # a refused value has no number anywhere
        usable = [name for name in result.policies if name not in refused]
        pairs = [c for c, _ in result.compare_all() if c.verdict != "refused"]
        return result.estimates, [result.ci()[name] for name in usable], pairs

    holds_rule(analyse)


@fuzz()
@given(tables())
def test_the_doctor_is_finite_or_refused(rows: list[dict[str, Any]]) -> None:
    def look() -> Any:
        found = examine(rows)
        found.summary()
        return found.facts

    holds_rule(look)
