"""Labels files, sheets and options as people in a hurry give them: damaged, cut, contradictory."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cje.cli.main import app
from cje.data import read
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.label.files import import_labels
from cje.label.schema import create_file
from cje.label.study import Study, StudyOptions
from tests.label.conftest import put, rows
from tests.label.test_store import Make, path_of


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"item,label\ninf,3\nnan,3\n1e400,2\n"),
        ("a.json", b'[{"data": 5, "annotations": [{"result": [5]}]}]'),
        ("b.json", b'[{"data": {"item": 1}, "annotations": 5}]'),
        ("c.json", b'[{"data": {"item": 1}, "annotations": [7]}]'),
        ("d.json", b"[" * 100_000),
        ("a.xlsx", b"junk"),
        ("a.parquet", b"junk"),
        ("latin.csv", "item,label,note\n1,3,caf\u00e9\n".encode("latin-1")),
        ("short.csv", b"item,label\n1\n"),
    ],
)
def test_a_file_that_holds_no_labels_is_refused_with_a_message(
    make: Make, tmp_path: Path, name: str, content: bytes
) -> None:
    study = make(count=10)
    file = tmp_path / name
    file.write_bytes(content)
    try:
        done = import_labels(path_of(study), file, rater="zoe")
    except CJEError:
        return
    assert done.kept == 0
    assert len(done.refused) == 3


def test_a_workbook_that_unpacks_to_gigabytes_is_refused_before_it_does(
    make: Make, tmp_path: Path
) -> None:
    file = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"")
    content = file.read_bytes()
    size = (3 * 2**29).to_bytes(4, "little")  # the directory announces 1.5 GB
    at = content.index(b"PK\x01\x02") + 24
    file.write_bytes(content[:at] + size + content[at + 4 :])
    with pytest.raises(CJEError, match="unpacks to more than 1 GB"):
        import_labels(path_of(make(count=10)), file, rater="zoe")


def test_a_sheet_saved_with_semicolons_and_with_a_long_text_comes_back(
    make: Make, tmp_path: Path
) -> None:
    study = make(count=10)
    file = tmp_path / "bob.csv"
    long = "x" * 200_000  # beyond the cell that Python's csv reads by default
    lines = [f"{k};a, b;{long if k == 1 else 'short'};{1 + k % 5}" for k in range(1, 11)]
    file.write_text("item;prompt;response;label\n" + "\n".join(lines), encoding="utf-8")
    assert import_labels(path_of(study), file, rater="bob").kept == 10


def test_the_same_label_in_another_spelling_is_not_a_contradiction(
    make: Make, tmp_path: Path
) -> None:
    study = make(count=10)
    file = tmp_path / "bob.csv"
    for label in ("4", "4.0"):
        file.write_text(f"item,label\n1,{label}\n")
        assert import_labels(path_of(study), file, rater="bob").refused == ()


def test_an_undo_sent_again_withdraws_one_answer_only(make: Make) -> None:
    store = make(count=10).store
    for word in "12":
        put(store, "alice", store.take("alice", "tab-1"), word)
    for _ in range(2):
        found = store.undo("alice", "undo-key-1")
        assert found is not None
        assert found.id == 2
    assert store.progress("alice")["done"] == 1


def test_a_design_that_cannot_run_leaves_no_file(tmp_path: Path) -> None:
    bare = [{"prompt_id": str(i), "policy": "a", "response": "text"} for i in range(30)]
    data = read(bare, text=True, require=(), min_rows=1)
    with pytest.raises(CJEError, match="judge score"):
        Study.create(tmp_path / "x.db", data, StudyOptions(count=10, design="active", scale="1-5"))
    assert not (tmp_path / "x.db").exists()


def test_a_labels_file_without_a_study_is_refused(data: Dataset, tmp_path: Path) -> None:
    create_file(tmp_path / "x.db").close()  # killed before the first commit
    with pytest.raises(CJEError, match="stopped while making it"):
        Study.open(tmp_path / "x.db", data)


@pytest.mark.parametrize(
    "option", [["--count", "11"], ["--scale", "1-7"], ["--design", "active"], ["--overlap", "0.5"]]
)
def test_resuming_with_another_option_is_refused(
    data: Dataset, tmp_path: Path, option: list[str]
) -> None:
    file, labels = tmp_path / "data.jsonl", tmp_path / "labels.db"
    file.write_text("\n".join(json.dumps(row) for row in rows()))
    begun = read(file, text=True, judge_scale=(0, 1))
    Study.create(labels, begun, StudyOptions(count=10, scale="1-5")).store.close()
    done = CliRunner().invoke(app, ["label", str(file), "--labels", str(labels), "--judge-scale",
                                    "0-1", "--port", "0", *option])  # fmt: skip
    assert isinstance(done.exception, CJEError)
    assert f"begun with another {option[0]}" in str(done.exception)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--level", "95"], "confidence level"),
        (["--label-cost", "nan"], "label_cost must be a finite number"),
        (["--margin", "0.1"], "--baseline and --candidate"),
        (["--port", "99999"], "port"),
    ],
)
def test_a_wrong_option_makes_no_labels_file(tmp_path: Path, option: list[str], words: str) -> None:
    file, labels = tmp_path / "data.jsonl", tmp_path / "labels.db"
    file.write_text("\n".join(json.dumps(row) for row in rows()))
    done = CliRunner().invoke(app, ["label", str(file), "--labels", str(labels), "--judge-scale",
                                    "0-1", "--port", "0", *option])  # fmt: skip
    assert isinstance(done.exception, CJEError)
    assert words in str(done.exception)
    assert not labels.exists()


def test_convert_joins_a_labels_file(make: Make, tmp_path: Path) -> None:
    study = make(count=10)
    put(study.store, "alice", study.store.take("alice", "tab-1"), "4")
    source, out = tmp_path / "rows.jsonl", tmp_path / "out.csv"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    options = ["--labels", str(path_of(study)), "--judge-scale", "0-1"]
    done = CliRunner().invoke(app, ["convert", str(source), str(out), *options])
    assert done.exit_code == 0, done.exception
    assert read(out, judge_scale=(0, 1), oracle_scale=(1, 5)).n_labelled == 1
