"""Exports in other shapes: wide, several judges and raters, repeats, nested rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from export import export, renamed, tidy, wide
from truth import BASES
from writing import as_csv, as_json, as_jsonl, as_workbook, cells

WIDE = "wide"
JUDGES = "several judges"
RATERS = "several raters"
REPEATS = "epochs, repeats, turns"
NESTED = "nested rows"
Row = dict[str, Any]
SELF = {"prod": "prod", "cand": "cand"}

# ---- wide -------------------------------------------------------------------------------------


@export("wide_suffix", WIDE, "evals.csv", "--baseline", "prod", says=("side by side",))
def wide_suffix(folder: Path) -> None:
    as_csv(
        folder / "evals.csv",
        wide(
            "plain", {"judge_score": "score_{}", "oracle_label": "human_{}"}, SELF, prompt_id="id"
        ),
    )


@export("wide_prefix", WIDE, "evals.xlsx", "--baseline", "prod")
def wide_prefix(folder: Path) -> None:
    rows = wide("plain", {"response": "{} response", "judge_score": "{} score",
                          "oracle_label": "{} human score"}, SELF,
                prompt_id="Question ID", prompt="Question")  # fmt: skip
    as_workbook(folder / "evals.xlsx", {"Sheet1": cells(rows)})


@export("wide_blocks", WIDE, "evals.csv", "--baseline", "prod")
def wide_blocks(folder: Path) -> None:
    rows = [
        [row[name] for name in row]
        for row in wide(
            "plain", {"judge_score": "{}.s", "oracle_label": "{}.h"}, SELF, prompt_id="id"
        )
    ]
    lines = [["", "prod", "", "cand", ""], ["id", "score", "human", "score", "human"], *rows]
    text = "\n".join(",".join("" if v is None else str(v) for v in line) for line in lines)
    (folder / "evals.csv").write_text(text + "\n", encoding="utf-8")


@export("wide_nested", WIDE, "evals.jsonl", "--baseline", "prod")
def wide_nested(folder: Path) -> None:
    found: dict[str, Row] = {}
    for row in BASES["plain"]:
        line = found.setdefault(row["prompt_id"], {"id": row["prompt_id"], "q": row["prompt"]})
        line[row["policy"]] = {"output": row["response"], "score": row["judge_score"],
                               "human": row["oracle_label"]}  # fmt: skip
    as_jsonl(folder / "evals.jsonl", list(found.values()))


@export("wide_bare_scores", WIDE, "evals.csv", "--baseline", "prod")
def wide_bare_scores(folder: Path) -> None:
    as_csv(
        folder / "evals.csv",
        wide(
            "plain",
            {"judge_score": "{}", "oracle_label": "{}_human"},
            SELF,
            prompt_id="id",
            prompt="question",
        ),
    )


# ---- judges -----------------------------------------------------------------------------------


def judged(form: str, **names: str) -> list[Row]:
    found = []
    for row in tidy("judges", **names):
        scores = row.pop("judge_score")
        found.append(row | {form.format(name): value for name, value in scores.items()})
    return found


@export("judges_prefix", JUDGES, "evals.csv", base="judges", says=("2 judges",))
def judges_prefix(folder: Path) -> None:
    as_csv(folder / "evals.csv", judged("judge_{}", prompt_id="id", policy="model",
                                        oracle_label="human_label"))  # fmt: skip


@export("judges_suffix", JUDGES, "evals.jsonl", base="judges")
def judges_suffix(folder: Path) -> None:
    as_jsonl(folder / "evals.jsonl", judged("{}_judge_score", oracle_label="gold"))


@export("judges_models", JUDGES, "evals.csv", base="judges")
def judges_models(folder: Path) -> None:
    as_csv(folder / "evals.csv", judged("{}_score", policy="system", oracle_label="human_rating"))


@export("judges_nested", JUDGES, "evals.jsonl", base="judges")
def judges_nested(folder: Path) -> None:
    as_jsonl(
        folder / "evals.jsonl",
        [
            {("judges" if key == "judge_score" else key): value for key, value in row.items()}
            for row in renamed("judges")
        ],
    )


# ---- raters -----------------------------------------------------------------------------------


@export("raters_numbered", RATERS, "evals.csv", base="raters", says=("2 raters",))
def raters_numbered(folder: Path) -> None:
    found = []
    for row in tidy("raters", prompt_id="id", policy="model"):
        labels = row.pop("oracle_label")
        found.append(row | {"human_1": labels["anna"], "human_2": labels["ben"]})
    as_csv(folder / "evals.csv", found)


@export("raters_long", RATERS, "evals.csv", base="raters", says=("2 raters",))
def raters_long(folder: Path) -> None:
    found = []
    for row in tidy("raters"):
        labels = row.pop("oracle_label")
        for name, value in labels.items():
            if value is not None or name == "anna":
                found.append(row | {"annotator": None if value is None else name,
                                    "human_label": value})  # fmt: skip
    as_csv(folder / "evals.csv", found)


@export("raters_nested", RATERS, "evals.jsonl", base="raters")
def raters_nested(folder: Path) -> None:
    as_jsonl(folder / "evals.jsonl", renamed("raters", oracle_label="annotations"))


@export("raters_named", RATERS, "evals.csv", base="raters")
def raters_named(folder: Path) -> None:
    found = []
    for row in tidy("raters", prompt_id="id", policy="model"):
        labels = row.pop("oracle_label")
        found.append(row | {"rater_anna": labels["anna"], "rater_ben": labels["ben"]})
    as_csv(folder / "evals.csv", found)


# ---- repeats ----------------------------------------------------------------------------------


@export("repeats_epoch", REPEATS, "evals.csv", base="draws")
def repeats_epoch(folder: Path) -> None:
    as_csv(folder / "evals.csv", tidy("draws", draw_idx="epoch", policy="model",
                                      oracle_label="human_label"))  # fmt: skip


@export("repeats_trial", REPEATS, "evals.jsonl", base="draws")
def repeats_trial(folder: Path) -> None:
    as_jsonl(
        folder / "evals.jsonl",
        [
            row | {"trial": f"trial-{row['trial'] + 1}"}
            for row in tidy("draws", draw_idx="trial", oracle_label="human_label")
        ],
    )


@export("repeats_turns", REPEATS, "chats.jsonl", base="draws")
def repeats_turns(folder: Path) -> None:
    as_jsonl(
        folder / "chats.jsonl",
        renamed("draws", prompt_id="conversation_id", draw_idx="turn", oracle_label="human_label"),
    )


@export("repeats_unnumbered", REPEATS, "evals.csv", base="draws", asks="duplicate row")
def repeats_unnumbered(folder: Path) -> None:
    as_csv(
        folder / "evals.csv",
        [
            {key: value for key, value in row.items() if key != "draw_idx"}
            for row in tidy("draws", policy="model")
        ],
    )


@export("repeats_unknown_name", REPEATS, "evals.csv", base="draws", asks="duplicate row")
def repeats_unknown_name(folder: Path) -> None:
    as_csv(folder / "evals.csv", tidy("draws", draw_idx="pass_no", policy="model"))


# ---- nested -----------------------------------------------------------------------------------


@export("nested_chat", NESTED, "chats.jsonl", same_ids=False)
def nested_chat(folder: Path) -> None:
    as_jsonl(folder / "chats.jsonl", [
        {"messages": [{"role": "system", "content": "You are a helpful assistant."},
                      {"role": "user", "content": row["prompt"]},
                      {"role": "assistant", "content": row["response"]}],
         "model": row["policy"], "score": row["judge_score"], "human": row["oracle_label"]}
        for row in BASES["plain"]])  # fmt: skip


@export("nested_completions", NESTED, "batch.jsonl")
def nested_completions(folder: Path) -> None:
    as_jsonl(folder / "batch.jsonl", [
        {"custom_id": row["prompt_id"], "judge_score": row["judge_score"],
         "human_label": row["oracle_label"],
         "response": {"status_code": 200, "body": {
             "id": f"c{i}", "object": "chat.completion", "model": row["policy"],
             "choices": [{"index": 0, "finish_reason": "stop",
                          "message": {"role": "assistant", "content": row["response"]}}]}}}
        for i, row in enumerate(BASES["plain"])])  # fmt: skip


@export("nested_spans", NESTED, "spans.jsonl", same_ids=False)
def nested_spans(folder: Path) -> None:
    as_jsonl(folder / "spans.jsonl", [
        {"name": "chat", "trace_id": f"t{i:03d}", "span_id": f"s{i:03d}",
         "start_time": f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z",
         "attributes": {"gen_ai.request.model": row["policy"], "gen_ai.operation.name": "chat",
                        "gen_ai.prompt": row["prompt"], "gen_ai.completion": row["response"],
                        "judge.score": row["judge_score"], "human.score": row["oracle_label"]}}
        for i, row in enumerate(BASES["plain"])])  # fmt: skip


@export("nested_traces", NESTED, "traces.json", "--field", "prompt_id=metadata.question",
        "--field", "policy=metadata.prompt_version")  # fmt: skip
def nested_traces(folder: Path) -> None:
    as_json(folder / "traces.json", {"traces": [
        {"trace_id": f"t{i:03d}",
         "metadata": {"question": row["prompt_id"], "prompt_version": row["policy"]},
         "spans": [{"name": "retrieve", "input": row["prompt"], "output": "three documents"},
                   {"name": "generate", "input": row["prompt"], "output": row["response"]}],
         "scores": {"judge": row["judge_score"], "human": row["oracle_label"]}}
        for i, row in enumerate(BASES["plain"])]})  # fmt: skip


@export("wide_blocks_workbook", WIDE, "evals.xlsx", "--baseline", "prod")
def wide_blocks_workbook(folder: Path) -> None:
    rows = [
        list(row.values())
        for row in wide(
            "plain",
            {"response": "{} r", "judge_score": "{} s", "oracle_label": "{} h"},
            SELF,
            prompt_id="id",
        )
    ]
    top = [None, "prod", None, None, "cand", None, None]
    names = ["id", "response", "score", "human", "response", "score", "human"]
    as_workbook(folder / "evals.xlsx", {"results": [top, names, *rows]})


@export("wide_or_judges", WIDE, "evals.csv", "--labels", "labels.csv", "--baseline", "prod",
        asks="versions side by side, or several judges")  # fmt: skip
def wide_or_judges(folder: Path) -> None:
    as_csv(folder / "evals.csv", wide("plain", {"judge_score": "score_{}"}, SELF, prompt_id="id"))
    as_csv(
        folder / "labels.csv",
        [
            {"id": row["prompt_id"], "policy": row["policy"], "label": row["oracle_label"]}
            for row in BASES["plain"]
            if row["oracle_label"] is not None
        ],
    )


@export("wide_named_models", WIDE, "evals.csv", "--baseline", "prod")
def wide_named_models(folder: Path) -> None:
    as_csv(
        folder / "evals.csv",
        wide(
            "plain",
            {
                "policy": "model_{}",
                "response": "response_{}",
                "judge_score": "score_{}",
                "oracle_label": "human_{}",
            },
            {"prod": "a", "cand": "b"},
            prompt_id="id",
        ),
    )
