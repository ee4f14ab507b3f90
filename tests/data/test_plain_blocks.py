"""The quotes of a block say what a parser would, or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cje.data import blocks, read
from cje.data.json_checks import claimed_kinds
from cje.data.jsonl import _BlockReader
from cje.data.plain_blocks import has_half_pair, plain_kinds
from cje.data.rows import LeafSurvey
from cje.errors import CJEError

ENDS = [(", ", ": "), (",", ":"), (" ,", ": "), (", ", " : ")]
KEYS = st.sampled_from(
    ["id", "score", "a", "", "x\\", 'q"', "é", "a:b", "a,b", "oracle_label", "t\t", "{", "\0"]
)
TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            '", "a": 1, "',
            "\\",
            '\\"',
            "\\\\",
            "}\n{",
            ":",
            'say "x":',
            "\ud800",
            "\U0001f600",
            "\x7f",
        ]
    ),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False), TEXTS
)
VALUES = st.one_of(SCALARS, SCALARS, SCALARS, st.lists(SCALARS, max_size=2),
                   st.dictionaries(KEYS, SCALARS, max_size=2))  # fmt: skip
ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5), min_size=1, max_size=6)


def surveyed(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], frozenset[str]]:
    """The slow twin."""
    survey = LeafSurvey()
    for row in rows:
        survey.see(row)
    return {leaf.path: leaf.kinds for leaf in survey.leaves()}


@settings(max_examples=400, deadline=None)
@given(rows=ROWS, style=st.sampled_from(ENDS), ascii_=st.booleans())
def test_kinds_are_those_of_a_parser(
    rows: list[dict[str, Any]], style: tuple[str, str], ascii_: bool
) -> None:
    lines = [json.dumps(row, separators=style, ensure_ascii=ascii_) for row in rows]
    block = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    found = plain_kinds(block)
    assert found is None or found == surveyed(rows)


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9999, 9999),
    st.floats(-1e5, 1e5),
    st.text(st.characters(codec="utf-8"), max_size=8),
)


def objects_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["id", "score", "a", "é", "oracle_label", "a long name of a column"])
    return st.dictionaries(names, values, min_size=1, max_size=4)


NESTED = objects_of(st.one_of(PLAIN, PLAIN, objects_of(st.one_of(PLAIN, objects_of(PLAIN)))))


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.one_of(objects_of(PLAIN), NESTED), min_size=1, max_size=6),
    style=st.sampled_from(ENDS[:2]),
)
def test_plain_rows_need_no_parser(rows: list[dict[str, Any]], style: tuple[str, str]) -> None:
    lines = [json.dumps(row, separators=style, ensure_ascii=False) for row in rows]
    block = "".join(f"{line}\n" for line in lines).encode()
    assert plain_kinds(block) == surveyed(rows)


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1, "a": 2}',
        '{"a": null, "b": 1, "a": 2}',
        '{"a": "\\ud800"}',
        '{"a": "\\udc00"}',
        '{"a": [1]}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": {"b": {"c": {"d": {"e": 1}}}}}',
        '{"a": [{"b": 1}]}',
        '{"\\u0061": 1}',
        '{"a" : 1}',
        '{"a": NaN}',
        '{"a": 1234567890123456789}',
        '{"a": "open}',
        '{"a": "x" "b": 1}',
        "[]",
        '["a"]',
        "",
    ],
)
def test_what_is_not_plain_is_left_to_a_parser(line: str) -> None:
    good = '{"a": 1, "b": "x"}'
    assert plain_kinds(f"{good}\n{line}\n{good}\n".encode()) is None or line in ("", "[]")
    assert plain_kinds(f"{line}\n".encode()) is None


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.lists(st.sampled_from(list('{}",:\\ \n1ta')), max_size=40))
def test_no_bytes_raise(content: bytes, signs: list[str]) -> None:
    plain_kinds(content)
    plain_kinds("".join(signs).encode())


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROW = {"prompt_id": "p", "policy": "a", "judge_score": 0.5, "oracle_label": 1.0}


def test_a_plain_file_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jsonl", [{**ROW, "prompt_id": f"p{i}"} for i in range(50)])
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 500)
    monkeypatch.setattr("cje.data.jsonl.claimed_kinds", lambda *_: pytest.fail("searched again"))
    monkeypatch.setattr("cje.data.jsonl._survey_block", lambda *_: pytest.fail("parsed twice"))
    assert read(path).n_labelled == 50


def test_what_was_found_in_another_version_of_the_file_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROW, "prompt_id": f"p{i}"} for i in range(5)]
    path = write(tmp_path / "a.jsonl", rows)
    made = _BlockReader.__init__

    def changed(self: _BlockReader, *given_: Any) -> None:
        made(self, *given_)
        assert self._plain == []

    from cje.data.jsonl import JsonlTable

    leaves = JsonlTable.leaves

    def change_after(self: JsonlTable) -> Any:
        found = leaves(self)
        lines = path.read_text().splitlines()
        lines[2] = lines[2][:-1] + ', "oracle_label": 0.0}'
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(_BlockReader, "__init__", changed)
    monkeypatch.setattr(JsonlTable, "leaves", change_after)
    with pytest.raises(CJEError, match="occurs twice in one object"):
        read(path)


@pytest.mark.parametrize("line", ['{"gold": 1', '{"gold": 1} {"gold": 2}', '"gold": 1}'])
def test_keys_of_bad_lines_that_are_skipped_do_not_count(tmp_path: Path, line: str) -> None:
    rows = [{**ROW, "prompt_id": f"p{i}"} for i in range(400)]
    path = write(tmp_path / "a.jsonl", rows)
    with path.open("a") as file:
        file.write(line + "\n")
    data = read(path, skip_bad_rows=True)
    assert not any("gold" in note for note in data.metadata["reading"])
    with pytest.raises(CJEError, match=r"row 401"):
        read(path)


def test_the_search_before_agrees(tmp_path: Path) -> None:
    block = "".join(json.dumps({**ROW, "prompt_id": f"p{i}"}) + "\n" for i in range(9)).encode()
    plain, claimed = plain_kinds(block), claimed_kinds(block, ROW)
    assert plain is not None
    assert {path[0]: kinds - {"fraction"} for path, kinds in plain.items()} == claimed


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["\\ud83d", "\\ude00", "\\u0041", "\\\\", "ud83d", "a", "\\uD83D\\uDE00"]),
        max_size=6,
    )
)  # fmt: skip
def test_half_pairs_are_found(parts: list[str]) -> None:
    text = json.loads(f'"{"".join(parts)}"')
    half = text.encode("utf-8", "replace").decode() != text
    assert has_half_pair(f'{{"a": "{"".join(parts)}"}}\n'.encode()) == half


def test_a_half_behind_an_escaped_backslash_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{**ROW, "prompt_id": f"p{i}"} for i in range(4)])
    path.write_text(path.read_text().replace('"p2"', r'"\\ud83d\ude00"'))
    with pytest.raises(CJEError, match="half of a surrogate pair"):
        read(path)


def test_long_runs_of_backslashes_take_no_time() -> None:
    for n in (2_000_000, 2_000_001):
        block = b'{"a": "' + b"\\" * n + b'", "b": 1}\n'
        start = process_time()
        found = plain_kinds(block)
        assert process_time() - start < 1.0
        assert (found is None) == bool(n % 2)  # an odd run escapes the quote
