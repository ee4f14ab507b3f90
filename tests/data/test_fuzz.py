"""Any bytes, any rows, any cells: a finite Dataset or a CJEError, never another exception."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from cje.data import Dataset, read
from cje.errors import CJEError
from tests.robustness.fuzzing import fuzz

FUZZ = fuzz()

FIELDS = [
    "prompt_id", "id", "policy", "model", "draw_idx", "judge_score", "score", "judge_variance",
    "oracle_label", "label", "metadata", "label_propensity", "base_policy_logprob",
    "target_policy_logprobs", "logp_target_all", "rewards", "context", "response", "", "a.b",
]  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.floats(0, 1),
    st.text(max_size=4),
    st.sampled_from(["", "nan", "0.5", "p1", "high", "\ud800", "\x00"]),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["t", "mean", "variance", "oracle_label"]), inner, max_size=3
        )
    ),
    max_leaves=4,
)
sound = st.fixed_dictionaries(
    {"prompt_id": st.sampled_from(["p1", "p2", "p3", "p4"]), "judge_score": st.floats(0, 1)},
    optional={"oracle_label": st.none() | st.floats(0, 1), "policy": st.sampled_from("ab")},
)
GOOD_ROWS: list[dict[str, Any]] = [{"prompt_id": f"p{i}", "judge_score": 0.5} for i in range(3)]
wild = st.dictionaries(st.sampled_from(FIELDS), values, max_size=6)
rows = st.lists(st.one_of(sound, sound, wild), max_size=8)


def is_finite(data: Dataset) -> bool:
    """Every value is a number in its range, or missing where it may be."""
    assert len(data) > 0
    for column in (data.judge_score, data.oracle_label, data.rewards, data.label_propensity):
        if column is not None:
            known = column[~np.isnan(column)]
            assert ((known >= 0) & (known <= 1)).all()
    for column in (data.base_policy_logprob, data.target_policy_logprobs, data.judge_variance):
        assert column is None or not np.isinf(column).any()
    assert not np.isnan(data.judge_score).any()
    data.summary()
    return True


def survives(source: Any, **options: Any) -> None:
    try:
        assert is_finite(read(source, **options))
    except CJEError as error:
        if not str(error):
            raise


def survives_as_file(name: str, content: bytes, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        survives(path, **options)


@FUZZ
@given(rows, st.booleans())
@example([{"prompt_id": "p", "judge_score": 0.5, "oracle_label": {}}] * 2, False)
def test_rows_of_anything_are_read_or_refused(given_rows: list[dict[str, Any]], skip: bool) -> None:
    survives(given_rows, skip_bad_rows=skip)
    survives(given_rows, skip_bad_rows=skip, repeats="draws", min_rows=1, text=True)


@FUZZ
@given(rows, st.booleans())
@example([*GOOD_ROWS, {"prompt_id": {"oracle_label": None}}], False)
@example([*GOOD_ROWS, {"draw_idx": {"oracle_label": None}}], True)
@example([*GOOD_ROWS, {"prompt_id": "p", "judge_score": "\ud800"}], False)
def test_json_lines_of_anything_are_read_or_refused(
    given_rows: list[dict[str, Any]], skip: bool
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in given_rows).encode()
    for name in ("a.jsonl", "a.json"):
        survives_as_file(name, lines, skip_bad_rows=skip, repeats="draws", min_rows=1)
    survives_as_file("a.json", json.dumps(given_rows).encode(), skip_bad_rows=skip)


@FUZZ
@given(rows, st.data())
def test_json_lines_with_bytes_changed_are_read_or_refused(
    given_rows: list[dict[str, Any]], data: Any
) -> None:
    lines = bytearray("".join(json.dumps(row) + "\n" for row in given_rows).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        if lines:
            lines[data.draw(st.integers(0, len(lines) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(lines[: data.draw(st.integers(0, len(lines)))])
    for skip in (True, False):
        survives_as_file("a.jsonl", cut, skip_bad_rows=skip, repeats="draws", min_rows=1)


@FUZZ
@given(
    st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv", "a.parquet"]),
    st.binary(max_size=300),
    st.sampled_from([b"", b"PAR1", b"prompt_id,judge_score\n", b"\xef\xbb\xbf", b"{", b"["]),
)
def test_files_of_any_bytes_are_read_or_refused(name: str, content: bytes, start: bytes) -> None:
    survives_as_file(name, start + content)
    survives_as_file(name, start + content, skip_bad_rows=True, min_rows=1)


cells = st.one_of(
    st.sampled_from(
        ["", "p1", "p2", "0.5", "1", "nan", "inf", "-3", "1e400", '"a,b"', '"', "x\ty"]
    ),
    st.text(max_size=3),
)


@FUZZ
@given(
    st.lists(st.sampled_from([f for f in FIELDS if f]), min_size=1, max_size=5, unique=True),
    st.lists(st.lists(cells, max_size=6), max_size=8),
    st.sampled_from([",", ";", "\t"]),
)
@example(["id"], [["p1", '"']], ",")  # a lone quote makes polars 2.1 panic
def test_csv_of_any_cells_is_read_or_refused(
    header: list[str], table: list[list[str]], separator: str
) -> None:
    header = [
        "prompt_id",
        "judge_score",
        *(h for h in header if h not in ("prompt_id", "judge_score")),
    ]
    text = "\n".join(separator.join(line) for line in [header, *table])
    content = text.encode("utf-8", "surrogatepass")
    for skip in (True, False):
        survives_as_file("a.csv", content, skip_bad_rows=skip, repeats="draws", min_rows=1)


column = st.one_of(
    st.lists(st.none() | st.floats(), min_size=4, max_size=4),
    st.lists(st.none() | st.floats(0, 1), min_size=4, max_size=4),
    st.lists(st.none() | st.integers(-5, 120), min_size=4, max_size=4),
    st.lists(st.none() | st.text(max_size=3), min_size=4, max_size=4),
    st.lists(st.none() | st.booleans(), min_size=4, max_size=4),
    st.lists(st.none() | st.lists(st.floats(-9, 1), max_size=2), min_size=4, max_size=4),
    st.lists(st.none() | st.dates(), min_size=4, max_size=4),
    st.lists(
        st.none() | st.fixed_dictionaries({"t": st.none() | st.floats(-9, 1)}),
        min_size=4, max_size=4,
    ),
)  # fmt: skip


@FUZZ
@given(st.dictionaries(st.sampled_from(FIELDS), column, max_size=6), st.booleans())
@example({"target_policy_logprobs": [None, None, None, []]}, True)
def test_frames_of_any_columns_are_read_or_refused(
    columns: dict[str, list[Any]], skip: bool
) -> None:
    frame = pl.DataFrame(
        {"prompt_id": ["p1", "p2", "p3", "p4"], "judge_score": [0.1] * 4, **columns}
    )
    survives(frame, skip_bad_rows=skip, repeats="draws", min_rows=1)
    survives(frame.to_arrow(), skip_bad_rows=skip, repeats="draws", min_rows=1)
    survives(frame.to_pandas(), skip_bad_rows=skip, repeats="draws", min_rows=1)


@FUZZ
@given(rows, rows)
def test_labels_of_anything_are_read_or_refused(
    data: list[dict[str, Any]], labels: list[dict[str, Any]]
) -> None:
    survives(data, labels=labels, repeats="draws", min_rows=1)
    survives(data, labels=labels, on="id", min_rows=1, skip_bad_rows=True)
