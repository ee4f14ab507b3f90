"""Versions are policies: what would be pooled in silence is asked about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cje.cli.main import app
from cje.data import read
from cje.errors import CJEError


def rows(column: str = "prompt_version", **more: object) -> list[dict[str, object]]:
    return [
        {"question_id": f"q{i // 2}", "score": i / 50, column: ["v1", "v2"][i % 2], **more}
        for i in range(40)
    ]


@pytest.mark.parametrize(
    "column",
    ["prompt_version", "version", "variant", "experiment", "condition", "arm", "group", "run",
     "agent", "config", "provider", "Prompt Version"],
)  # fmt: skip
def test_a_column_with_the_name_of_versions_is_the_policy_and_reported(column: str) -> None:
    data = read(rows(column))
    assert data.policies == ("v1", "v2")
    assert any(f"policy read from '{column}'" in note for note in data.metadata["reading"])


@pytest.mark.parametrize("column", ["which_one", "setup", "prompt_version"])
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_an_unused_column_that_repeats_over_the_prompts_is_asked_about(
    tmp_path: Path, column: str, suffix: str
) -> None:
    import polars as pl

    table = rows(column, model="gpt-4")
    path = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, table)))
    elif suffix == "csv":
        pl.DataFrame(table).write_csv(path)
    else:
        pl.DataFrame(table).write_parquet(path)
    with pytest.raises(CJEError, match=rf"'{column}' has 2 values over the same prompts"):
        read(path)
    assert read(path, fields={"policy": column}).policies == ("v1", "v2")
    done = CliRunner().invoke(app, ["doctor", str(path)])
    assert f"--policy-column {column}" in str(done.exception)
    done = CliRunner().invoke(app, ["doctor", str(path), "--policy-column", column])
    assert "of 2 policies" in done.output
    done = CliRunner().invoke(app, ["doctor", str(path), "--policy-column", "none"])
    assert "of 1 policy" in done.output


def test_a_topic_is_not_asked_about() -> None:
    table = [{**row, "topic": ["a", "b"][int(str(row["question_id"])[1:]) % 2]} for row in rows()]
    assert read(table).policies == ("v1", "v2")
    plain = [
        {"question_id": f"q{i}", "score": i / 50, "topic": "ab"[i % 2], "setup": "xy"[i % 2]}
        for i in range(40)
    ]
    assert len(read(plain).policies) == 1


def test_a_subgroup_column_named_group_is_not_the_policy() -> None:
    data = read(rows("model", group="x"), groups=["group"])
    assert data.policies == ("v1", "v2")
    assert data.groups["group"].names == ("x",)
    alone = [{"id": i, "score": i / 50, "group": "xy"[i % 2]} for i in range(40)]
    assert len(read(alone, groups=["group"]).policies) == 1
