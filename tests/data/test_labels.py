"""Labels from a separate file land on the right rows, are counted, and never guess."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cje.data import read
from cje.errors import CJEError


def responses() -> list[dict[str, object]]:
    return [
        {"example_id": f"e{i}", "policy": policy, "judge_score": 0.1 * i}
        for policy in ("a", "b")
        for i in range(5)
    ]


def test_labels_join_by_policy_and_prompt_by_default(tmp_path: Path) -> None:
    labels = [
        {"example_id": "e1", "policy": "b", "label": 4},
        {"example_id": "e3", "policy": "a", "label": 2},
    ]
    pl.DataFrame(labels).write_csv(tmp_path / "labels.csv")
    data = read(responses(), labels=tmp_path / "labels.csv", oracle_scale=(1, 5))
    assert np.flatnonzero(data.is_labelled).tolist() == [3, 6]
    assert data.oracle_label[[3, 6]].tolist() == [0.25, 0.75]
    assert "labels.csv: 2 of 2 labels matched by policy and prompt_id" in data.metadata["reading"]


def test_labels_join_by_a_named_column() -> None:
    rows = [{**row, "key": f"k{i}"} for i, row in enumerate(responses())]
    data = read(rows, labels=[{"key": "k4", "score": 1.0}, {"key": "k99", "score": 0.0}], on="key")
    assert np.flatnonzero(data.is_labelled).tolist() == [4]
    report = " ".join(data.metadata["reading"])
    assert "1 of 2 labels matched by key" in report
    assert "1 fit no row (first: ('k99',))" in report


def test_on_may_use_the_name_of_either_file() -> None:
    rows = [row for row in responses() if row["policy"] == "a"]
    for on in ("example_id", "prompt_id", None):
        data = read(rows, labels=[{"prompt_id": "e2", "human": 1.0}], on=on)
        assert np.flatnonzero(data.is_labelled).tolist() == [2]


def test_policies_named_by_files_can_be_joined_on(tmp_path: Path) -> None:
    for policy in ("a", "b"):
        rows = [row for row in responses() if row["policy"] == policy]
        pl.DataFrame(rows).drop("policy").write_ndjson(tmp_path / f"{policy}.jsonl")
    data = read(tmp_path, labels=[{"example_id": "e1", "policy": "b", "label": 1.0}])
    assert np.flatnonzero(data.is_labelled).tolist() == [6]


def test_a_key_that_fits_several_rows_is_refused() -> None:
    with pytest.raises(CJEError, match="ambiguous key") as caught:
        read(responses(), labels=[{"example_id": "e1", "label": 1.0}])
    assert "fits 2 rows" in str(caught.value)
    assert "policy" in str(caught.value)


def test_two_labels_for_one_key_are_refused_unless_raters_differ() -> None:
    rows = [row for row in responses() if row["policy"] == "a"]
    twice = [{"example_id": "e1", "label": 1.0}, {"example_id": "e1", "label": 0.0}]
    with pytest.raises(CJEError, match="more than one label"):
        read(rows, labels=twice)
    rated = [{**label, "rater": who} for label, who in zip(twice, ("ann", "bob"), strict=True)]
    data = read(rows, labels=rated)
    assert data.oracle_label[1] == 0.5
    assert data.rater_labels is not None
    assert data.rater_labels.rater.names == ("ann", "bob")
    with pytest.raises(CJEError, match="more than one label"):
        read(rows, labels=[*rated, rated[0]])


def test_labels_that_fit_nothing_are_an_error() -> None:
    with pytest.raises(CJEError, match="none of the 1 labels fits") as caught:
        read(responses(), labels=[{"example_id": "x9", "policy": "a", "label": 1.0}])
    assert "e0" in str(caught.value)


def test_labels_that_contradict_the_data_are_refused() -> None:
    rows = [{**row, "oracle_label": 0.5} for row in responses()]
    same = [{"example_id": "e1", "policy": "a", "label": 0.5}]
    assert read(rows, labels=same).oracle_label[1] == 0.5
    with pytest.raises(CJEError, match="contradict"):
        read(rows, labels=[{**same[0], "label": 0.9}])


@pytest.mark.parametrize(
    ("label", "words"),
    [({"example_id": None, "policy": "a", "label": 1.0}, "is missing"),
     ({"example_id": "e1", "policy": "a", "label": float("nan")}, "not a finite number"),
     ({"example_id": "e1", "policy": "a", "label": None}, "no labels|missing field"),
     ({"example_id": "e1", "policy": "a", "oracle_label": "splendid"}, "is text"),
     ({"example_id": "e1", "policy": "a", "colour": 3}, "missing field oracle_label")],
)  # fmt: skip
def test_bad_label_files_are_refused(label: dict[str, object], words: str) -> None:
    with pytest.raises(CJEError, match=words):
        read(responses(), labels=[label])


def test_empty_labels_in_the_file_are_not_labels() -> None:
    labels = [{"example_id": f"e{i}", "policy": "a", "label": None if i else 1.0} for i in range(5)]
    assert read(responses(), labels=labels).n_labelled == 1
