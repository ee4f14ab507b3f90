"""The same table in every file format is the same data set."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cje.cli.main import app
from cje.data import Dataset, read
from cje.errors import CJEError, MissingExtraError

ROWS = [
    {
        "prompt_id": f"p{i // 2}",
        "policy": "ab"[i % 2],
        "judge_score": i / 20,
        "oracle_label": float(i % 2) if i % 3 == 0 else None,
    }
    for i in range(20)
]
FRAME = pl.DataFrame(ROWS)


@pytest.fixture
def expected() -> Dataset:
    return read(ROWS)


def csv_bytes(separator: str = ",") -> bytes:
    stream = io.BytesIO()
    FRAME.write_csv(stream, separator=separator)
    return stream.getvalue()


def jsonl_bytes() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def write_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    FRAME.to_pandas().to_sql("evals", connection, index=False)
    connection.close()


def write_duckdb(path: Path) -> None:
    connection = duckdb.connect(str(path))
    frame = FRAME.to_arrow()  # noqa: F841 (DuckDB finds it by its name)
    connection.execute("CREATE TABLE evals AS SELECT * FROM frame")
    connection.close()


WRITERS = {
    "a.tsv": lambda path: path.write_bytes(csv_bytes("\t")),
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(csv_bytes())),
    "a.csv.zst": lambda path: path.write_bytes(zstd(csv_bytes())),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(jsonl_bytes())),
    "a.jsonl.zst": lambda path: path.write_bytes(zstd(jsonl_bytes())),
    "a.json": lambda path: path.write_text(json.dumps(ROWS)),
    "a.json.gz": lambda path: path.write_bytes(gzip.compress(json.dumps(ROWS).encode())),
    "a.arrow": lambda path: FRAME.write_ipc(path),
    "a.feather": lambda path: FRAME.write_ipc(path, compression="zstd"),
    "stream.arrow": lambda path: FRAME.write_ipc_stream(path),
    "a.xlsx": lambda path: FRAME.write_excel(path),
    "a.sqlite": write_sqlite,
    "a.db": write_sqlite,
    "a.duckdb": write_duckdb,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_data(tmp_path: Path, name: str, expected: Dataset) -> None:
    WRITERS[name](tmp_path / name)
    assert read(tmp_path / name) == expected


@pytest.mark.parametrize("content", [csv_bytes(), jsonl_bytes(), json.dumps(ROWS).encode()])
def test_standard_input_is_read(content: bytes, expected: Dataset) -> None:
    code = "from cje.data import read; d = read('-'); print(len(d), d.judge_score.sum())"
    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True)
    assert done.stdout.split() == [b"20", str(expected.judge_score.sum()).encode()]


def test_a_hugging_face_data_set_on_disk_is_read(tmp_path: Path, expected: Dataset) -> None:
    names = []
    for i in range(2):
        names.append(f"data-{i:05}-of-00002.arrow")
        FRAME[i * 10 : i * 10 + 10].write_ipc_stream(tmp_path / names[-1])
    (tmp_path / "dataset_info.json").write_text("{}")
    state = {"_data_files": [{"filename": name} for name in names], "_split": "test"}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert read(tmp_path) == expected


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow"])
def test_a_converted_file_is_the_same_data(tmp_path: Path, suffix: str, expected: Dataset) -> None:
    FRAME.write_excel(tmp_path / "a.xlsx")
    out = tmp_path / f"out[1].{suffix}"
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "a.xlsx"), str(out)])
    assert done.exit_code == 0, done.exception
    assert read(out) == expected


def test_a_generator_of_rows_is_read(expected: Dataset) -> None:
    assert read(row for row in ROWS) == expected


def test_a_duckdb_relation_is_read(expected: Dataset) -> None:
    frame = FRAME.to_arrow()  # noqa: F841 (DuckDB finds it by its name)
    with duckdb.connect() as connection:
        assert read(connection.sql("SELECT * FROM frame")) == expected


@pytest.mark.parametrize("options", [{"sheet": "evals"}, {"on": "prompt_id"}])
def test_an_option_that_has_nothing_to_act_on_is_refused(
    tmp_path: Path, options: dict[str, str]
) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    with pytest.raises(CJEError, match=r"not a workbook|no table of labels"):
        read(tmp_path / "a.csv", **options)


def test_a_sheet_is_chosen_by_name(tmp_path: Path, expected: Dataset) -> None:
    with pd.ExcelWriter(tmp_path / "a.xlsx", engine="xlsxwriter") as book:
        pd.DataFrame({"remark": ["x"]}).to_excel(book, sheet_name="notes", index=False)
        FRAME.to_pandas().to_excel(book, sheet_name="evals", index=False)
    data = read(tmp_path / "a.xlsx", sheet="evals")
    assert data == expected
    assert any("ignored: notes" in note for note in data.metadata["reading"])
    with pytest.raises(CJEError, match=r"no such sheet.*notes, evals"):
        read(tmp_path / "a.xlsx", sheet="evils")


def test_a_table_or_a_query_of_a_database_is_read(tmp_path: Path, expected: Dataset) -> None:
    path = tmp_path / "run #1.sqlite"
    write_sqlite(path)
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "other; table" (x INTEGER)')
    with pytest.raises(CJEError, match=r"which table\?.*::evals.*::other; table"):
        read(path)
    assert read(f"{path}::evals") == expected
    assert read(f"{path}::SELECT * FROM evals WHERE policy = 'a'").policies == ("a",)
    with pytest.raises(CJEError, match="no such table"):
        read(f"{path}::nothing")


def test_a_query_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    write_sqlite(path)
    before = path.read_bytes()
    for query in ("SELECT 1; DROP TABLE evals", "WITH x AS (SELECT 1) DELETE FROM evals"):
        with pytest.raises(CJEError, match="cannot be read"):
            read(f"{path}::{query}")
    assert path.read_bytes() == before


def test_a_duckdb_query_cannot_read_other_files(tmp_path: Path) -> None:
    write_duckdb(tmp_path / "a.duckdb")
    (tmp_path / "secret.csv").write_bytes(csv_bytes())
    with pytest.raises(CJEError, match="cannot be read"):
        read(f"{tmp_path / 'a.duckdb'}::SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.write_excel(tmp_path / "a.xlsx")
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtraError, match=r"causal-judge\[excel\]"):
        read(tmp_path / "a.xlsx")


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst", "arrow", "xlsx", "sqlite", "duckdb", "db"])
def test_what_only_looks_like_the_format_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(b"this is only text, and no more than that")
    with pytest.raises(CJEError):
        read(tmp_path / f"a.{suffix}")


def test_a_workbook_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(6):
            archive.writestr(f"xl/worksheets/sheet{i}.xml", b"0" * (2**28))
    with pytest.raises(CJEError, match="unpacks to more than 1 GB"):
        read(tmp_path / "a.xlsx")
