"""Every row of a JSON Lines file decides what is read: labels may start anywhere, in any form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cje.analysis.analyze import analyze_dataset
from cje.analysis.doctor import examine
from cje.data import blocks, read
from cje.errors import CJEError

SPACES = [(", ", ": "), (",", ":"), (" , ", " : ")]


def rows_of(n: int) -> list[dict[str, object]]:
    return [
        {"prompt_id": f"p{i}", "policy": "a", "judge_score": (i % 11) / 10, "text": f'say "x": {i}'}
        for i in range(n)
    ]


def write(path: Path, rows: list[dict[str, object]], style: int = 0) -> Path:
    path.write_text("".join(json.dumps(row, separators=SPACES[style]) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("first", [0, 299, 301, 5000, 9999])
@pytest.mark.parametrize("key", ["oracle_label", "gold", "humanScore"])
def test_labels_that_start_late_are_read(tmp_path: Path, key: str, first: int) -> None:
    rows = rows_of(10_000)
    rows[first][key] = 1.0
    assert read(write(tmp_path / "a.jsonl", rows)).n_labelled == 1


def test_raters_that_start_late_are_read(tmp_path: Path) -> None:
    rows = rows_of(3000)
    for i in range(2000, 2134):
        rows[i]["oracle_label"] = {"ann": 1.0, **({"bob": 0.0} if i > 2100 else {})}
    data = read(write(tmp_path / "a.jsonl", rows))
    assert data.n_labelled == 134
    assert data.rater_labels is not None
    assert len(data.rater_labels) == 134 + 33


def test_a_label_column_that_changes_its_name_is_a_question(tmp_path: Path) -> None:
    rows = rows_of(1000)
    for i, row in enumerate(rows):
        row["human_label" if i < 500 else "human_score"] = 1.0
    with pytest.raises(CJEError, match="several columns could be oracle_label"):
        read(write(tmp_path / "a.jsonl", rows))


def test_numbers_and_objects_in_one_label_column_are_an_error(tmp_path: Path) -> None:
    rows = rows_of(1000)
    for i, row in enumerate(rows):
        row["oracle_label"] = {"ann": 1.0} if i % 5 == 4 else 0.5
    for source in (rows, write(tmp_path / "a.jsonl", rows)):
        with pytest.raises(CJEError, match=r"oracle_label.* (not a number|not an object)"):
            read(source)


VALUES = st.sampled_from([1, 0, 0.5, 1.0, None])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(2, 60),
    labels=st.dictionaries(st.integers(0, 59), VALUES, max_size=20),
    key=st.sampled_from(["oracle_label", "label", "human", "Human Score", "gold"]),
    extra=st.dictionaries(
        st.integers(0, 59),
        st.sampled_from(
            [("metadata", {"a": 1}), ("x\\", 1), ("", 2), ("é", [1]), ("note", 'a "label": 1'),
             ("x", 1), ("x", "y"), ("x", True), ("n", None), ("judge_score2", {"label": "z"})]
        ),
        max_size=10,
    ),
    style=st.integers(0, 2),
    block=st.sampled_from([64, 500, 4096, 2**22]),
    odd=st.sampled_from(["", "twice", "text", "list", "surrogate", "nested"]),
    at=st.integers(0, 59),
)  # fmt: skip
def test_labels_read_are_labels_written_or_an_error(
    tmp_path: Path,
    monkeypatch_session: pytest.MonkeyPatch,
    n: int,
    labels: dict[int, object],
    key: str,
    extra: dict[int, tuple[str, object]],
    style: int,
    block: int,
    odd: str,
    at: int,
) -> None:
    rows = rows_of(n)
    for i, (name, value) in extra.items():
        if i < n:
            rows[i][name] = value
    for i, value in labels.items():
        if i < n:
            rows[i][key] = value
    lines = [json.dumps(row, separators=SPACES[style]) for row in rows]
    at %= n
    if odd == "twice":
        lines[at] = lines[at][:-1] + f', "{key}": 1, "{key}": 0}}'
    elif odd == "surrogate":
        lines[at] = lines[at].replace('"p', '"\\ud800p', 1)
    elif odd in ("text", "list", "nested"):
        rows[at][key] = {"text": "excellent?", "list": ["a"], "nested": {"deep": {"er": 1}}}[odd]
        lines[at] = json.dumps(rows[at])
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch_session.setattr(blocks, "_BLOCK_BYTES", block)
    try:
        data = read(path)
    except CJEError:
        return
    assert odd in ("", "text")
    if odd == "text" and data.n_labelled == 0 and not any(r.get(key) == 0 for r in rows):
        return  # a text column is not taken for labels, and is listed as not used
    written = np.array([np.nan if r.get(key) is None else float(r[key]) for r in rows])  # type: ignore[arg-type]
    np.testing.assert_array_equal(data.oracle_label, written)


@pytest.fixture
def monkeypatch_session() -> object:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize("line", ["a line of a log", "[1, 2]", '{"prompt_id": "p'])
def test_a_file_that_is_not_json_lines_fails_before_it_is_surveyed(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", rows_of(1000))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:150], line, *lines[150:]]))
    skipped = read(path, skip_bad_rows=True)
    assert len(skipped) == 1000  # the rows behind the bad one are still read
    monkeypatch.setattr("cje.data.jsonl.map_blocks", lambda *_: pytest.fail("the file was read"))
    for call in (read, analyze_dataset, examine):
        with pytest.raises(CJEError, match=r"row 151"):
            call(path)


def test_a_judge_score_that_starts_late_is_found(tmp_path: Path) -> None:
    rows = rows_of(5000)
    for row in rows[:4000]:
        row.pop("judge_score")
    with pytest.raises(CJEError, match="judge_score is missing"):  # found, and empty at first
        read(write(tmp_path / "a.jsonl", rows))
    assert len(read(tmp_path / "a.jsonl", skip_bad_rows=True)) == 1000
