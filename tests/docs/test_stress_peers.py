"""The peers' rows of the stress study: refusals and errors are counted, never dropped."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.stress_peers import ALONE, OURS, Intervals, _verdict, table
from benchmarks.workers.stress_peer import answer, by_cluster
from studies.stress_direct import CELLS


def _part(coverage: float, width: float, errors: float = 0.0) -> dict[str, Any]:
    return {"coverage": coverage, "width": width, "to_oracle": 1.0, "refused": 0.0,
            "errors": errors, "problem": "", "intervals": 800}  # fmt: skip


def test_an_exception_of_a_peer_is_an_error_of_that_data_set_alone() -> None:
    def method(score: Any, *_: Any) -> Any:
        if score[0, 0] > 1:
            raise ValueError(f"cluster {int(score[0, 0])} is bad")
        return np.array([[0.1, 0.3]]), np.array([0])

    score = np.array([[[0.0]], [[7.0]], [[8.0]]])
    given = {"score": score, "label": score, "cluster": np.zeros(1, int), "watched": np.array([0])}
    found = answer(method, given)
    assert found["state"].tolist() == [[0], [2], [2]]
    assert found["low"][0, 0] == 0.1
    assert json.loads(found["problem"]) == {"ValueError: cluster # is bad": 2}


def test_clusters_labelled_in_part_have_no_mean_label() -> None:
    score, label = np.array([0.0, 1.0, 0.5, 0.5]), np.array([1.0, 0.0, 1.0, np.nan])
    s, y = by_cluster(score, label, np.array([0, 0, 1, 1]))
    assert s.tolist() == [0.5, 0.5]
    assert y[0] == 0.5
    assert np.isnan(y[1])


def test_coverage_is_of_the_values_given_and_the_others_are_counted() -> None:
    low, high = np.zeros((4, 1)), np.array([[1.0], [1.0], [0.1], [1.0]])
    refused = np.array([[True], [False], [False], [False]])
    failed = np.array([[False], [True], [False], [False]])
    found = Intervals(low, high, refused, failed).summary(np.full((4, 1), 0.5), 0.5)
    assert (found["coverage"], found["refused"], found["errors"]) == (0.5, 0.25, 0.25)
    assert found["width"] == 0.55
    assert found["to_oracle"] == 1.1


def test_a_cell_is_met_where_no_other_that_covers_is_narrower() -> None:
    cell = CELLS[0]
    ours = {OURS: _part(0.95, 0.2)}
    assert _verdict(cell, {**ours, ALONE: _part(0.95, 0.3)}, 0.0, 800)["ok"]
    assert not _verdict(cell, {**ours, ALONE: _part(0.95, 0.1)}, 0.0, 800)["ok"]
    assert _verdict(cell, {**ours, ALONE: _part(0.90, 0.1)}, 0.0, 800)["ok"]  # does not cover
    assert _verdict(cell, {**ours, "glide": _part(1.0, 0.1, errors=0.8)}, 0.0, 800)["ok"]
    assert not _verdict(cell, {OURS: _part(0.80, 0.1), ALONE: _part(0.8, 0.3)}, 0.0, 800)["ok"]
    assert _verdict(cell, {OURS: _part(0.80, 0.1), ALONE: _part(0.8, 0.3)}, 1.0, 800)["ok"]


def test_the_table_shows_what_is_missing() -> None:
    shown = {OURS: _part(0.95, 0.2), "glide": _part(1.0, 0.1, errors=0.8)}
    shown["PPI++"] = {**_part(0.0, 0.0, errors=1.0), "coverage": None}
    line = table([_verdict(CELLS[0], {OURS: shown[OURS]}, 0.0, 800) | {"found": shown}])
    assert line.splitlines()[-1].split(" | ")[1:] == [
        "0.950 0.200", "-", "errors", "1.000 0.100 (80% without)", "- |",
    ]  # fmt: skip
