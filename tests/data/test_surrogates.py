"""Half of a surrogate pair, in any place and on any path: the same reading or the same error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cje.analysis.inputs import read_source
from cje.data import Dataset, read, read_comparisons
from cje.data.jsonl import JsonlTable
from cje.errors import CJEError

HALF = "\ud800"
NOT_TEXT = "holds half of a surrogate pair, which is not text"
A_NAME = f"the name of a column {NOT_TEXT}"
Rows = list[dict[str, Any]]


def rows_with(**cells: Any) -> Rows:
    """Sound rows, the last with other cells."""
    rows: Rows = [
        {"prompt_id": f"p{i // 2}", "policy": "ab"[i % 2], "judge_score": i / 10, "oracle_label": 1}
        for i in range(6)
    ]
    rows[-1].update(cells)
    return rows


def all_with(**cells: Any) -> Rows:
    return [{**row, **cells} for row in rows_with()]


PLACES: dict[str, tuple[Rows, str]] = {
    "an id": (rows_with(prompt_id=HALF), f"prompt_id {NOT_TEXT}"),
    "a policy": (rows_with(policy="a" + HALF), f"policy {NOT_TEXT}"),
    "a score": (rows_with(judge_score=HALF), f"judge_score {NOT_TEXT}"),
    "a score among texts": (
        [*all_with(judge_score="0.5")[:-1], *rows_with(judge_score=HALF)[-1:]],
        f"judge_score {NOT_TEXT}",
    ),
    "every score": (all_with(judge_score="good" + HALF), f"judge_score {NOT_TEXT}"),
    "a label": (rows_with(oracle_label="1" + HALF), f"oracle_label {NOT_TEXT}"),
    "every label": (all_with(oracle_label=HALF), f"oracle_label {NOT_TEXT}"),
    "a rater's label": (
        [*all_with(oracle_label={"x": 1})[:-1], *rows_with(oracle_label={"x": HALF})[-1:]],
        f"rater:x {NOT_TEXT}",
    ),
    "a rater's name": (all_with(oracle_label={"x": 1, HALF: 1}), A_NAME),
    "a judge's name": (all_with(judge_score={"x": 1, HALF: 1}), A_NAME),
    "the name of the label": (
        [
            {k: v for k, v in row.items() if k != "oracle_label"} | {"human_label" + HALF: 1}
            for row in rows_with()
        ],
        A_NAME,
    ),
    "an unused value": (rows_with(note=HALF), ""),
    "an unused list": (rows_with(note=[HALF]), ""),
    "an unused nested value": (rows_with(metadata={"x": {"y": HALF}}), ""),
    "an unused nested name": (all_with(metadata={HALF: 1}), ""),
    "an unused name": (all_with(**{HALF: 1}), ""),
}  # fmt: skip


def files(folder: Path, rows: Rows) -> dict[str, Callable[..., Dataset]]:
    """The rows as JSON, with escapes, by the fast reader and line by line."""
    lines, array = folder / "a.jsonl", folder / "a.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    array.write_text(json.dumps(rows))

    def slowly(**options: Any) -> Dataset:
        with pytest.MonkeyPatch.context() as patch:

            def refuse(*_: object) -> None:
                raise pl.exceptions.ComputeError("the fast path is switched off")

            patch.setattr(JsonlTable, "_fast", refuse)
            return read(lines, **options)

    return {
        "jsonl": lambda **options: read(lines, **options),
        "jsonl, line by line": slowly,
        "json": lambda **options: read(array, **options),
        "rows": lambda **options: read(rows, **options),
    }


def frames(rows: Rows) -> dict[str, Callable[..., Dataset]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    pandas = pd.DataFrame({n: pd.Series(values, dtype=object) for n, values in columns.items()})
    return {
        "pandas": lambda **options: read(pandas, **options),
        "columns": lambda **options: read_source(columns, **options),  # type: ignore[dict-item]
    }


def outcome(reading: Callable[..., Dataset], **options: Any) -> tuple[str, Any]:
    try:
        data = reading(**options)
    except CJEError as error:
        str(error).encode()
        return "refused", re.sub(r"\s+", " ", error.what)
    " ".join(data.metadata["reading"]).encode()  # notes can be printed and stored
    assert data.oracle_label is not None
    return "read", (data.prompt_id.decode(), data.judge_score.tolist(),
                    np.nan_to_num(data.oracle_label, nan=-1).tolist())  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("skip", [False, True])
def test_half_a_pair_is_the_same_on_every_path(tmp_path: Path, place: str, skip: bool) -> None:
    rows, message = PLACES[place]
    readings = files(tmp_path, rows)
    in_names = any(HALF in name for row in rows for name in row)
    if not in_names:
        readings |= frames(rows)
    found = {
        name: outcome(reading, skip_bad_rows=skip, min_rows=1) for name, reading in readings.items()
    }
    assert len(set(map(str, found.values()))) == 1, found
    if not skip:
        assert found["rows"] == ("refused", message) or (not message and found["rows"][0] == "read")
    if in_names:  # a frame cannot hold such a name, used or not
        for name, reading in frames(rows).items():
            expected = ("refused", A_NAME)
            assert outcome(reading, skip_bad_rows=skip) == expected, name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("skip", [False, True])
def test_raw_halves_are_not_utf_8(tmp_path: Path, place: str, skip: bool) -> None:
    rows, _ = PLACES[place]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path = tmp_path / "a.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    if not skip:
        with pytest.raises(CJEError, match=r"not UTF-8"):
            read(path)
        return
    sound = [row for row in rows if HALF not in str(row) and repr(HALF)[1:-1] not in str(row)]
    kept = outcome(lambda **options: read(path, **options), skip_bad_rows=True, min_rows=1)
    assert (kept[0] == "read") == bool(sound), kept
    if sound and "judge_score" in sound[0]:
        assert kept == outcome(lambda **options: read(sound, **options), min_rows=1)


def test_names_that_a_caller_gives_are_text() -> None:
    rows = rows_with()
    for fields in ({"a" + HALF: "judge_score"}, {"oracle_label": {"r" + HALF: "oracle_label"}}):
        with pytest.raises(CJEError, match=NOT_TEXT):
            read(rows, fields=fields)


def test_files_whose_names_are_not_text_are_policies_with_their_bytes_written_out(
    tmp_path: Path,
) -> None:
    rows = [{k: v for k, v in row.items() if k != "policy"} for row in rows_with()[::2]]
    named = [{**row, "policy": "mine"} for row in rows]
    for name, content in ((b"x\xff.jsonl", rows), (b"y.jsonl", named)):
        path = os.fsencode(tmp_path) + b"/" + name
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in content)
    assert sorted(read(tmp_path).policies) == ["mine", "x\\udcff"]
    assert sorted(read({"a" + HALF: rows, "b": rows}).policies) == ["a\\ud800", "b"]


def test_comparisons_with_half_a_pair_are_refused_in_words(tmp_path: Path) -> None:
    good = {"prompt_id": "p", "model_a": "x", "model_b": "y", "winner": "model_a"}
    for field in good:
        rows = [{**good, "prompt_id": f"p{i}"} for i in range(4)] + [{**good, field: HALF}]
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for source in (rows, path):
            with pytest.raises(CJEError):
                read_comparisons(source)
