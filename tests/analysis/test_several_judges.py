"""All judges enter the calibration together, and each is assessed on its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje.analysis import analyze_dataset
from cje.analysis.doctor import examine
from cje.data import read
from cje.errors import CJEError


def rows(seed: int = 0, n: int = 150, labelled: int = 60) -> list[dict[str, Any]]:
    """A sharp judge, and one that mostly rates something else; labels on 1-5."""
    rng = np.random.default_rng(seed)
    found = []
    for policy, gain in (("prod", 0.0), ("cand", 0.4)):
        quality = 3.0 + gain + rng.normal(0.0, 0.8, n)
        sharp = np.clip(np.round(quality + rng.normal(0.0, 0.3, n)), 1, 5)
        blunt = np.clip(np.round(3.0 + rng.normal(0.0, 1.2, n)), 1, 5)
        found += [
            {"id": f"q{i}", "model": policy, "judge_sharp": sharp[i], "judge_blunt": blunt[i],
             "human": float(np.clip(np.round(quality[i]), 1, 5)) if i < labelled else None}
            for i in range(n)
        ]  # fmt: skip
    return found


def test_the_labels_decide_the_weights_of_the_judges() -> None:
    table = rows()
    both = analyze_dataset(table, baseline="prod")
    mean = analyze_dataset(
        [{**row, "judge": (row["judge_sharp"] + row["judge_blunt"]) / 2} for row in table],
        fields={"judge_score": "judge"}, baseline="prod",
    )  # fmt: skip
    pair, plain = (r.compare_policies("cand", "prod").interval for r in (both, mean))
    assert pair.width < 0.9 * plain.width


def test_each_judge_is_assessed_on_its_own() -> None:
    result = analyze_dataset(rows())
    judges = result.diagnostics["judges"]
    assert list(judges) == ["sharp", "blunt", "all together"]
    assert judges["sharp"]["r2"] > 0.6
    assert judges["blunt"]["r2"] < 0.1
    assert judges["all together"]["r2"] > judges["sharp"]["r2"] - 0.05
    assert judges["sharp"]["rank_correlation"] > 0.7 > judges["blunt"]["rank_correlation"]
    assert "judges: how much of the label" in result.summary()


def test_judges_on_different_scales_count_alike() -> None:
    table = [{**row, "judge_blunt": 25 * (row["judge_blunt"] - 1)} for row in rows()]
    same, other = read(rows()), read(table)
    assert other.judge_scale.is_unit
    assert np.allclose(same.judge_score, other.judge_score, rtol=0, atol=1e-12)


def test_a_judge_missing_on_a_row_leaves_the_others_and_is_reported() -> None:
    table = rows()
    table[0]["judge_sharp"] = None
    data = read(table)
    assert data.judge_scale.from_unit(data.judge_score)[0] == table[0]["judge_blunt"]
    assert any("1 missing scores" in note for note in data.metadata["reading"])
    table[0]["judge_blunt"] = None
    with pytest.raises(CJEError, match="no judge has scored the row"):
        read(table)


def test_labels_that_a_calibration_file_lacks_the_judges_for_use_the_mean(tmp_path: Path) -> None:
    extra = [{"id": f"x{i}", "judge_score": 1 + i % 5, "human": 1 + i % 5} for i in range(40)]
    path = tmp_path / "more.jsonl"
    path.write_text("\n".join(map(json.dumps, extra)))
    result = analyze_dataset(rows(), calibration_data=path, baseline="prod")
    assert result.compare_policies("cand", "prod").difference > 0.0


def test_judges_named_by_hand_are_the_judges() -> None:
    table = [
        {("g_points" if k == "judge_sharp" else "c_points" if k == "judge_blunt" else k): v
         for k, v in row.items()}
        for row in rows()
    ]  # fmt: skip
    named = analyze_dataset(table, fields={"judge_score": ["g_points", "c_points"]})
    assert np.allclose(named.estimates, analyze_dataset(rows()).estimates, rtol=0, atol=1e-12)


def test_doctor_describes_unused_columns() -> None:
    table = [
        {**row, "topic": ["billing", "travel"][i % 2], "ms": 10 * i, "note": f"n{i}", "gap": None}
        for i, row in enumerate(rows())
    ]
    unused = examine(table).unused
    assert "topic: text, 2 values: billing, travel" in unused
    assert "ms: whole numbers from 0 to 2990" in unused
    assert "note: text, all different" in unused
    assert "gap: empty, or lists and objects" in unused


def test_a_typing_error_is_a_finding_of_doctor_and_an_error_of_the_analysis() -> None:
    table = rows()
    table[3]["human"] = 99.0
    codes = [finding.code for finding in examine(table).findings]
    assert "doubtful-scale" in codes
    with pytest.raises(CJEError, match=r"far outside 1-5.*row 3"):
        analyze_dataset(table)
    result = analyze_dataset(table, skip_bad_rows=True)
    assert result.summary().startswith("Skipped 1 unreadable label (its row kept).")
    assert result.metadata["n_rows"] == {"prod": 150, "cand": 150}


def test_a_declared_wider_scale_with_few_high_values_is_not_a_typing_error() -> None:
    table = rows()
    table[3]["human"] = 99.0
    assert read(table, oracle_scale=(0, 100)).n_labelled == 120
