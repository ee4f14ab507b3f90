"""Exports in other file formats, and with their labels in another file."""

from __future__ import annotations

import json
from pathlib import Path

from export import export, of, renamed, tidy
from writing import (
    as_arrow,
    as_csv,
    as_duckdb,
    as_json,
    as_jsonl,
    as_ods,
    as_sqlite,
    as_workbook,
    cells,
    packed,
)

FORMATS = "file formats"
LABELS = "labels from another file"


@export("format_workbook", FORMATS, "evals.xlsx", "--sheet", "results")
def format_workbook(folder: Path) -> None:
    as_workbook(
        folder / "evals.xlsx",
        {
            "notes": [["made by hand"]],
            "results": cells(
                tidy(prompt_id="ID", policy="Model", judge_score="Score", oracle_label="Human")
            ),
        },
    )


@export("format_ods", FORMATS, "evals.ods")
def format_ods(folder: Path) -> None:
    as_ods(folder / "evals.ods", cells(tidy(prompt_id="id", policy="model", judge_score="score",
                                            oracle_label="human")))  # fmt: skip


@export("format_tsv", FORMATS, "evals.tsv")
def format_tsv(folder: Path) -> None:
    as_csv(folder / "evals.tsv", renamed(), separator="\t")


@export("format_csv_gz", FORMATS, "evals.csv.gz")
def format_csv_gz(folder: Path) -> None:
    plain = folder / "evals.csv"
    as_csv(plain, tidy())
    packed(folder / "evals.csv.gz", plain.read_bytes())
    plain.unlink()


@export("format_jsonl_zst", FORMATS, "evals.jsonl.zst")
def format_jsonl_zst(folder: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in tidy())
    packed(folder / "evals.jsonl.zst", text.encode())


@export("format_feather", FORMATS, "evals.feather")
def format_feather(folder: Path) -> None:
    as_arrow(folder / "evals.feather", tidy())


@export("format_json_array", FORMATS, "evals.json")
def format_json_array(folder: Path) -> None:
    as_json(folder / "evals.json", tidy())


@export("format_parquet", FORMATS, "evals.parquet")
def format_parquet(folder: Path) -> None:
    import polars as pl

    pl.DataFrame(tidy()).write_parquet(folder / "evals.parquet")


@export("format_sqlite", FORMATS, "evals.db", asks="which table?")
def format_sqlite(folder: Path) -> None:
    as_sqlite(folder / "evals.db", {"evals": tidy(), "users": [{"id": 1, "name": "a"}]})


@export("format_sqlite_query", FORMATS, "evals.db::SELECT * FROM runs JOIN labels USING (run_id)")
def format_sqlite_query(folder: Path) -> None:
    rows = [row | {"run_id": i} for i, row in enumerate(tidy(policy="version"))]
    as_sqlite(folder / "evals.db", {
        "runs": [{k: v for k, v in row.items() if k != "oracle_label"} for row in rows],
        "labels": [{"run_id": row["run_id"], "human_label": row["oracle_label"]} for row in rows],
    })  # fmt: skip


@export("format_duckdb", FORMATS, "evals.duckdb::evals")
def format_duckdb(folder: Path) -> None:
    as_duckdb(folder / "evals.duckdb", "evals", tidy())


@export("format_stdin", FORMATS, "-", stdin="evals.jsonl")
def format_stdin(folder: Path) -> None:
    as_jsonl(folder / "evals.jsonl", tidy())


@export("format_hugging_face", FORMATS, "evals")
def format_hugging_face(folder: Path) -> None:
    target = folder / "evals"
    target.mkdir(exist_ok=True)
    as_arrow(target / "data-00000-of-00001.arrow", renamed(), stream=True)
    as_json(
        target / "state.json",
        {
            "_data_files": [{"filename": "data-00000-of-00001.arrow"}],
            "_fingerprint": "0",
            "_format_columns": None,
            "_split": None,
        },
    )
    as_json(target / "dataset_info.json", {"citation": "", "description": "", "features": {}})


@export("labels_workbook", LABELS, "evals.jsonl", "--labels", "labels.xlsx", "--on",
        "id=question_id", "--on", "model=version")  # fmt: skip
def labels_workbook(folder: Path) -> None:
    rows = tidy(prompt_id="id", policy="model")
    as_jsonl(
        folder / "evals.jsonl",
        [{k: v for k, v in row.items() if k != "oracle_label"} for row in rows],
    )
    labelled = [row for row in rows if row["oracle_label"] is not None]
    as_workbook(folder / "labels.xlsx", {"labels": cells([
        {"question_id": row["id"], "version": row["model"], "rating": row["oracle_label"]}
        for row in labelled])})  # fmt: skip


@export("labels_raters", LABELS, "evals.csv", "--labels", "labels.csv", base="raters")
def labels_raters(folder: Path) -> None:
    rows = tidy("raters")
    as_csv(
        folder / "evals.csv",
        [{k: v for k, v in row.items() if k != "oracle_label"} for row in rows],
    )
    as_csv(
        folder / "labels.csv",
        [
            {"prompt_id": row["prompt_id"], "policy": row["policy"], "rater": name, "label": value}
            for row in rows
            for name, value in row["oracle_label"].items()
            if value is not None
        ],
    )


@export("labels_two_files", LABELS, "prod.jsonl", "cand.jsonl", "--baseline", "prod",
        "--labels", "labels.csv", "--on", "prompt_id", "--on", "policy")  # fmt: skip
def labels_two_files(folder: Path) -> None:
    rows = tidy()
    for name in ("prod", "cand"):
        as_jsonl(
            folder / f"{name}.jsonl",
            [{k: v for k, v in row.items() if k != "oracle_label"} for row in of(rows, name)],
        )
    as_csv(
        folder / "labels.csv",
        [
            {"prompt_id": row["prompt_id"], "policy": row["policy"], "human": row["oracle_label"]}
            for row in rows
            if row["oracle_label"] is not None
        ],
    )
