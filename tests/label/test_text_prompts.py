"""Labels files of data whose prompts are known by their text, read with the data again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje import CJEError, analyze_dataset
from cje.data import read
from cje.label.study import Study, StudyOptions
from tests.label.conftest import put

N_PROMPTS = 60


def _rows(*, unscored: int = 0) -> list[dict[str, Any]]:
    """Rows without a prompt_id; the first prompts' rows of one policy have no score."""
    rng = np.random.default_rng(4)
    return [
        {"question": f"Question {i}? ", "answer": f"Answer {name} {i}", "model": name,
         "judge_score": None if i < unscored and name == "new" else round(float(rng.random()), 3)}
        for i in range(N_PROMPTS) for name in ("old", "new")
    ]  # fmt: skip


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def _label(source: Path, labels: Path, **options: Any) -> Path:
    """A finished study of the file, read as `cje label` reads it."""
    data = read(source, text=True, require=(), min_rows=1)
    chosen = {"count": N_PROMPTS, "baseline": "old", "candidate": "new"} | options
    study = Study.create(labels, data, StudyOptions(**chosen))
    words = ("A", "B") if options.get("pairs") else ("pass", "fail")
    for k in range(int(chosen["count"])):
        item = study.next_item("rater", "tab")
        assert item is not None
        put(study.store, "rater", item, words[k % 3 == 0])
    study.store.close()
    return labels


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "single"])
@pytest.mark.parametrize("write", [_jsonl, _csv])
def test_labels_are_found_by_the_text_of_the_prompt(
    tmp_path: Path, write: Callable[[Path, list[dict[str, Any]]], Path], pairs: bool
) -> None:
    source = write(tmp_path / f"rows.{write.__name__[1:]}", _rows())
    labels = _label(source, tmp_path / "labels.db", pairs=pairs)
    result = analyze_dataset(source, labels=labels)
    assert result.estimator == ("pairwise" if pairs else "direct")
    assert f"{N_PROMPTS} " in str(result.metadata["reading"])


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "single"])
def test_labels_of_rows_that_reading_skips_are_left_out_and_counted(
    tmp_path: Path, pairs: bool
) -> None:
    source = _jsonl(tmp_path / "rows.jsonl", _rows(unscored=5))
    count = N_PROMPTS if pairs else 2 * N_PROMPTS
    labels = _label(source, tmp_path / "labels.db", pairs=pairs, count=count)
    with pytest.raises(CJEError, match="judge_score is missing"):
        analyze_dataset(source, labels=labels)
    result = analyze_dataset(source, labels=labels, skip_bad_rows=True)
    what = "answers" if pairs else "labels"
    assert f"5 {what} of {labels} belong to skipped rows" in str(result.metadata["reading"])
    assert result.metadata["skipped"]["rows"] == 5


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "single"])
def test_labels_of_other_data_are_refused_where_more_miss_than_rows_were_skipped(
    tmp_path: Path, pairs: bool
) -> None:
    labels = _label(_jsonl(tmp_path / "rows.jsonl", _rows()), tmp_path / "labels.db", pairs=pairs)
    changed = _rows(unscored=5)
    for row in changed[40:60]:
        row["question"] += " Please."
    other = _jsonl(tmp_path / "other.jsonl", changed)
    with pytest.raises(CJEError, match=r"rows that the data do not have.*--field"):
        analyze_dataset(other, labels=labels, skip_bad_rows=True)
