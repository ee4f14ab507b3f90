"""The pipeline's own files: a path is one file, and odd content is an error with words."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import polars as pl
import pytest

from cje.errors import CJEError
from cje.pipeline.config import DatasetConfig, PipelineConfig
from cje.pipeline.lock import WorkFolderLock, is_locked
from cje.pipeline.stages.dataset import read_rows
from cje.pipeline.store import CallStore
from cje.pipeline.yaml_lines import parse_yaml


def contexts(path: Path, **settings: object) -> list[str]:
    config = DatasetConfig.model_validate({"path": path, "context_field": "prompt", **settings})
    return [row["context"] for row in read_rows(config)]


@pytest.mark.parametrize("name", ["m[1].parquet", "x*.parquet", "evals?.parquet"])
def test_a_data_file_named_like_a_pattern_is_read_itself(tmp_path: Path, name: str) -> None:
    for neighbour in ("m1.parquet", "xy.parquet", "evals1.parquet"):
        pl.DataFrame({"prompt": ["wrong"]}).write_parquet(tmp_path / neighbour)
    with (tmp_path / name).open("wb") as stream:
        pl.DataFrame({"prompt": ["right"]}).write_parquet(stream)
    assert contexts(tmp_path / name) == ["right"]


@pytest.mark.parametrize("name", ["run #3", "run?mode=x", "100%41", "a&b", "dir[1]"])
def test_a_work_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    CallStore(folder / "store.sqlite").close()
    CallStore(folder / "store.sqlite", read_only=True).close()
    with WorkFolderLock(folder):
        assert is_locked(folder)
    assert not is_locked(folder)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_half_a_surrogate_pair_is_an_error_that_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b \\ud800"}\n')
    with pytest.raises(CJEError, match=r"surrogate pair.*row 2"):
        contexts(path)


def test_a_cell_of_a_million_characters_is_read(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("prompt\n" + "x" * 1_000_000 + "\n")
    assert len(contexts(path)[0]) == 1_000_000


@pytest.mark.parametrize("line", ["a", "a,b,c"])
def test_a_line_with_too_few_or_too_many_cells_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(f"prompt,other\nfine,1\n{line}\n")
    with pytest.raises(CJEError, match=r"cells, the header 2.*row 2"):
        contexts(path)


def test_deep_json_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"prompt": "a", "x": ' + "[" * 200_000 + "]" * 200_000 + "}\n")
    with pytest.raises(CJEError, match=r"nested too deeply.*line 1"):
        contexts(path)


def test_a_key_that_occurs_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"prompt": "a"}) + '\n{"prompt": "b", "prompt": "c"}\n')
    with pytest.raises(CJEError, match=r"'prompt' occurs twice.*line 2"):
        contexts(path)


def test_an_anchor_bomb_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CJEError, match="expand to too many values"):
        parse_yaml("\n".join(lines), PipelineConfig)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_an_anchor_that_contains_itself_is_refused() -> None:
    with pytest.raises(CJEError, match="expand to too many values"):
        parse_yaml("a: &a [*a]", PipelineConfig)
