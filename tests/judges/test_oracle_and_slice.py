"""Trusted labels: where they come from, how they join, and how the slice is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cje.data import Scale
from cje.errors import CJEError
from cje.judges import (
    CallableOracle,
    CSVOracle,
    DeterministicJudge,
    ModelOracle,
    draw_label_slice,
)
from cje.models import run_sync

ROW = {"id": "a", "context": "c", "response": "r"}


def _csv(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_csv_labels_join_by_id_and_mismatches_are_reported(tmp_path: Path) -> None:
    file = _csv(tmp_path, "id,label\na,4\na,5\nb,1\nzz,2\nc,\n")
    oracle = CSVOracle(file, scale=Scale(1, 5))
    verdict = run_sync(oracle.alabel(ROW, seed=0))
    assert verdict is not None
    assert verdict.score == pytest.approx(0.875)  # two raters averaged
    assert run_sync(oracle.alabel({**ROW, "id": "c"}, seed=0)) is None
    report = oracle.join_report(["a", "b", "c", "d"])
    assert report.matched == 2
    assert report.unlabelled == ("c", "d")
    assert report.unused == ("zz",)
    assert report.averaged == ("a",)
    assert "1 labels match no row" in str(report)
    assert "zz" in str(report)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\na,good\n", "line 2, label"),
        ("id,label\na,0.5\nb,7\n", "line 3, label"),
        ("id,label\na,nan\n", "must be in"),
        ("name,label\na,1\n", "no column 'id'"),
        ("", "no column 'id'"),
    ],
)
def test_a_label_file_that_cannot_be_right_is_refused_by_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(CJEError, match=message):
        CSVOracle(_csv(tmp_path, text))


def test_a_missing_label_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CJEError, match="cannot read the label file"):
        CSVOracle(tmp_path / "none.csv")


def test_functions_coroutines_and_models_are_oracles() -> None:
    async def later(context: str, response: str) -> float:
        return 30.0

    percent = CallableOracle(later, scale=Scale(0, 100))
    assert run_sync(percent.alabel(ROW, seed=0)).score == 0.3  # type: ignore[union-attr]
    assert run_sync(CallableOracle(lambda c, r: None).alabel(ROW, seed=0)) is None  # type: ignore[arg-type,return-value]
    with pytest.raises(CJEError, match="must be in"):
        run_sync(CallableOracle(lambda c, r: 30.0).alabel(ROW, seed=0))
    model = ModelOracle(DeterministicJudge(lambda c, r: 0.9))
    assert run_sync(model.alabel(ROW, seed=0)).score == 0.9  # type: ignore[union-attr]


def test_a_random_slice_has_the_asked_size_and_its_propensity() -> None:
    drawn = draw_label_slice(1000, fraction=0.2, seed=1)
    assert drawn.selected.sum() == 200
    assert set(drawn.propensity) == {0.2}
    assert not np.array_equal(drawn.selected, draw_label_slice(1000, fraction=0.2, seed=2).selected)
    rates = np.mean([draw_label_slice(50, count=10, seed=s).selected for s in range(2000)], axis=0)
    assert np.abs(rates - 0.2).max() < 5 * np.sqrt(0.16 / 2000)


def test_a_stratified_slice_covers_rare_strata_and_its_weighted_mean_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1, 2], [900, 90, 10])
    y = strata + rng.normal(size=1000)
    means = []
    for seed in range(800):
        drawn = draw_label_slice(1000, count=60, strata=strata, seed=seed)
        assert drawn.selected.sum() == 60
        means.append(np.sum(drawn.selected * y / drawn.propensity) / 1000)
    assert drawn.selected[strata == 2].sum() == 10  # all of the rare ones, the rest shared
    assert drawn.selected[strata == 0].sum() == 25
    assert np.mean(means) == pytest.approx(y.mean(), abs=4 * np.std(means) / np.sqrt(800))


@pytest.mark.parametrize(
    "arguments",
    [
        {"fraction": 0.0}, {"fraction": 1.5}, {"count": 0}, {"count": 11}, {},
        {"fraction": 0.1, "count": 1}, {"count": 2, "strata": np.arange(10)},
        {"count": 2, "strata": [0]}, {"count": 2, "strata": [None] * 10},
        {"count": 2, "strata": ["a", 1] * 4 + [None, {}]}, {"count": 2, "strata": [[1], [1, 2]]},
        {"count": "2"}, {"fraction": "half"},
    ],
)  # fmt: skip
def test_slices_that_cannot_be_drawn_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(CJEError):
        draw_label_slice(10, seed=0, **arguments)  # type: ignore[arg-type]
