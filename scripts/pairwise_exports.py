"""Comparisons of two versions as ordinary exports: writes `tests/fixtures/pairwise/exports/`.

    python scripts/pairwise_exports.py

90 prompts, verdicts of a judge on all and of people on half. `manifest.json` has the command of
each export, the rows it must agree with (`base`: in the usual names) and the question it asks.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "pairwise" / "exports"
N, SEED, CAND = 90, 5, 0.65  # the share of comparisons that people give to cand
Row = dict[str, Any]


def base() -> list[Row]:
    rng = random.Random(SEED)
    rows = []
    for i in range(N):
        first, second = rng.sample(["prod", "cand"], 2)
        likes_cand = rng.random() < CAND
        human = "tie" if rng.random() < 0.1 else "cand" if likes_cand else "prod"
        judge = human if rng.random() < 0.7 else rng.choice(["prod", "cand", "tie"])
        back = judge if rng.random() < 0.8 else "tie"  # the same pair in the other order
        rows.append({
            "question_id": f"q{i:02d}", "model_a": first, "model_b": second,
            "judge_winner": judge, "human_winner": human if i % 2 else "", "back": back,
        })  # fmt: skip
    return rows


def side(row: Row, winner: str, first: str, second: str, tie: str = "tie") -> str:
    """A winner's name as a word for its side."""
    if winner in ("", "tie"):
        return tie if winner else ""
    return first if winner == row["model_a"] else second


def as_csv(name: str, rows: list[Row]) -> None:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def as_lines(name: str, rows: list[Row]) -> None:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def without(row: Row, *names: str) -> Row:
    return {key: value for key, value in row.items() if key not in names}


def main() -> None:
    rows = base()
    plain = [without(row, "back") for row in rows]
    votes = [without(row, "judge_winner", "back") for row in rows if row["human_winner"]]
    swapped = [*plain, *(
        {**without(row, "back"), "model_a": row["model_b"], "model_b": row["model_a"],
         "judge_winner": row["back"], "human_winner": ""} for row in rows
    )]  # fmt: skip
    for name, part in (("plain", plain), ("votes", votes), ("swapped", swapped)):
        as_lines(f"base/{name}.jsonl", part)
    as_csv("other_names/pairs.csv", [
        {"task": "support", "example_id": r["question_id"], "generator_1": r["model_a"],
         "generator_2": r["model_b"],
         "gpt4_verdict": side(r, r["judge_winner"], "[[A]]", "[[B]]", "[[C]]"),
         "expert_choice": side(r, r["human_winner"], "first", "second", "both bad")}
        for r in rows
    ])  # fmt: skip
    as_lines("arena_votes/battles.jsonl", [
        {"question_id": r["question_id"], "model_a": r["model_a"], "model_b": r["model_b"],
         "winner": side(r, r["human_winner"], "model_a", "model_b", "tie (bothbad)"),
         "judge": "arena_user_1", "turn": 1, "anony": True, "language": "English", "tstamp": 1.5,
         "conversation_a": [{"role": "assistant", "content": "A"}],
         "conversation_b": [{"role": "assistant", "content": "B"}]}
        for r in votes
    ])  # fmt: skip
    as_csv("arena_one_hot/train.csv", [
        {"id": r["question_id"], "model_a": r["model_a"], "model_b": r["model_b"],
         **{f"winner_{w}": int(side(r, r["human_winner"], "model_a", "model_b") == w)
            for w in ("model_a", "model_b", "tie")}}
        for r in votes
    ])  # fmt: skip
    as_lines("mt_bench/gpt-4_pair.jsonl", [
        {"question_id": r["question_id"], "model_1": r["model_a"], "model_2": r["model_b"],
         "g1_winner": side(r, r["judge_winner"], "model_1", "model_2"),
         "g2_winner": side(r, r["back"], "model_1", "model_2"), "judge": ["gpt-4", "pair-v2"],
         "turn": 1, "tstamp": 1.5}
        for r in rows
    ])  # fmt: skip
    as_csv("mt_bench/human.csv", [
        {"question_id": r["question_id"], "model_a": r["model_a"], "model_b": r["model_b"],
         "winner": side(r, r["human_winner"], "model_a", "model_b"), "judge": "expert_1", "turn": 1}
        for r in votes
    ])  # fmt: skip
    as_lines("alpaca_eval/annotations.jsonl", [
        {"instruction": f"Question {r['question_id']}", "id": r["question_id"],
         "generator_1": r["model_a"], "generator_2": r["model_b"], "output_1": "x", "output_2": "y",
         "annotator": "alpaca_eval_gpt4",
         "preference": {"1": 1.0, "2": 2.0, "tie": 1.5}[side(r, r["judge_winner"], "1", "2")]}
        for r in rows
    ])  # fmt: skip
    as_csv("alpaca_eval/people.csv", [
        {"ticket": r["question_id"], "preferred": r["human_winner"]} for r in votes
    ])  # fmt: skip
    as_csv("bare_winner/pairs.csv", [
        {**without(r, "judge_winner", "human_winner"), "winner": r["human_winner"]} for r in votes
    ])  # fmt: skip
    as_csv("other_words/pairs.csv", [
        {**r, "judge_winner": side(r, r["judge_winner"], "links", "rechts", "gleich"),
         "human_winner": side(r, r["human_winner"], "links", "rechts", "gleich")}
        for r in plain
    ])  # fmt: skip
    exports = [
        {"name": "other_names", "run": ["pairs.csv"], "base": "plain"},
        {"name": "arena_votes", "run": ["battles.jsonl"], "base": "votes"},
        {"name": "arena_one_hot", "run": ["train.csv"], "base": "votes"},
        {"name": "mt_bench", "run": ["gpt-4_pair.jsonl", "--labels", "human.csv"],
         "base": "swapped"},
        {"name": "alpaca_eval", "run": ["annotations.jsonl", "--labels", "people.csv", "--on",
                                        "id=ticket"], "base": "plain"},
        {"name": "bare_winner", "run": ["pairs.csv"], "base": "votes",
         "asks": "people, or the judge?"},
        {"name": "other_words", "run": ["pairs.csv", "--label-map", "links=1,rechts=0,gleich=0.5"],
         "base": "plain"},
    ]  # fmt: skip
    content = json.dumps({"truth": CAND, "exports": exports}, indent=1) + "\n"
    (FOLDER / "manifest.json").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
