"""Exports in other names, in several files, with versions in a column, and in other values."""

from __future__ import annotations

from pathlib import Path

from export import export, of, renamed, tidy
from truth import BASES
from writing import as_csv, as_json, as_jsonl

NAMES = "names of columns"
FILES = "several files"
VERSIONS = "versions are policies"
WORDS = "words as values"
NUMBERS = "numbers in other formats"
BAD = "bad rows"
SCALES = "scales"

# ---- names ------------------------------------------------------------------------------------


@export("names_known", NAMES, "evals.csv", says=("judge_score read from 'gpt4_score'",
        "oracle_label read from 'human_rating'"))  # fmt: skip
def names_known(folder: Path) -> None:
    as_csv(folder / "evals.csv", tidy(
        prompt_id="question_id", policy="model", judge_score="gpt4_score",
        oracle_label="human_rating"))  # fmt: skip


@export("names_odd", NAMES, "evals.csv", asks="is it 'points'?")
def names_odd(folder: Path) -> None:
    as_csv(
        folder / "evals.csv",
        tidy(prompt_id="item", policy="system", judge_score="points", oracle_label="expert_grade"),
    )


@export("names_nested", NAMES, "evals.jsonl", "--field", "judge_score=eval.auto.stars",
        "--field", "label=eval.panel.stars", "--field", "prompt_id=input.key",
        "--field", "policy=run.setup")  # fmt: skip
def names_nested(folder: Path) -> None:
    as_jsonl(folder / "evals.jsonl", [
        {"input": {"key": row["prompt_id"], "text": row["prompt"]},
         "run": {"setup": row["policy"], "text": row["response"]},
         "eval": {"auto": {"stars": row["judge_score"]}, "panel": {"stars": row["oracle_label"]}}}
        for row in BASES["plain"]])  # fmt: skip


@export("names_two_scores", NAMES, "evals.csv", asks="several columns could be judge_score")
def names_two_scores(folder: Path) -> None:
    rows = tidy(prompt_id="id", policy="model", judge_score="helpfulness_score",
                oracle_label="human_label")  # fmt: skip
    as_csv(
        folder / "evals.csv",
        [row | {"accuracy_score": 1 + (7 * i) % 5} for i, row in enumerate(rows)],
    )


@export("names_hub", NAMES, "results.json")
def names_hub(folder: Path) -> None:
    rows = renamed(prompt_id="questionId", policy="modelName", judge_score="llmJudgeScore",
                   oracle_label="humanLabel", response="modelOutput")  # fmt: skip
    as_json(folder / "results.json", {"created": "2026-01-01", "results": rows})


# ---- files ------------------------------------------------------------------------------------


@export("files_two", FILES, "prod.csv", "cand.csv", "--baseline", "prod")
def files_two(folder: Path) -> None:
    for name in ("prod", "cand"):
        as_csv(folder / f"{name}.csv", of(tidy(prompt_id="id", judge_score="score",
                                               oracle_label="label"), name))  # fmt: skip


@export("files_named", FILES, "prod=run_17.jsonl", "cand=run_18.jsonl", "--baseline", "prod")
def files_named(folder: Path) -> None:
    rows = renamed(prompt_id="example_id", judge_score="score", oracle_label="annotation")
    for name, number in (("prod", 17), ("cand", 18)):
        as_jsonl(
            folder / f"run_{number}.jsonl", [row | {"model": "gpt-4o"} for row in of(rows, name)]
        )


@export("files_folder", FILES, "responses")
def files_folder(folder: Path) -> None:
    (folder / "responses").mkdir(exist_ok=True)
    for name in ("prod", "cand"):
        as_jsonl(folder / "responses" / f"{name}_responses.jsonl", of(tidy(), name))


# ---- versions ---------------------------------------------------------------------------------


@export("versions_known", VERSIONS, "evals.jsonl")
def versions_known(folder: Path) -> None:
    as_jsonl(
        folder / "evals.jsonl",
        renamed(prompt_id="id", policy="prompt_version", judge_score="score", oracle_label="human"),
    )


@export("versions_beside_model", VERSIONS, "evals.csv", asks="is it the policy?")
def versions_beside_model(folder: Path) -> None:
    rows = tidy(prompt_id="id", policy="variant", judge_score="score", oracle_label="human")
    as_csv(folder / "evals.csv", [{"model": "gpt-4o", **row} for row in rows])


@export("versions_unknown_name", VERSIONS, "evals.csv", asks="is it the policy?")
def versions_unknown_name(folder: Path) -> None:
    as_csv(folder / "evals.csv", tidy(prompt_id="id", policy="setup", judge_score="score",
                                      oracle_label="human"))  # fmt: skip


@export("versions_experiment", VERSIONS, "evals.csv", "--baseline", "prod")
def versions_experiment(folder: Path) -> None:
    rows = tidy(prompt_id="task_id", policy="Experiment Name", judge_score="Score",
                oracle_label="Human Score")  # fmt: skip
    as_csv(folder / "evals.csv", [row | {"temperature": 0.7} for row in rows])


# ---- words ------------------------------------------------------------------------------------

AGREE = {1: "Strongly disagree", 2: "Disagree", 3: "Neutral", 4: "Agree", 5: "Strongly agree"}


def worded(base: str, words: dict[object, str], **names: str) -> list[dict[str, object]]:
    column = names.get("oracle_label", "oracle_label")
    return [
        row | {column: None if row[column] is None else words[row[column]]}
        for row in tidy(base, **names)
    ]


@export("words_pass_fail", WORDS, "evals.csv", base="binary",
        says=("'pass' = 1", "'fail' = 0"))  # fmt: skip
def words_pass_fail(folder: Path) -> None:
    as_csv(folder / "evals.csv", worded("binary", {0: "fail", 1: "pass"}, policy="model",
                                        oracle_label="human_verdict"))  # fmt: skip


@export("words_agreement", WORDS, "survey.csv", says=("'Strongly agree' = 5",))
def words_agreement(folder: Path) -> None:
    as_csv(folder / "survey.csv", worded("plain", AGREE, oracle_label="expert_score"))


@export("words_thumbs", WORDS, "feedback.jsonl", base="binary")
def words_thumbs(folder: Path) -> None:
    as_jsonl(folder / "feedback.jsonl", worded("binary", {0: "\U0001f44e", 1: "\U0001f44d"},
                                               oracle_label="human_feedback"))  # fmt: skip


@export("words_true_false", WORDS, "evals.jsonl", base="binary")
def words_true_false(folder: Path) -> None:
    as_jsonl(folder / "evals.jsonl", worded("binary", {0: False, 1: True},  # type: ignore[dict-item]
                                            oracle_label="human_label"))  # fmt: skip


@export("words_unknown", WORDS, "evals.csv", base="binary",
        asks="'works'", answer=1)  # fmt: skip
def words_unknown(folder: Path) -> None:
    as_csv(folder / "evals.csv", worded("binary", {0: "broken", 1: "works"},
                                        oracle_label="human_label"))  # fmt: skip


# ---- numbers ----------------------------------------------------------------------------------


def written(form: object, base: str = "unit") -> list[dict[str, object]]:
    return [
        row | {name: "N/A" if row[name] is None else form(row[name])  # type: ignore[operator]
               for name in ("score", "human")}
        for row in tidy(base, judge_score="score", oracle_label="human")
    ]  # fmt: skip


@export("numbers_percent", NUMBERS, "evals.csv", base="unit")
def numbers_percent(folder: Path) -> None:
    as_csv(folder / "evals.csv", written(lambda v: f"{100 * v:.0f}%"))


@export("numbers_out_of", NUMBERS, "evals.csv", base="unit")
def numbers_out_of(folder: Path) -> None:
    as_csv(folder / "evals.csv", written(lambda v: f"{4 * v:.0f} out of 4"))


@export("numbers_decimal_comma", NUMBERS, "evals.csv", base="unit")
def numbers_decimal_comma(folder: Path) -> None:
    as_csv(folder / "evals.csv", written(lambda v: f"{v:.2f}".replace(".", ",")), separator=";")


@export("numbers_gaps", NUMBERS, "evals.csv")
def numbers_gaps(folder: Path) -> None:
    gaps = ("", "-", "null", "n/a", "None")
    rows = tidy(judge_score="score", oracle_label="human")
    as_csv(folder / "evals.csv", [
        row | {"human": gaps[i % 5] if row["human"] is None else row["human"]}
        for i, row in enumerate(rows)])  # fmt: skip


# ---- bad rows and scales ----------------------------------------------------------------------


@export("bad_label_asks", BAD, "evals.csv", asks="see notes", labels=-1)
def bad_label_asks(folder: Path) -> None:
    rows = tidy(oracle_label="human")
    labelled = [row for row in rows if row["human"] is not None]
    labelled[3]["human"] = "see notes"
    as_csv(folder / "evals.csv", rows)


@export("bad_label_skipped", BAD, "evals.jsonl", "--skip-bad-rows", labels=-2,
        says=("2 unreadable labels",))  # fmt: skip
def bad_label_skipped(folder: Path) -> None:
    rows = tidy(oracle_label="human")
    labelled = [row for row in rows if row["human"] is not None]
    labelled[3]["human"] = "??!"
    labelled[9]["human"] = {"see": "notes"}
    as_jsonl(folder / "evals.jsonl", rows)


@export("bad_rows_skipped", BAD, "evals.jsonl", "--skip-bad-rows", says=("skipped 2 bad rows",))
def bad_rows_skipped(folder: Path) -> None:
    rows = tidy()
    extra = [
        rows[0] | {"prompt_id": "x1", "judge_score": "error: timeout", "oracle_label": None},
        rows[0] | {"prompt_id": "x2", "judge_score": "error: timeout", "oracle_label": None},
    ]
    as_jsonl(folder / "evals.jsonl", [*rows[:30], *extra, *rows[30:]])


@export("scale_typing_error", SCALES, "evals.csv", asks="99", labels=-1)
def scale_typing_error(folder: Path) -> None:
    rows = tidy(oracle_label="human")
    labelled = [row for row in rows if row["human"] is not None]
    labelled[5]["human"] = 99
    as_csv(folder / "evals.csv", rows)


@export("scale_sentinel", SCALES, "evals.csv", asks="-1", labels=-1, base="unit")
def scale_sentinel(folder: Path) -> None:
    rows = tidy("unit", oracle_label="human")
    labelled = [row for row in rows if row["human"] is not None]
    labelled[5]["human"] = -1
    as_csv(folder / "evals.csv", rows)


@export("scale_hundred", SCALES, "evals.csv", "--oracle-scale", "1-5", "--judge-scale", "0-100")
def scale_hundred(folder: Path) -> None:
    rows = tidy(judge_score="score")
    as_csv(folder / "evals.csv", [row | {"score": (row["score"] - 1) * 25} for row in rows])


@export("names_criteria", NAMES, "evals.csv", asks="several columns could be judge_score")
def names_criteria(folder: Path) -> None:
    rows = tidy(prompt_id="id", policy="model", judge_score="gpt4_helpfulness",
                oracle_label="human_helpfulness")  # fmt: skip
    as_csv(
        folder / "evals.csv",
        [
            row | {"gpt4_accuracy": 1 + i % 5, "human_accuracy": 1 + i % 4 if i % 3 == 0 else None}
            for i, row in enumerate(rows)
        ],
    )


@export("names_row_ids", NAMES, "evals.jsonl", same_ids=False,
        says=("'id' differs on every row",))  # fmt: skip
def names_row_ids(folder: Path) -> None:
    rows = renamed(drop=("prompt_id",), policy="model", judge_score="score", oracle_label="human")
    as_jsonl(folder / "evals.jsonl", [{"id": f"row-{i}", **row} for i, row in enumerate(rows)])


@export("names_criteria_nested", NAMES, "evals.jsonl", "--field", "judge_score=auto.helpfulness")
def names_criteria_nested(folder: Path) -> None:
    as_jsonl(
        folder / "evals.jsonl",
        [
            {
                "prompt_id": row["prompt_id"],
                "policy": row["policy"],
                "auto": {"helpfulness": row["judge_score"], "accuracy": 1 + i % 5},
                "human": {"helpfulness": row["oracle_label"], "accuracy": 1 + i % 3},
            }
            for i, row in enumerate(BASES["plain"])
        ],
    )


@export("versions_two_columns", VERSIONS, "evals.csv", "--baseline", "prod",
        asks="is it the policy?")  # fmt: skip
def versions_two_columns(folder: Path) -> None:
    rows = tidy(prompt_id="id", policy="stage", judge_score="score", oracle_label="human")
    as_csv(folder / "evals.csv", [{"model": "m1", "temperature": 0.7, **row} for row in rows])
