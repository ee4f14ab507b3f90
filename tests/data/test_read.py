"""Readers: every form gives the same Dataset; names, scales and nesting are found and reported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cje.data import Dataset, Scale, read
from cje.errors import CJEError


def make_rows(n: int = 40) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    return [
        {
            "prompt_id": f"p{i // 2}",
            "policy": "ab"[i % 2],
            "draw_idx": 0,
            "judge_score": float(rng.integers(0, 101)) / 100,
            "oracle_label": float(rng.random()) if i % 5 == 0 else None,
            "base_policy_logprob": -float(rng.random() * 10),
            "target_policy_logprobs": {"clone": -1.5 - i, "other": -2.0},
            "length": float(i),
            "topic": "xyz"[i % 3],
            "prompt": f"question {i // 2}",
            "response": f'answer {i}, with a comma and a "quote"\nand a line',
        }
        for i in range(n)
    ]


def flat(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    out = []
    for row in rows:
        inner = dict(row)
        targets = inner.pop("target_policy_logprobs")
        out.append({**inner, **{f"target_policy_logprobs.{k}": v for k, v in targets.items()}})  # type: ignore[attr-defined]
    return out


OPTIONS = {"covariates": ["length"], "groups": ["topic"], "text": True}


@pytest.fixture
def expected() -> Dataset:
    rows = make_rows()
    return Dataset.from_arrays(
        prompt_id=[row["prompt_id"] for row in rows],
        policy=[row["policy"] for row in rows],  # type: ignore[misc]
        draw_idx=np.zeros(len(rows), dtype=int),
        judge_score=[row["judge_score"] for row in rows],
        oracle_label=[np.nan if (y := row["oracle_label"]) is None else y for row in rows],
        base_policy_logprob=[row["base_policy_logprob"] for row in rows],
        target_policy_logprobs={
            name: [row["target_policy_logprobs"][name] for row in rows]  # type: ignore[index]
            for name in ("clone", "other")
        },
        covariates={"length": [row["length"] for row in rows]},
        groups={"topic": [row["topic"] for row in rows]},
        prompt=[row["prompt"] for row in rows],
        response=[row["response"] for row in rows],
    )


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_form_gives_the_same_data(tmp_path: Path, expected: Dataset) -> None:
    rows = make_rows()
    write_jsonl(tmp_path / "a.jsonl", rows)
    write_jsonl(tmp_path / "b.json", rows)  # lines under the wrong extension
    (tmp_path / "a.json").write_text(json.dumps(rows))
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame(flat(rows)).write_parquet(tmp_path / "flat.parquet")
    pl.DataFrame(flat(rows)).write_csv(tmp_path / "a.csv")
    pl.DataFrame(flat(rows)).write_csv(tmp_path / "a.tsv", separator="\t")
    forms = {
        **{name: tmp_path / name for name in
           ("a.jsonl", "b.json", "a.json", "a.parquet", "flat.parquet", "a.csv", "a.tsv")},
        "dicts": rows,
        "polars": pl.DataFrame(rows),
        "lazy": pl.LazyFrame(rows),
        "pandas": pd.DataFrame(flat(rows)),
        "pandas with dicts": pd.DataFrame(rows),
        "pyarrow": pa.Table.from_pylist(rows),
        "categorical": pl.DataFrame(rows).with_columns(
            pl.col("prompt_id", "policy", "topic").cast(pl.Categorical)
        ),
        "text path": str(tmp_path / "a.jsonl"),
    }  # fmt: skip
    for name, form in forms.items():
        assert read(form, **OPTIONS) == expected, name


def test_the_careful_path_equals_the_fast_one(tmp_path: Path, expected: Dataset) -> None:
    rows = make_rows()
    # a value of two types in a field nobody needs is enough for the fast reader to give up on
    # duplicate types elsewhere; a whole number written as 0.0 does it for draw_idx
    rows[7]["draw_idx"] = 0.0
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(pl.exceptions.PolarsError):
        pl.read_ndjson(path, schema={"draw_idx": pl.Int64})
    assert read(path, **OPTIONS) == expected


def test_text_is_left_out_unless_asked() -> None:
    data = read(make_rows())
    assert data.prompt is None
    assert data.response is None
    assert read(make_rows(), text=True).response[3].startswith("answer 3")  # type: ignore[index]


def test_a_folder_has_one_file_per_policy(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "policy"} for row in make_rows()]
    write_jsonl(tmp_path / "alpha.jsonl", rows[::2])
    write_jsonl(tmp_path / "beta_responses.jsonl", rows[1::2])
    (tmp_path / "notes.txt").write_text("x")
    data = read(tmp_path)
    assert data.policies == ("alpha", "beta")
    assert data.policy.counts().tolist() == [20, 20]
    assert data.n_prompts == 20
    assert any("notes.txt" in note for note in data.metadata["reading"])


def test_a_mapping_of_policies_to_sources_is_read(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "policy"} for row in make_rows()]
    path = write_jsonl(tmp_path / "x.jsonl", rows[::2])
    data = read({"new": path, "old": rows[1::2], "frame": pd.DataFrame(flat(rows[::2]))})
    assert data.policies == ("new", "old", "frame")
    assert len(data) == 60


def test_a_list_of_paths_is_read(tmp_path: Path) -> None:
    rows = make_rows()
    one = write_jsonl(tmp_path / "one.jsonl", rows[:20])
    two = write_jsonl(tmp_path / "two.jsonl", rows[20:])
    assert read([one, two]) == read(rows)


def test_an_explicit_policy_wins_over_a_column() -> None:
    rows = make_rows()[::2]
    data = read(rows, policy="mine")
    assert data.policies == ("mine",)


@pytest.mark.parametrize(
    ("given", "role"),
    [("example_id", "prompt_id"), ("id", "prompt_id"), ("promptId", "prompt_id"),
     ("model", "policy"), ("Model Name", "policy"), ("epoch", "draw_idx"),
     ("score", "judge_score"), ("human_score", "oracle_label"), ("label", "oracle_label"),
     ("logprob", "base_policy_logprob")],
)  # fmt: skip
def test_synonyms_are_recognised_and_reported(given: str, role: str, expected: Dataset) -> None:
    rows = [{given if k == role else k: v for k, v in row.items()} for row in make_rows()]
    data = read(rows, **OPTIONS)
    assert data == expected
    if given != "promptId":  # the same name in another style is not worth a sentence
        assert f"{role} read from '{given}'" in data.metadata["reading"]


def test_two_candidates_for_a_score_are_a_question() -> None:
    rows = [{"prompt_id": str(i), "score": 0.5, "rating": 0.7} for i in range(4)]
    with pytest.raises(CJEError, match=r"several columns could be judge_score: score, rating"):
        read(rows)
    assert read(rows, fields={"judge_score": "rating"}).judge_score[0] == 0.7


def test_the_exact_name_wins_over_synonyms() -> None:
    rows = [{"prompt_id": str(i), "score": 0.1, "judge_score": 0.7, "id": i} for i in range(4)]
    data = read(rows)
    assert data.judge_score[0] == 0.7
    assert any("preferred to 'score'" in note for note in data.metadata["reading"])


def test_a_text_column_named_label_is_not_taken() -> None:
    rows = [{"prompt_id": str(i), "judge_score": 0.5, "label": "sky blue"} for i in range(4)]
    data = read(rows)
    assert data.n_labelled == 0
    assert "not used: label" in data.metadata["reading"]


def test_fields_can_be_mapped_and_switched_off() -> None:
    rows = [{"q": i, "s": {"gpt": 0.5}, "label": 1.0} for i in range(4)]
    data = read(rows, fields={"prompt_id": "q", "judge_score": "s.gpt", "oracle_label": None})
    assert data.prompt_id.decode() == ["0", "1", "2", "3"]
    assert data.judge_score.tolist() == [0.5] * 4
    assert data.n_labelled == 0


def test_nested_fields_are_read(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": str(i), "judge_score": 0.5, "metadata": {"oracle_label": 0.25, "x": None}}
        for i in range(4)
    ]
    for source in (rows, pl.DataFrame(rows), write_jsonl(tmp_path / "a.jsonl", rows)):
        data = read(source)
        assert data.oracle_label.tolist() == [0.25] * 4
        assert "oracle_label read from 'metadata.oracle_label'" in data.metadata["reading"]


def test_judge_scores_are_read_with_their_variance() -> None:
    rows = [{"prompt_id": str(i), "judge_score": {"mean": 40, "variance": 100.0}} for i in range(3)]
    data = read(rows, judge_scale="0-100")
    assert data.judge_score.tolist() == [0.4] * 3
    assert data.judge_variance is not None
    assert np.allclose(data.judge_variance, 0.01)


def test_the_row_keys_of_the_pipeline_are_read(tmp_path: Path) -> None:
    rows = [
        {"context": f"q{i % 3}", "response": f"r{i}", "logp": -3.0, "score": 0.5,
         "logp_target_all": [-2.0, -4.0 - i]}
        for i in range(6)
    ]  # fmt: skip
    for source in (rows, pl.DataFrame(rows), write_jsonl(tmp_path / "a.jsonl", rows)):
        data = read(source, repeats="draws", target_policies=["p1", "p2"], text=True)
        assert data.n_prompts == 3
        assert data.draw_idx.tolist() == [0, 0, 0, 1, 1, 1]
        assert data.target_policies == ("p1", "p2")
        assert data.target_policy_logprobs is not None
        assert data.target_policy_logprobs[:, 1].tolist() == [-4.0 - i for i in range(6)]
        assert data.prompt is not None
        assert list(data.prompt) == [f"q{i % 3}" for i in range(6)]
    assert read(rows, repeats="draws").target_policies == ("target_0", "target_1")
    # an id made from the text is the same whatever else is in the file
    assert read(rows[:3]).prompt_id.names == read(rows[:3][::-1]).prompt_id.names[::-1]


@pytest.mark.parametrize(
    ("values", "scale"),
    [([0.0, 0.5, 1.0], (0, 1)), ([1, 3, 5], (1, 5)), ([0, 3, 5], (0, 5)), ([1, 6, 7], (1, 7)),
     ([1, 9, 10], (1, 10)), ([0, 9, 10], (0, 10)), ([2.5, 9, 10], (0, 10)), ([0, 50, 93], (0, 100)),
     ([-1.0, 0.0, 0.3], (-1, 1))],
)  # fmt: skip
def test_scales_are_inferred_and_reported(values: list[float], scale: tuple[float, float]) -> None:
    rows = [
        {"prompt_id": str(i), "judge_score": 0.5, "oracle_label": v} for i, v in enumerate(values)
    ]
    data = read(rows)
    assert data.oracle_scale == Scale(*scale)
    assert np.allclose(data.oracle_scale.from_unit(data.oracle_label), values)
    if scale != (0, 1):
        assert any(f"on {Scale(*scale)}" in note for note in data.metadata["reading"])


def test_true_and_false_are_one_and_zero(tmp_path: Path) -> None:
    rows = [{"prompt_id": str(i), "judge_score": 0.5, "oracle_label": i > 1} for i in range(4)]
    for source in (rows, pl.DataFrame(rows), write_jsonl(tmp_path / "a.jsonl", rows)):
        assert read(source).oracle_label.tolist() == [0, 0, 1, 1]


def test_several_raters_are_kept(tmp_path: Path) -> None:
    lists = [
        {"prompt_id": str(i), "judge_score": 0.5, "oracle_label": [1, 3, None]} for i in range(3)
    ]
    lists[1]["oracle_label"] = None
    objects = [
        {**row, "oracle_label": None if (y := row["oracle_label"]) is None else
         {"ann": y[0], "bob": y[1]}}  # type: ignore[index]
        for row in lists
    ]  # fmt: skip
    columns = [
        {"prompt_id": r["prompt_id"], "judge_score": 0.5,
         **({"ann": 1, "bob": 3} if r["oracle_label"] else {"ann": None, "bob": None})}
        for r in lists
    ]  # fmt: skip
    for source, options in (
        (lists, {}),
        (write_jsonl(tmp_path / "a.jsonl", lists), {}),
        (objects, {}),
        (write_jsonl(tmp_path / "b.jsonl", objects), {}),
        (columns, {"fields": {"oracle_label": ["ann", "bob"]}}),
    ):
        data = read(source, oracle_scale=(1, 5), **options)  # type: ignore[arg-type]
        assert np.array_equal(data.oracle_label, [0.25, np.nan, 0.25], equal_nan=True)
        assert data.rater_labels is not None
        assert data.rater_labels.row.tolist() == [0, 0, 2, 2]
        assert data.rater_labels.value.tolist() == [0.0, 0.5, 0.0, 0.5]
        assert data.rater_labels.rater.n_names == 2


@pytest.mark.parametrize("absent", [True, False])
@pytest.mark.parametrize("late", [{"oracle_label": 1.0}, {"metadata": {"oracle_label": [1, 1]}}])
def test_labels_that_first_appear_late_in_a_long_file_are_read(
    tmp_path: Path, late: dict[str, object], absent: bool
) -> None:
    rest: dict[str, object] = {} if absent else {"oracle_label": None}
    rows = [{"prompt_id": i, "judge_score": 0.5, **rest} for i in range(60_000)]
    rows[31_111] = {"prompt_id": 31_111, "judge_score": 0.5, **late}
    data = read(write_jsonl(tmp_path / "a.jsonl", rows))
    assert data.n_labelled == 1
    assert data.oracle_label[31_111] == 1.0


def test_only_the_needed_columns_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    rows = make_rows()
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    data = read(tmp_path / "a.parquet")
    assert data.covariates == {}
    assert any(note.startswith("not used: length, topic") for note in data.metadata["reading"])


def test_whole_number_ids_are_names_in_every_form(tmp_path: Path) -> None:
    rows = [{"prompt_id": i, "judge_score": 0.5} for i in (7, 10**12, -3)]
    pl.DataFrame(rows).write_csv(tmp_path / "a.csv")
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    for source in (rows, tmp_path / "a.csv", tmp_path / "a.parquet", pd.DataFrame(rows),
                   write_jsonl(tmp_path / "a.jsonl", rows)):  # fmt: skip
        assert read(source).prompt_id.names == ("7", "1000000000000", "-3")


def test_blank_lines_of_a_csv_file_are_ignored_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt_id,judge_score\n\np1,0.5\n\np2,0.25\n\n")
    data = read(tmp_path / "a.csv")
    assert data.judge_score.tolist() == [0.5, 0.25]
    assert "a.csv: 3 blank lines are ignored" in data.metadata["reading"]


def test_the_metadata_say_where_every_column_was(tmp_path: Path) -> None:
    rows = [{"id": i, "metadata": {"score": 0.5}} for i in range(4)]
    data = read(write_jsonl(tmp_path / "a.jsonl", rows))
    assert data.metadata["columns"] == {"prompt_id": "id", "judge_score": "metadata.score"}
    assert data.metadata["sources"] == {"a.jsonl": 4}


def test_row_order_only_orders_rows(tmp_path: Path) -> None:
    rows = make_rows()
    order = np.random.default_rng(1).permutation(len(rows))
    assert read([rows[i] for i in order]) == read(rows).select(order)


def test_a_folder_of_logged_fresh_and_probe_files_is_read_whole(arena: Path) -> None:
    logged = read(arena / "logged.jsonl", covariates=["response_chars"])
    lines = [json.loads(line) for line in (arena / "logged.jsonl").read_text().splitlines()]
    assert len(logged) == len(lines)
    assert logged.target_policies == ("clone", "parallel_universe_prompt", "unhelpful")
    assert logged.n_labelled == sum(line["oracle_label"] is not None for line in lines)
    fresh = read(arena / "fresh_draws")
    assert fresh.policies == ("base", "clone", "parallel_universe_prompt", "unhelpful")
    assert len(fresh) == 4 * len(lines)
    probe = read(arena / "probe_slice")
    assert probe.n_labelled == len(probe) >= 120
