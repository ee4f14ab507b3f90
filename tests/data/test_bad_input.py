"""Every kind of bad input gives a CJEError that names file, row, field, value and the way out."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cje.data import read
from cje.errors import CJEError

GOOD = [{"prompt_id": f"p{i}", "policy": "a", "judge_score": 0.1 * i} for i in range(6)]


def jsonl(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def refused(source: object, *words: str, **options: object) -> str:
    with pytest.raises(CJEError) as caught:
        read(source, **options)
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    assert isinstance(caught.value, ValueError)
    return message


def with_row(changes: dict[str, object], at: int = 3) -> list[dict[str, object]]:
    return [{**row, **changes} if i == at else row for i, row in enumerate(GOOD)]


# ---- the file itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.json"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    refused(tmp_path / name, "empty", name)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", "\n\n \n"), ("a.csv", "prompt_id,judge_score\n"), ("a.json", "[]")],
)
def test_a_file_without_rows_is_refused(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    refused(tmp_path / name, name, "What to do")


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    pl.DataFrame(GOOD).clear().write_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", "no rows", "a.parquet")


def test_a_path_that_is_not_there_names_near_ones(tmp_path: Path) -> None:
    jsonl(tmp_path / "clone.jsonl", GOOD)
    refused(tmp_path / "clon.jsonl", "no such file", "clone.jsonl")


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("x")
    refused(tmp_path / "a.docx", "unknown extension", ".docx", ".jsonl")


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "no file to read", "empty folder")


def test_a_folder_without_data_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "inner.jsonl").mkdir()
    refused(tmp_path, "no file to read", "README.md")


def test_two_files_of_one_policy_in_a_folder_are_refused(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", GOOD)
    jsonl(tmp_path / "a_responses.jsonl", GOOD)
    refused(tmp_path, "two files", "a_responses.jsonl")


def test_a_gzip_named_jsonl_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(json.dumps(GOOD[0]).encode()))
    refused(path, "gzip", "a.jsonl", "gunzip")


def test_a_compressed_extension_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.bz2").write_bytes(bz2.compress(b"{}"))
    refused(tmp_path / "a.jsonl.bz2", "compressed", "decompress")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_utf_16_and_32_are_refused(tmp_path: Path, encoding: str, name: str) -> None:
    text = "prompt_id,judge_score\np1,0.5\n" if name.endswith("csv") else json.dumps(GOOD[0])
    (tmp_path / name).write_bytes(text.encode(encoding))
    refused(tmp_path / name, "UTF-8", name)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_latin_1_bytes_are_refused(tmp_path: Path, name: str) -> None:
    text = "prompt_id,judge_score\nfran\xe7ais,0.5\nb,0.5\n"
    if name == "a.jsonl":
        text = '{"prompt_id": "fran\xe7ais", "judge_score": 0.5}\n' * 2
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    refused(tmp_path / name, "UTF-8", name)


def test_a_byte_order_mark_is_harmless(tmp_path: Path) -> None:
    rows = "".join(json.dumps(row) + "\n" for row in GOOD)
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + rows.encode())
    pl.DataFrame(GOOD).write_csv(tmp_path / "a.csv", include_bom=True)
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    for name in ("a.jsonl", "a.csv", "a.json"):
        assert len(read(tmp_path / name)) == 6


def test_binary_garbage_is_refused(tmp_path: Path) -> None:
    garbage = np.random.default_rng(0).bytes(5000)
    for extension in ("jsonl", "csv", "json", "parquet"):
        path = tmp_path / f"a.{extension}"
        path.write_bytes(b"\x93" + garbage)
        refused(path, path.name)


def test_a_parquet_file_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame(GOOD).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-50])
    refused(path, "a.parquet", "cannot be read")


def test_a_parquet_file_named_jsonl_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    pl.DataFrame(GOOD).write_parquet(path)
    refused(path, "Parquet", ".parquet")


def test_a_single_line_of_100_mb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"prompt_id": "p", "judge_score": 0.5, "response": "')
        for _ in range(100):
            stream.write(b"x" * 2**20)
        stream.write(b'"}')
    refused(path, "a.jsonl", "row 1", "32 MB", "one object per line")


# ---- a line ------------------------------------------------------------------------------------


def test_a_truncated_json_line_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    path.write_text(path.read_text()[:-20])
    refused(path, "a.jsonl, row 6", "truncated", "p5", "skip_bad_rows")


def test_a_broken_line_counts_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row) for row in GOOD]
    path.write_text("\n\n".join([*lines[:2], '{"prompt_id": }', *lines[2:]]))
    refused(path, "a.jsonl, row 5", "not valid JSON")


def test_a_wrong_value_in_a_sound_file_counts_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n".join(json.dumps(row) for row in with_row({"judge_score": None})))
    refused(path, "a.jsonl, row 7", "judge_score is missing")


@pytest.mark.parametrize("line", ["[1, 2]", "3", '"text"', "null"])
def test_a_line_that_is_not_an_object_is_an_error(tmp_path: Path, line: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    path.write_text(path.read_text() + line + "\n")
    refused(path, "a.jsonl, row 7", "not a JSON object")
    path.write_text(line)
    refused(path, "a.jsonl, row 1", "not a JSON object")


def test_json_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    path.write_text(path.read_text() + '{"a":' * 100_000 + "\n")
    refused(path, "a.jsonl, row 7")
    (tmp_path / "b.json").write_text("[" * 100_000)
    refused(tmp_path / "b.json", "b.json")


def test_a_json_array_cut_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(GOOD)[:-10])
    refused(tmp_path / "a.json", "a.json", "not valid JSON", "truncated")


def test_a_csv_with_too_many_cells_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt_id,judge_score\np1,0.5\np2,0.5,9\np3,0.1\n")
    refused(tmp_path / "a.csv", "a.csv, row 2", "3 cells, the header 2")


def test_a_csv_cut_off_in_its_last_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt_id,judge_score,oracle_label\np1,0.5,1\np2,0.5")
    refused(tmp_path / "a.csv", "a.csv, row 2", "2 cells", "truncated")


def test_a_csv_without_a_header_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\r\x01")
    refused(tmp_path / "a.csv", "a.csv", "not a header")


def test_a_csv_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt_id,judge_score,judge_score\np1,0.5,1\n")
    refused(tmp_path / "a.csv", "a.csv", "two columns", "judge_score")


# ---- fields and values -------------------------------------------------------------------------


def every_form(tmp_path: Path, rows: list[dict[str, object]]) -> list[tuple[object, str]]:
    """The same rows as JSONL, JSON, CSV, Parquet, polars, pandas and dicts; and their row names."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.json").write_text(json.dumps(rows))
    return [
        (jsonl(tmp_path / "t.jsonl", list(rows)), "t.jsonl, row 4"),
        (tmp_path / "t.json", "t.json, row 3"),
        (tmp_path / "t.csv", "t.csv, row 4"),
        (tmp_path / "t.parquet", "t.parquet, row 4"),
        (frame, "the data, row 3"),
        (pd.DataFrame(rows), "the data, row 3"),
        (rows, "the data, row 3"),
    ]


def test_a_missing_field_lists_the_columns(tmp_path: Path) -> None:
    rows = [{"prompt_id": row["prompt_id"], "colour": 1.0} for row in GOOD]
    for source, _ in every_form(tmp_path, rows):
        refused(source, "missing field judge_score", "colour", "fields=")


def test_a_missing_prompt_id_is_refused(tmp_path: Path) -> None:
    rows = [{"judge_score": 0.5} for _ in GOOD]
    for source, _ in every_form(tmp_path, rows):
        refused(source, "missing field prompt_id", "judge_score")


def test_a_missing_value_names_its_row(tmp_path: Path) -> None:
    for source, where in every_form(tmp_path, with_row({"judge_score": None})):
        refused(source, where, "judge_score is missing")
    for source, where in every_form(tmp_path, with_row({"prompt_id": None})):
        refused(source, where, "prompt_id is missing")


def test_a_field_absent_from_one_row_only_is_refused(tmp_path: Path) -> None:
    rows = [dict(row) for row in GOOD]
    del rows[3]["judge_score"]
    refused(rows, "row 3", "judge_score is missing")
    refused(jsonl(tmp_path / "a.jsonl", list(rows)), "a.jsonl, row 4", "judge_score is missing")


def test_text_where_a_number_belongs_is_refused(tmp_path: Path) -> None:
    rows = with_row({"judge_score": "high"})
    refused(jsonl(tmp_path / "a.jsonl", list(rows)), "a.jsonl, row 4", "judge_score", "'high'")
    refused(rows, "row 3", "judge_score is text", "'high'")
    refused(pd.DataFrame(rows), "row 3", "judge_score is text", "'high'")
    (tmp_path / "a.csv").write_text("prompt_id,judge_score\np1,0.5\np2,high\np3,0.2\n")
    refused(tmp_path / "a.csv", "a.csv, row 2", "judge_score is text", "'high'")
    frame = pl.DataFrame(
        rows, infer_schema_length=None, strict=False, schema_overrides={"judge_score": pl.String}
    )
    frame.write_parquet(tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", "a.parquet, row 4", "judge_score is text")


def test_a_quoted_number_in_json_is_a_number_as_in_csv(tmp_path: Path) -> None:
    rows = with_row({"judge_score": "0.5"})
    assert read(jsonl(tmp_path / "a.jsonl", list(rows))).judge_score[3] == 0.5


@pytest.mark.parametrize("value", [[0.5], {"x": 0.5}, True])
def test_a_value_of_another_type_is_refused(tmp_path: Path, value: object) -> None:
    rows = with_row({"judge_score": value})
    refused(rows, "row 3", "judge_score")
    refused(jsonl(tmp_path / "a.jsonl", list(rows)), "a.jsonl, row 4", "judge_score")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["judge_score", "oracle_label"])
def test_nan_and_infinity_are_refused(tmp_path: Path, field: str, value: float) -> None:
    rows = [{**row, "oracle_label": 0.5} for row in GOOD]
    rows[3][field] = value
    for source, where in every_form(tmp_path, rows):
        if isinstance(source, pd.DataFrame) and np.isnan(value):
            continue  # pandas writes a missing value this way
        refused(source, where, field, "not a finite number")


def test_nan_in_pandas_means_missing() -> None:
    rows = [{**row, "oracle_label": 0.5 if i < 2 else float("nan")} for i, row in enumerate(GOOD)]
    assert read(pd.DataFrame(rows)).n_labelled == 2


def test_a_number_too_large_for_a_float_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    path.write_text(path.read_text().replace("0.2,", "1e400,").replace("0.2}", "1e400}"))
    refused(path, "a.jsonl, row 3", "judge_score")


def test_a_label_outside_its_declared_scale_is_refused(tmp_path: Path) -> None:
    rows = [{**row, "oracle_label": 4} for row in GOOD]
    rows[3]["oracle_label"] = 7
    for source, where in every_form(tmp_path, rows):
        refused(source, where, "outside its scale 1-5", "7", "oracle_scale", oracle_scale=(1, 5))


def test_a_label_on_no_usual_scale_is_refused() -> None:
    rows = [{**row, "oracle_label": 1000.0 * i} for i, row in enumerate(GOOD)]
    refused(
        rows,
        "the range of oracle_label is not that of a usual scale",
        "5000",
        "oracle_scale=(low, high)",
    )


def test_duplicates_within_one_source_are_refused(tmp_path: Path) -> None:
    rows = with_row({"prompt_id": "p1"})
    for source, where in every_form(tmp_path, rows):
        refused(source, where, "duplicate row", "'p1'", "draw_idx", "repeats='draws'")
    rows = [{**row, "draw_idx": 2} for row in rows]
    for source, where in every_form(tmp_path, rows):
        refused(source, where, "duplicate row", "('a', 'p1', 2)")


def test_a_policy_with_one_row_is_refused(tmp_path: Path) -> None:
    for source, where in every_form(tmp_path, with_row({"policy": "lonely"})):
        refused(source, where, "'lonely' has 1 row", "standard error", "min_rows=1")
    assert len(read(with_row({"policy": "lonely"}), min_rows=1)) == 6


def test_a_draw_that_is_not_a_whole_number_is_an_error() -> None:
    refused([{**row, "draw_idx": 0.5} for row in GOOD], "row 0", "draw_idx is not a whole number")


def test_a_variance_larger_than_any_is_refused() -> None:
    refused([{**row, "judge_variance": 0.3} for row in GOOD], "judge_variance", "0.25")


def test_a_positive_log_probability_is_refused() -> None:
    rows = [
        {**row, "base_policy_logprob": -5.0, "target_policy_logprobs": {"t": 7.0}} for row in GOOD
    ]
    refused(rows, "row 0", "target:t is positive", "sign")


def test_target_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    rows = [{**row, "logp": -1.0, "logp_target_all": [-1.0, -2.0]} for row in GOOD]
    rows[3]["logp_target_all"] = [-1.0]
    refused(rows, "row 3", "must hold 2 log-probabilities")
    refused(jsonl(tmp_path / "a.jsonl", list(rows)), "a.jsonl, row 4", "must hold 2")


@pytest.mark.parametrize("source", [3, None, object(), "", b"bytes"])
def test_values_that_are_not_data_are_refused(source: object) -> None:
    with pytest.raises(CJEError):
        read(source)


@pytest.mark.parametrize("source", [[], {}, pl.DataFrame(), pd.DataFrame(), [1, 2], {"a": []}])
def test_empty_containers_are_refused(source: object) -> None:
    with pytest.raises(CJEError):
        read(source)


def test_an_unknown_name_in_fields_is_refused() -> None:
    refused(GOOD, "unknown name in fields", "jugde", fields={"jugde": "x"})
    refused(GOOD, "no column 'nowhere'", "judge_score", fields={"judge_score": "nowhere"})


# ---- skipping is opt-in, counted and reported --------------------------------------------------


def test_skipping_bad_rows_is_counted_and_reported(tmp_path: Path) -> None:
    rows = [{"prompt_id": f"p{i}", "policy": "a", "judge_score": i / 20} for i in range(20)]
    lines = [json.dumps(row) for row in rows]
    lines[2] = '{"prompt_id": "p2", "judge'
    lines[5] = json.dumps({**rows[5], "judge_score": "high"})
    lines[9] = json.dumps({**rows[9], "judge_score": float("nan")})
    lines[11] = json.dumps({**rows[11], "judge_score": 3})
    lines[13] = lines[12]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    data = read(path, skip_bad_rows=True, judge_scale=(0, 1))
    assert sorted(data.prompt_id.decode()) == sorted(
        row["prompt_id"] for i, row in enumerate(rows) if i not in (2, 5, 9, 11, 13)
    )
    report = "\n".join(data.metadata["reading"])
    for words in ("row 3", "not valid JSON", "row 6", "is text", "row 10", "not a finite number",
                  "row 12", "outside its scale", "row 14", "duplicate"):  # fmt: skip
        assert words in report, words
    assert report.count("skipped 1 bad row") == 5
    with pytest.raises(CJEError):
        read(path, judge_scale=(0, 1))


def test_skipping_everything_is_an_error() -> None:
    rows = [{**row, "judge_score": "splendid"} for row in GOOD]
    refused(rows, "no good rows are left", "skipped 6", skip_bad_rows=True)


def test_skipping_keeps_the_labels_on_their_rows() -> None:
    rows = [{**row, "oracle_label": [0.1 * i, 0.1 * i]} for i, row in enumerate(GOOD)]
    rows[1]["judge_score"] = None
    data = read(rows, skip_bad_rows=True)
    assert np.allclose(data.oracle_label, data.judge_score)
    assert data.rater_labels is not None
    assert len(data.rater_labels) == 10


def test_the_scale_suggested_for_several_judges_holds_all_of_them() -> None:
    rows = [
        {"prompt_id": f"p{i}", "policy": "a", "judge_one": i / 10 - 0.3, "judge_two": i / 8 - 0.4,
         "human_score": i % 2}
        for i in range(20)
    ]  # fmt: skip
    with pytest.raises(CJEError) as caught:
        read(rows)
    assert caught.value.value == pytest.approx((-0.4, 19 / 8 - 0.4))
    assert len(read(rows, judge_scale=(-0.4, 2.0))) == 20
