"""Comparisons of two responses: which layouts are recognised, and what is made of their words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cje.data import read
from cje.data.comparison_reader import is_pairwise, read_comparisons
from cje.data.comparisons import Comparisons
from cje.data.sources import open_sources
from cje.errors import CJEError

NAN = float("nan")


def same(found: Any, wanted: list[float]) -> bool:
    return bool(np.array_equal(np.asarray(found), np.asarray(wanted), equal_nan=True))


def triples(data: Comparisons) -> list[tuple[str, str, str]]:
    return list(
        zip(data.prompt_id.decode(), data.first.decode(), data.second.decode(), strict=True)
    )


# ---- layouts --------------------------------------------------------------------------------


def said(answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer}]


ARENA = [
    {"question_id": f"q{i}", "model_a": a, "model_b": b, "winner": w, "judge": "arena_user_7",
     "turn": 1, "anony": True, "tstamp": 1.0 + i,
     "conversation_a": said("x" * 30), "conversation_b": said("y" * 10)}
    for i, (a, b, w) in enumerate([
        ("vicuna", "koala", "model_a"), ("koala", "alpaca", "tie"),
        ("alpaca", "vicuna", "tie (bothbad)"), ("vicuna", "alpaca", "model_b"),
    ])
]  # fmt: skip


def test_arena_votes_are_human_verdicts_and_both_bad_counts_half() -> None:
    data = read_comparisons(ARENA)
    assert same(data.human, [1.0, 0.5, 0.5, 0.0])
    assert np.isnan(data.judge).all()
    assert any("both bad" in note for note in data.metadata["reading"])


def test_length_is_counted_in_what_the_assistant_says() -> None:
    data = read_comparisons(ARENA, covariates=["length"])
    assert data.covariates["length"].tolist() == [0.5] * 4  # (30 - 10) / (30 + 10)


def test_the_one_hot_layout_of_the_arena_is_read() -> None:
    rows = [
        {"id": 1, "model_a": "x", "model_b": "y", "prompt": "p", "response_a": "a",
         "response_b": "b", "winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0},
        {"id": 2, "model_a": "x", "model_b": "y", "prompt": "r", "response_a": "a",
         "response_b": "b", "winner_model_a": 0, "winner_model_b": 0, "winner_tie": 1},
    ]  # fmt: skip
    assert same(read_comparisons(rows).human, [1.0, 0.5])


def test_mt_bench_pairs_are_judged_in_both_orders() -> None:
    rows = [
        {"question_id": q, "model_1": "alpaca", "model_2": "claude", "turn": 1, "g1_winner": one,
         "g2_winner": two, "judge": ["gpt-4", "pair-v2"]}
        for q, one, two in [(81, "model_2", "tie"), (82, "model_1", "error")]
    ]  # fmt: skip
    data = read_comparisons(rows)
    assert triples(data) == [
        ("81", "alpaca", "claude"), ("82", "alpaca", "claude"),
        ("81", "claude", "alpaca"), ("82", "claude", "alpaca"),
    ]  # fmt: skip
    assert same(data.judge, [0.0, 1.0, 0.5, NAN])
    assert not data.n_labelled


def test_mt_bench_judgements_by_people_and_gpt4_are_distinguished_by_their_names() -> None:
    rows = [{"question_id": 81, "model_a": "x", "model_b": "y", "winner": w, "judge": who,
             "turn": turn, "conversation_a": [], "conversation_b": []}
            for w, who, turn in [
                ("model_a", "expert_3", 1), ("model_b", "author_1", 1),
                ("model_a", "gpt4_pair", 1), ("tie (inconsistent)", "gpt4_pair", 2),
            ]]  # fmt: skip
    data = read_comparisons(rows)
    assert same(data.human, [1.0, 0.0, NAN, NAN])
    assert same(data.judge, [NAN, NAN, 1.0, 0.5])
    assert data.item.tolist() == [0, 0, 0, 1]  # the turn tells two comparisons apart
    assert any("gpt4_pair" in note and "2 people" in note for note in data.metadata["reading"])


def test_alpaca_eval_numbers_are_one_for_the_first_and_two_for_the_second() -> None:
    rows = [{"instruction": f"p{i}", "generator_1": "ref", "generator_2": "new", "output_1": "a",
             "output_2": "b", "annotator": "alpaca_eval_gpt4", "preference": value}
            for i, value in enumerate([1.0, 2.0, 1.5, 1.25, None])]  # fmt: skip
    assert same(read_comparisons(rows).judge, [1.0, 0.0, 0.5, 0.75, NAN])


@pytest.mark.parametrize(
    ("word", "value"),
    [("model_a", 1.0), ("[[B]]", 0.0), ("Tie", 0.5), ("both bad", 0.5), ("gpt-new", 1.0),
     ("gpt-old", 0.0), ("A", 1.0), ("Response 2", 0.0), ("", NAN), ("N/A", NAN)],
)  # fmt: skip
def test_names_sides_ties_and_missing_verdicts_are_understood(word: str, value: float) -> None:
    rows = [{"prompt_id": i, "model_a": "gpt-new", "model_b": "gpt-old", "human_winner": w}
            for i, w in enumerate([word, "model_b"])]  # fmt: skip
    assert same(read_comparisons(rows).human, [value, 0.0])


def test_two_human_columns_are_two_raters() -> None:
    rows = [{"prompt_id": i, "policy_a": "x", "policy_b": "y", "human_1_winner": a,
             "human_2_winner": b, "judge_winner": "A"}
            for i, (a, b) in enumerate([("A", "B"), ("A", None), (None, None)])]  # fmt: skip
    assert same(read_comparisons(rows).human, [0.5, 1.0, NAN])


def test_sides_without_names_are_the_versions_a_and_b() -> None:
    rows = [{"prompt": f"p{i}", "response_a": "x", "response_b": "y", "human_preference": "A"}
            for i in range(3)]  # fmt: skip
    data = read_comparisons(rows)
    assert data.policies == ("A", "B")
    assert "no columns name them" in data.metadata["reading"][-2] + data.metadata["reading"][-1]


# ---- questions and errors ---------------------------------------------------------------------


def test_a_winner_nobody_is_named_for_is_asked_about() -> None:
    rows = [{"prompt_id": 1, "model_a": "x", "model_b": "y", "winner": "model_a"}]
    with pytest.raises(CJEError, match="people, or the judge") as caught:
        read_comparisons(rows)
    assert "human_winner" in str(caught.value)
    data = read_comparisons(rows, fields={"judge_winner": "winner"})
    assert same(data.judge, [1.0])


def test_an_unknown_word_is_listed_with_its_count_and_can_be_given_a_value() -> None:
    rows = [{"prompt_id": i, "model_a": "x", "model_b": "y", "human_winner": w}
            for i, w in enumerate(["links", "links", "model_b"])]  # fmt: skip
    with pytest.raises(CJEError, match=r"'links' \(2\)"):
        read_comparisons(rows)
    assert same(read_comparisons(rows, label_map={"links": 1}).human, [1.0, 1.0, 0.0])
    skipped = read_comparisons(rows, skip_bad_rows=True)
    assert same(skipped.human, [NAN, NAN, 0.0])
    assert any("2 unreadable" in note for note in skipped.metadata["reading"])


def test_a_policy_against_itself_is_refused() -> None:
    with pytest.raises(CJEError, match="with itself"):
        Comparisons.from_arrays(prompt_id=["p"], first=["x"], second=["x"], human=[1.0])


def test_scores_and_wide_tables_are_not_comparisons() -> None:
    for rows in (
        [{"prompt_id": 1, "policy": "x", "judge_score": 0.5, "human_label": 1}],
        [{"prompt_id": 1, "score_A": 0.5, "score_B": 0.5, "human_A": 1, "human_B": 0}],
        [{"prompt_id": 1, "model": "x", "score": 0.5, "outcome": 1, "verdict": "pass"}],
    ):
        assert not is_pairwise(open_sources(rows, None))


def test_read_points_to_the_comparison_of_two_responses() -> None:
    with pytest.raises(CJEError, match="estimator='pairwise'"):
        read([{"prompt_id": 1, "model_a": "x", "model_b": "y", "winner": "model_a"}] * 2)


# ---- formats, joins, orders -------------------------------------------------------------------

PLAIN = [
    {"question_id": f"q{i}", "model_a": a, "model_b": b, "judge_winner": w, "human_winner": h,
     "tokens_a": 10.0, "tokens_b": 30.0}
    for i, (a, b, w, h) in enumerate([
        ("x", "y", "model_a", "tie"), ("y", "x", "x", ""), ("x", "y", "tie", "model_b"),
    ])
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "json"])
def test_every_format_gives_the_same_comparisons(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pairs.{suffix}"
    frame = pl.DataFrame(PLAIN)
    if suffix == "json":
        path.write_text(json.dumps(PLAIN))
    else:
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[
            suffix
        ](path)
    data = read_comparisons(path, covariates=["tokens"])
    assert same(data.judge, [1.0, 0.0, 0.5])
    assert same(data.human, [0.5, NAN, 0.0])
    assert data.covariates["tokens"].tolist() == [-0.5] * 3


def test_verdicts_of_another_file_join_in_either_order() -> None:
    judged = [{k: v for k, v in row.items() if k != "human_winner"} for row in PLAIN]
    people = [
        {"question_id": q, "model_a": "y", "model_b": "x", "winner": "model_a"}
        for q in ("q0", "q9")
    ]
    data = read_comparisons(judged, labels=people, covariates=["tokens"])
    assert triples(data)[3] == ("q0", "y", "x")
    assert same(data.human, [NAN, NAN, NAN, 1.0])
    assert data.covariates["tokens"].tolist() == [-0.5, -0.5, -0.5, 0.5]
    assert any("1 of 2 human verdicts matched" in note for note in data.metadata["reading"])


def test_human_judgements_of_mt_bench_land_on_its_gpt4_pairs() -> None:
    pairs = [{"question_id": 81, "model_1": "x", "model_2": "y", "turn": turn,
              "g1_winner": "model_1", "g2_winner": "tie", "judge": ["gpt-4", "pair-v2"]}
             for turn in (1, 2)]  # fmt: skip
    people = [{"question_id": 81, "model_a": "y", "model_b": "x", "winner": "model_a",
               "judge": who, "turn": 2}
              for who in ("expert_0", "gpt4_pair")]  # fmt: skip
    data = read_comparisons(pairs, labels=people)
    assert triples(data)[4:] == [("81", "y", "x")]  # gpt4_pair is no person
    assert data.item.tolist() == [0, 1, 0, 1, 1]
    with pytest.raises(CJEError, match="none by people"):
        read_comparisons(pairs, labels=people[1:])


def test_verdicts_join_by_the_prompt_alone_where_it_has_one_comparison() -> None:
    judged = [{k: v for k, v in row.items() if k != "human_winner"} for row in PLAIN]
    data = read_comparisons(
        judged,
        labels=[{"id": "q1", "winner": "x"}, {"id": "q2", "winner": "A"}],
        on="question_id=id",
    )
    assert triples(data)[3:] == [("q1", "y", "x"), ("q2", "x", "y")]
    assert same(data.human[3:], [0.0, 1.0])


def test_verdicts_that_fit_nothing_are_an_error() -> None:
    with pytest.raises(CJEError, match="none of the 1 verdicts"):
        read_comparisons(
            PLAIN, labels=[{"question_id": "z", "model_a": "x", "model_b": "y", "winner": "tie"}]
        )


def test_renaming_the_columns_and_turning_the_sides_changes_no_verdict() -> None:
    turned = [
        {"task_id": r["question_id"], "system_2": r["model_a"], "system_1": r["model_b"],
         "gpt4_verdict": {"model_a": "2", "x": "x", "tie": "tie"}[str(r["judge_winner"])],
         "expert_choice": {"tie": "tie", "": None, "model_b": "first"}[str(r["human_winner"])]}
        for r in PLAIN
    ]  # fmt: skip
    turned[0]["gpt4_verdict"] = "second"
    data, back = read_comparisons(PLAIN), read_comparisons(turned)
    assert triples(data) == [(p, b, a) for p, a, b in triples(back)]
    assert same(back.judge, (1.0 - data.judge).tolist())
    assert same(back.human, (1.0 - data.human).tolist())
