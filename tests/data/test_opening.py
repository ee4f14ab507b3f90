"""A path names one file: nothing in it is a pattern, a URI or an option."""

from __future__ import annotations

import contextlib
import json
import os
import resource
from pathlib import Path

import polars as pl
import pytest

from cje.analysis.doctor import examine
from cje.data import read
from cje.errors import CJEError

ROWS = [{"prompt_id": f"p{i}", "policy": "a", "judge_score": 0.25} for i in range(4)]
NEIGHBOUR = [{**row, "judge_score": 0.75} for row in ROWS]

# a name that is also a pattern, and a neighbour that the pattern matches
NAMES = [
    ("m[1]", "m1"),
    ("x*", "xy"),
    ("evals?", "evals1"),
    ("{a,b}", "a"),
    ("file:x", "x"),
    ("%41", "A"),
]
SUFFIXES = [".csv", ".tsv", ".jsonl", ".json", ".parquet"]


def write(path: Path, rows: list[dict[str, object]]) -> None:
    frame = pl.DataFrame(rows)
    with path.open("wb") as stream:
        if path.suffix == ".csv":
            frame.write_csv(stream)
        elif path.suffix == ".tsv":
            frame.write_csv(stream, separator="\t")
        elif path.suffix == ".parquet":
            frame.write_parquet(stream)
        elif path.suffix == ".json":
            stream.write(json.dumps(rows).encode())
        else:
            stream.write("\n".join(map(json.dumps, rows)).encode())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("name", "neighbour"), NAMES)
def test_a_file_named_like_a_pattern_is_read_itself(
    tmp_path: Path, name: str, neighbour: str, suffix: str
) -> None:
    write(tmp_path / f"{neighbour}{suffix}", NEIGHBOUR)
    write(tmp_path / f"{name}{suffix}", ROWS)
    data = read(tmp_path / f"{name}{suffix}")
    assert len(data) == 4
    assert data.judge_score.tolist() == [0.25] * 4


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_named_like_a_pattern_is_read_itself(tmp_path: Path, suffix: str) -> None:
    for folder, rows in (("dir1", NEIGHBOUR), ("dir[1]", ROWS)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / f"e{suffix}", rows)
    assert read(tmp_path / "dir[1]" / f"e{suffix}").judge_score.tolist() == [0.25] * 4
    assert read(tmp_path / "dir[1]").judge_score.tolist() == [0.25] * 4


def test_labels_come_from_the_named_file(tmp_path: Path) -> None:
    (tmp_path / "l[1].csv").write_text("prompt_id,label\np0,0\np1,1\n")
    (tmp_path / "l1.csv").write_text("prompt_id,label\np0,1\np1,0\n")
    data = read(ROWS, labels=tmp_path / "l[1].csv")
    assert data.oracle_label[:2].tolist() == [0.0, 1.0]


def test_doctor_measures_the_responses_of_the_named_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cje.analysis.doctor._LARGE_BYTES", 10)
    write(tmp_path / "m1.jsonl", [{**row, "response": 7} for row in NEIGHBOUR])
    write(tmp_path / "m[1].jsonl", [{**row, "response": "text"} for row in ROWS])
    assert examine(tmp_path / "m[1].jsonl").facts["rows"] == 4


def test_a_path_that_is_too_long_is_a_clear_error() -> None:
    with pytest.raises(CJEError, match=r"too long.*shorter path"):
        read("x" * 5000 + ".csv")


def test_a_path_with_a_zero_byte_is_a_clear_error() -> None:
    with pytest.raises(CJEError, match=r"no such file|not a path"):
        read("a\0b.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_many_open_files_is_a_clear_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"e{suffix}"
    write(path, ROWS)
    read(path)  # what is imported on first use needs descriptors of its own
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        with contextlib.suppress(OSError):  # until none is left
            while len(held) < 100:
                held.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(CJEError, match=r"too many open files.*ulimit -n"):
            read(path)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
