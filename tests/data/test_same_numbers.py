"""Renaming, reordering, reshaping or re-encoding a file changes no number."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cje.data import Dataset, read
from cje.errors import CJEError

Row = dict[str, Any]
QUICK = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip

NAMES = {
    "prompt_id": ["prompt_id", "question_id", "Example ID", "taskId", "id", "item"],
    "policy": ["policy", "model", "System", "prompt_version", "variant", "modelName"],
    "judge_score": ["judge_score", "score", "LLM Score", "gpt4_score", "claude_grade"],
    "oracle_label": ["oracle_label", "human", "Human Label", "gold", "annotator_score"],
}


@st.composite
def evaluations(draw: st.DrawFn) -> list[Row]:
    """Two versions on shared prompts; whole numbers on 1-5, labels on some."""
    n = draw(st.integers(3, 12))
    point = st.integers(1, 5)
    return [
        {"prompt_id": f"q{i}", "policy": policy, "judge_score": draw(point),
         "oracle_label": draw(st.one_of(point, point, st.none())) if i else 5 - 4 * (policy == "A")}
        for policy in ("A", "B")
        for i in range(n)
    ]  # fmt: skip


def contents(data: Dataset) -> list[tuple[Any, ...]]:
    """The rows of a data set, whatever their order, on the user's scale."""
    rows = zip(
        data.policy.decode(), data.prompt_id.decode(),
        data.judge_scale.from_unit(data.judge_score).tolist(),
        [None if y != y else y for y in data.oracle_scale.from_unit(data.oracle_label).tolist()],
        strict=True,
    )  # fmt: skip
    return sorted(rows, key=lambda row: row[:2])


SCALES: dict[str, Any] = {"judge_scale": (1, 5), "oracle_scale": (1, 5)}


@QUICK
@given(rows=evaluations(), data=st.data())
def test_other_names_and_another_order_change_nothing(rows: list[Row], data: st.DataObject) -> None:
    names = {role: data.draw(st.sampled_from(known)) for role, known in NAMES.items()}
    columns = data.draw(st.permutations(list(rows[0])))
    order = data.draw(st.permutations(range(len(rows))))
    changed = [{names[c]: rows[i][c] for c in columns} for i in order]
    assert contents(read(changed, **SCALES)) == contents(read(rows, **SCALES))


PATTERNS = ["{role}_{version}", "{version}_{role}", "{version}.{role}", "{version} {role}",
            "{role} - {version}", "{version}|{role}"]  # fmt: skip


@QUICK
@given(rows=evaluations(), pattern=st.sampled_from(PATTERNS), nested=st.booleans())
def test_wide_and_long_are_the_same(rows: list[Row], pattern: str, nested: bool) -> None:
    words = {"judge_score": "score", "oracle_label": "human"}
    wide: dict[str, Row] = {}
    for row in rows:
        line = wide.setdefault(row["prompt_id"], {"id": row["prompt_id"]})
        own = {words[role]: row[role] for role in words}
        if nested:
            line[row["policy"]] = own
        else:
            line |= {pattern.format(role=k, version=row["policy"]): v for k, v in own.items()}
    found = read(list(wide.values()), **SCALES)
    assert contents(found) == contents(read(rows, **SCALES))
    assert any("2 versions side by side" in note for note in found.metadata["reading"])


def encodings(rows: list[Row], folder: Path) -> dict[str, Any]:
    """The rows as files and frames of every kind."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    (folder / "semicolons.csv").write_text(text.getvalue())
    frame.write_csv(folder / "commas.csv")
    frame.write_csv(folder / "tabs.tsv", separator="\t")
    frame.write_parquet(folder / "a.parquet")
    frame.write_ipc(folder / "a.arrow")
    frame.write_ndjson(folder / "a.jsonl")
    (folder / "a.json").write_text(json.dumps(rows))
    pandas = pd.DataFrame(rows)
    import duckdb

    kinds = {path.name: path for path in sorted(folder.iterdir())}
    return kinds | {
        "polars": frame, "lazy": frame.lazy(), "pandas": pandas,
        "pandas, objects": pandas.astype(object), "pyarrow": frame.to_arrow(), "generator": None,
        "duckdb": duckdb.sql("SELECT * FROM frame"),
    }  # fmt: skip


@settings(QUICK, max_examples=5)
@given(rows=evaluations())
def test_every_encoding_reads_the_same(
    rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = contents(read(rows, **SCALES))
    for kind, given_ in encodings(rows, tmp_path_factory.mktemp("files")).items():
        source = (row for row in rows) if kind == "generator" else given_
        assert contents(read(source, **SCALES)) == wanted, kind


CELLS = st.sampled_from(
    [1, 2, 5, 0.5, "3", " 4 ", "n/a", "", None, True, "pass", "80%", "4/5", "x", [1], 10**400]
)  # fmt: skip


@settings(QUICK, max_examples=30)
@given(cells=st.lists(CELLS, min_size=2, max_size=6))
def test_mixed_cells_give_the_same_numbers_or_the_same_error_from_a_file_and_a_frame(
    cells: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [
        {"prompt_id": f"q{i}", "judge_score": 0.5, "oracle_label": cell}
        for i, cell in enumerate(cells)
    ]
    path = tmp_path_factory.mktemp("mixed") / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    pandas = pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})
    objects = pl.DataFrame(
        {
            "prompt_id": columns["prompt_id"],
            "judge_score": columns["judge_score"],
            "oracle_label": pl.Series(columns["oracle_label"], dtype=pl.Object),
        }
    )
    found = {name: outcome(source) for name, source in
             {"file": path, "rows": rows, "generator": iter(rows), "pandas": pandas,
              "polars": objects}.items()}  # fmt: skip
    assert len(set(map(str, found.values()))) == 1, found


def outcome(source: Any) -> Any:
    """The labels, or what is wrong with them."""
    try:
        data = read({"a": source}, min_rows=1)
    except CJEError as error:
        return error.what
    return data.oracle_scale.from_unit(data.oracle_label).tolist()


@QUICK
@given(
    header=st.lists(
        st.sampled_from(
            ["id", "prompt", "score", "score_A", "score_B", "human_A", "human_1", "human_2",
             "judge_gpt4", "judge_claude", "model", "winner", "A", "B", "A_human", "human.A",
             "annotator", "epoch", "label", "response_A", "response_B", "model_A", "metadata.score"]
        ),
        min_size=1, max_size=8, unique=True,
    ),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_any_shape_is_read_or_answered_with_an_error(header: list[str], seed: int) -> None:
    draw = random.Random(seed)
    values = [1, 2, 3, 4, 5, None, "A", "B", "good", "bad", 0.5, True]
    rows = [{name: draw.choice(values) for name in header} for _ in range(8)]
    try:
        data = read(rows)
    except CJEError:
        return
    assert len(data)
    assert ((data.judge_score >= 0) & (data.judge_score <= 1)).all()
