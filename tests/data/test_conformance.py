"""One table, every way in: an oddity is read equally, or refused with the same words, on each path.

The paths: JSON Lines by the fast reader and line by line, a JSON array, CSV by the fast reader and
line by line, Parquet, frames of polars, pandas and pyarrow, rows of dicts, a dict of columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cje.analysis.inputs import read_source
from cje.data import Dataset, read
from cje.data.csv_table import CsvTable
from cje.data.jsonl import JsonlTable
from cje.errors import CJEError

N = 12
Rows = list[dict[str, Any]]


def good_rows() -> Rows:
    return [
        {
            "prompt_id": f"p{i // 2}",
            "policy": "ab"[i % 2],
            "judge_score": [0.25, 0.5, 0.75][i % 3],
            "oracle_label": 1.0 if i % 4 == 0 else None,
        }
        for i in range(N)
    ]


def changed(**cells: Any) -> Rows:
    """Good rows with a cell of row 5 replaced."""
    rows = good_rows()
    rows[5].update(cells)
    return rows


def whole(column: str, values: list[Any]) -> Rows:
    rows = good_rows()
    for i, row in enumerate(rows):
        row[column] = values[i % len(values)]
    return rows


def _jsonl(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _csv(path: Path, rows: Rows) -> Path:
    _objects(rows).to_csv(path, index=False)
    return path


def _objects(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(
        {c: pd.Series([r.get(c) for r in rows], dtype=object) for c in _names(rows)}
    )


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _typed(rows: Rows) -> pl.DataFrame:
    """A polars frame where polars can hold the values strictly, else with Python objects."""
    columns = []
    for name in _names(rows):
        values = [row.get(name) for row in rows]
        kinds = {type(v) for v in values} - {type(None)}
        try:
            plain = len(kinds) < 2 or kinds == {int, float}
            columns.append(
                pl.Series(name, values) if plain else pl.Series(name, values, dtype=pl.Object)
            )
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            columns.append(pl.Series(name, values, dtype=pl.Object))
    return pl.DataFrame(columns)


def _parquet(path: Path, rows: Rows) -> Path | None:
    frame = _typed(rows)
    if any(dtype == pl.Object for dtype in frame.dtypes):
        return None  # Parquet has one type per column
    frame.write_parquet(path)
    return path


def forms(tmp_path: Path, rows: Rows) -> dict[str, Callable[[], Dataset]]:
    """Every way to hand over the rows, by name; a form that cannot hold them is left out."""
    jsonl = _jsonl(tmp_path / "data.jsonl", rows)
    array = tmp_path / "data.json"
    array.write_text(json.dumps(rows))
    table = _csv(tmp_path / "table.csv", rows)
    parquet = _parquet(tmp_path / "data.parquet", rows)
    pandas = _objects(rows)
    found: dict[str, Callable[[], Dataset]] = {
        "jsonl": lambda: read(jsonl),
        "jsonl, line by line": lambda: _slowly(jsonl),
        "json": lambda: read(array),
        "rows": lambda: read(rows),
        "polars": lambda: read(_typed(rows)),
        "pandas objects": lambda: read(pandas),
        "columns": lambda: read_source({c: [r.get(c) for r in rows] for c in _names(rows)}),
    }
    if _plain(rows):
        found["csv"] = lambda: read(table)
        found["csv, line by line"] = lambda: _slowly(table)
    if parquet is not None:
        found["parquet"] = lambda: read(parquet)
        found["pyarrow"] = lambda: read(_typed(rows).to_arrow())
    return found


def _plain(rows: Rows) -> bool:
    """Whether a CSV file can say the same: it has neither types of ids nor lists or objects."""
    ids = [row.get(name) for row in rows for name in ("prompt_id", "policy")]
    values = [v for row in rows for v in row.values()]
    return not any(isinstance(v, list | dict | bool) or "\0" in str(v) for v in values) and not any(
        isinstance(v, float) for v in ids
    )


def _slowly(path: Path) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object) -> None:
            raise pl.exceptions.ComputeError("the fast path is switched off")

        patch.setattr(JsonlTable, "_fast", refuse)
        patch.setattr(CsvTable, "_fast", refuse)
        return read(path)


def outcome(reading: Callable[[], Dataset]) -> tuple[str, Any]:
    """("read", the values), or ("refused", the message without its place)."""
    try:
        data = reading()
    except CJEError as error:
        return "refused", re.sub(r"\s+", " ", error.what)
    return "read", (
        data.prompt_id.decode(),
        data.policy.decode() if "a" in data.policies else ["?"] * len(data),
        np.nan_to_num(data.judge_score, nan=-1).tolist(),
        np.nan_to_num(data.oracle_label, nan=-1).tolist(),
        str(data.judge_scale),
        str(data.oracle_scale),
    )


ODDITIES: dict[str, Rows] = {
    "nothing odd": good_rows(),
    "whole-number ids": whole("prompt_id", [*range(100, 106)]) ,
    "ids as 1.0": changed(prompt_id=1.0),
    "an id of 1.5": changed(prompt_id=1.5),
    "ids of 1.5 everywhere": whole("prompt_id", [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]),
    "an id that is a list": changed(prompt_id=["p"]),
    "ids that are lists": whole("prompt_id", [["p1"], ["p2"], ["p3"], ["p4"], ["p5"], ["p6"]]),
    "an id that is an object": changed(prompt_id={"a": 1}),
    "an id that is true": changed(prompt_id=True),
    "a missing id": changed(prompt_id=None),
    "a missing policy": changed(policy=None),
    "a missing score": changed(judge_score=None),
    "a score that is a list": changed(judge_score=[0.5]),
    "a score that is an object": changed(judge_score={"x": 0.5}),
    "a score that is text": changed(judge_score="high"),
    "a score that is true": changed(judge_score=True),
    "scores that are true or false": whole("judge_score", [True, False, True]),
    "a label that is text": changed(oracle_label="splendid"),
    "a label that is a list": changed(oracle_label=[1.0]),
    "a label that is an object": changed(oracle_label={"ann": 1.0}),
    "labels that are true or false": whole("oracle_label", [True, None, False]),
    "a label of 1e400": changed(oracle_label=10**400),
    "a label too large for a scale": changed(oracle_label=1e30),
    "whole-number scores": whole("judge_score", [1, 3, 5]),
    "whole and broken scores": whole("judge_score", [1, 2.5, 5]),
    "labels from the last row only": [
        {k: v for k, v in row.items() if k != "oracle_label"} for row in good_rows()[:-1]
    ] + good_rows()[-1:] ,
    "a key that is empty": [{**row, "": 1} for row in good_rows()],
    "a policy that is a number": whole("policy", [1, 2]),
    "a policy that is text or a number": changed(policy=3),
    "a text with a zero byte": changed(prompt_id="a\0b"),
    "a text with a line feed": changed(prompt_id="a\nb"),
    "a text with quotes": changed(prompt_id='a "quoted", b'),
    "an emoji": changed(prompt_id="\U0001f600"),
    "a scale of its own for one policy": [
        {**row, "oracle_label": i / N if row["policy"] == "a" else 100.0 * i / N}
        for i, row in enumerate(good_rows())
    ],
}  # fmt: skip


@pytest.mark.parametrize("oddity", ODDITIES)
def test_every_path_reads_the_same_or_refuses_with_the_same_words(
    tmp_path: Path, oddity: str
) -> None:
    found = {name: outcome(reading) for name, reading in forms(tmp_path, ODDITIES[oddity]).items()}
    expected = found["rows"]
    different = {name: got for name, got in found.items() if got != expected}
    assert not different, f"rows: {expected}\nbut {different}"


@pytest.mark.parametrize("key", ["oracle_label", "prompt_id", "judge_score"])
def test_a_repeated_key_is_refused_on_every_path(tmp_path: Path, key: str) -> None:
    lines = [json.dumps(row) for row in good_rows()]
    lines[5] = lines[5][:-1] + f', "{key}": {json.dumps(good_rows()[0][key])}}}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.json").write_text(f"[{', '.join(lines)}]")
    for reading in (
        lambda: read(tmp_path / "a.jsonl"),
        lambda: _slowly(tmp_path / "a.jsonl"),
        lambda: read(tmp_path / "a.json"),
    ):
        with pytest.raises(CJEError, match=r"occurs twice in one object"):
            reading()


@pytest.mark.parametrize("where", [0, 5, N - 1])
@pytest.mark.parametrize("label", ["1.0", "null"])
def test_a_line_of_a_csv_with_a_missing_or_extra_cell_is_refused(
    tmp_path: Path, where: int, label: str
) -> None:
    path = _csv(tmp_path / "a.csv", good_rows())
    lines = path.read_text().splitlines()
    for line in (lines[where + 1].rpartition(",")[0], lines[where + 1] + ",x"):
        broken = [*lines[: where + 1], line, *lines[where + 2 :]]
        path.write_text("\n".join(broken) + "\n")
        for reading in (lambda: read(path), lambda: _slowly(path)):
            with pytest.raises(CJEError, match=rf"cells, the header 4.*row {where + 1}\b"):
                reading()
        data = read(path, skip_bad_rows=True)
        assert len(data) == N - 1
        assert any("skipped 1 bad row" in note for note in data.metadata["reading"])


def test_masked_labels_are_missing_labels() -> None:
    labels = np.ma.masked_array([1.0, 99.0, 0.0, 99.0], mask=[False, True, False, True])
    ids, scores = ["a", "b", "c", "d"], [0.1, 0.2, 0.3, 0.4]
    made = Dataset.from_arrays(prompt_id=ids, policy="x", judge_score=scores, oracle_label=labels)
    columns = read_source({"prompt_id": ids, "judge_score": scores, "oracle_label": labels})
    for data in (made, columns):
        assert data is not None
        np.testing.assert_array_equal(data.oracle_label, [1.0, np.nan, 0.0, np.nan])


def test_masked_ids_are_refused() -> None:
    ids = np.ma.masked_array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(CJEError, match="masked"):
        Dataset.from_arrays(prompt_id=ids, policy="x", judge_score=[0.1, 0.2, 0.3])
    with pytest.raises(CJEError, match="prompt_id is missing"):
        read_source({"prompt_id": ids, "judge_score": [0.1, 0.2, 0.3]})
