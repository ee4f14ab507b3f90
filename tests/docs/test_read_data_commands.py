"""The commands of docs/howto/read_data.md run as they are written."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cje.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "read_data.md"

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
COPIED = {
    "wide.csv": "wide_suffix/evals.csv",
    "judges.csv": "judges_prefix/evals.csv",
    "chats.jsonl": "nested_chat/chats.jsonl",
    "traces.json": "tools_langfuse/traces.json",
}


def commands() -> list[str]:
    table = PAGE.read_text().split("## From the command line")[1].split("## From Python")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [found[0] for row in rows if (found := re.findall(r"`(cje [^`]+)`", row))]


def evals(seed: int, **names: str) -> pl.DataFrame:
    """60 prompts, labels on half of them."""
    rng = np.random.default_rng(seed)
    score = rng.random(60).round(3)
    label = [round(float(s), 2) if i % 2 else None for i, s in enumerate(score)]
    frame = pl.DataFrame(
        {"prompt_id": [f"q{i}" for i in range(60)], "judge_score": score, "label": label}
    )
    return frame.rename(names)


def both(**names: str) -> pl.DataFrame:
    return pl.concat([evals(i).with_columns(policy=pl.lit(n)) for i, n in enumerate("ab")]).rename(
        names
    )


def make_files(command: str) -> None:
    """What the command needs, in the current folder."""
    if "pairs.csv" in command:
        rng = np.random.default_rng(0)
        word = np.array(["model_a", "model_b", "tie"])
        pl.DataFrame(
            {
                "prompt_id": [f"q{i}" for i in range(80)],
                "model_a": ["prod", "cand"] * 40,
                "model_b": ["cand", "prod"] * 40,
                "judge_winner": word[rng.integers(0, 3, 80)],
                "human_winner": [*word[rng.integers(0, 3, 40)], *[""] * 40],
            }
        ).write_csv("pairs.csv")
    elif "prod.csv" in command:
        evals(0).write_csv("prod.csv")
        evals(1).write_csv("cand.csv")
    elif "run_17" in command:
        evals(0).write_ndjson("run_17.jsonl")
        evals(1).write_ndjson("run_18.jsonl")
    elif copied := next((name for name in COPIED if name in command), None):
        shutil.copy(EXPORTS / COPIED[copied], copied)
        if copied == "wide.csv":
            text = Path(copied).read_text().replace("_prod", "_A").replace("_cand", "_B")
            Path(copied).write_text(text)
    elif "model,prompt_version" in command:
        pl.concat(
            both(policy="prompt_version").with_columns(model=pl.lit(m)) for m in ("m1", "m2")
        ).write_ndjson("evals.jsonl")
    elif "gpt4_points" in command:
        both(judge_score="gpt4_points", label="reviewer", prompt_id="qid").write_csv("evals.csv")
    elif "prompt_version" in command:
        both(policy="prompt_version").with_columns(model=pl.lit("m")).write_ndjson("evals.jsonl")
    elif "--labels" in command:
        evals(0).drop("label").rename({"prompt_id": "id"}).write_ndjson("evals.jsonl")
        evals(0).drop_nulls().select(question_id="prompt_id", label="label").write_excel(
            "labels.xlsx"
        )
    elif "--label-map" in command:
        word = pl.col("label").map_elements(
            lambda v: "excellent" if v > 0.7 else "fair" if v > 0.4 else "useless",
            return_dtype=pl.String,
        )
        both().with_columns(label=word).write_csv("evals.csv")
    elif ".xlsx" in command:
        both().write_excel("evals.xlsx", worksheet="results")
    elif "huge.parquet" in command:
        both().write_parquet("huge.parquet")
    elif "::" in command:
        with sqlite3.connect("evals.db") as connection:
            both().to_pandas().to_sql("results", connection, index=False)
    else:
        both().write_csv("evals.csv")


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_files(command)
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, (done.exception, done.output[-500:])


def test_the_page_shows_ten_commands() -> None:
    assert len(commands()) >= 10
