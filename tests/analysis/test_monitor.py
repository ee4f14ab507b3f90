"""`cje monitor` and `cje drift`: what changed, when, and how sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cje.analysis.drift import drift
from cje.analysis.monitor import _time_key, monitor
from cje.cli.main import app
from cje.errors import CJEError
from cje.inference import Decision


def stream(
    *, days: int = 24, value_from: int = 99, judge_from: int = 99, anchor_from: int = 99,
    seed: int = 0,
) -> pl.DataFrame:  # fmt: skip
    """Daily rows: the responses get worse, the judge gets milder, or its anchor scores move."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for day in range(days):
        quality = rng.random(50) - (0.25 if day >= value_from else 0.0)
        score = np.clip(quality + (0.2 if day >= judge_from else 0.0), 0, 1)
        label = np.clip(0.2 + 0.5 * quality + 0.1 * rng.standard_normal(50), 0, 1)
        for i in range(50):
            rows.append({"prompt_id": f"{day}-{i}", "policy": "prod", "anchor": 0,
                         "day": f"2026-03-{day + 1:02d}", "judge_score": float(score[i]),
                         "oracle_label": float(label[i]) if i < 20 else None})  # fmt: skip
        moved = 0.05 if day >= anchor_from else 0.0
        rows += [{"prompt_id": f"anchor-{i}", "policy": "prod", "anchor": 1,
                  "day": f"2026-03-{day + 1:02d}", "oracle_label": None,
                  "judge_score": 0.1 * i + moved + 0.01 * float(rng.random())}
                 for i in range(9)]  # fmt: skip
    return pl.DataFrame(rows)


def alarms(frame: pl.DataFrame) -> dict[str, str | None]:
    found = monitor([frame], time="day", anchor="anchor", judge_scale=(0, 1))
    return {s.name: s.start for s in found.streams if s.alarm is not None}


def test_without_a_change_there_is_no_alarm() -> None:
    for seed in range(3):
        assert alarms(stream(seed=seed)) == {}


def test_worse_responses_change_the_value_alone() -> None:
    assert alarms(stream(value_from=12)) == {"value": "2026-03-13"}


def test_a_milder_judge_changes_the_calibration_alone() -> None:
    assert alarms(stream(judge_from=14)) == {"judge's calibration": "2026-03-15"}


def test_a_judge_that_scores_the_anchor_rows_differently_is_found() -> None:
    assert alarms(stream(anchor_from=10)) == {"anchor scores": "2026-03-11"}


def test_the_intervals_of_all_periods_hold_the_value() -> None:
    missed = 0
    for seed in range(8):
        found = monitor([stream(days=10, seed=seed)], time="day", judge_scale=(0, 1))
        value = found.streams[0]
        missed += any(not p.low <= 0.45 <= p.high for p in value.periods)
    assert missed <= 2


def test_files_without_a_time_are_periods_in_their_order(tmp_path: Path) -> None:
    frame = stream(value_from=6, days=12)
    paths = []
    for k, (_, part) in enumerate(frame.group_by("day", maintain_order=True)):
        paths.append(tmp_path / f"run{k:02d}.csv")
        part.drop("day", "anchor").write_csv(paths[-1])
    found = monitor(paths, judge_scale=(0, 1))
    assert [s.start for s in found.alarms] == ["7"]


def test_short_periods_are_merged_and_that_is_reported() -> None:
    frame = stream(days=12).with_columns(
        pl.when(pl.col("prompt_id").str.contains("[1-4]$"))
        .then("oracle_label")
        .alias("oracle_label")
    )
    found = monitor([frame], time="day", judge_scale=(0, 1))
    assert len(found.streams[0].periods) < 12
    assert "merged" in found.notes[0]
    assert " to " in found.streams[0].periods[0].name


def test_numbers_order_by_size_and_dates_by_day() -> None:
    frame = stream(days=12).with_columns((pl.col("day").str.slice(8).cast(pl.Int64)).alias("week"))
    names = [p.name for p in monitor([frame], time="week", judge_scale=(0, 1)).streams[0].periods]
    assert names == [str(k) for k in range(1, 13)]


def test_a_monitor_without_enough_periods_or_with_odd_times_is_refused() -> None:
    with pytest.raises(CJEError, match="at least 3 periods") as few:
        monitor([stream(days=2)], time="day")
    assert "time='COLUMN'" in str(few.value)
    odd = stream(days=5).with_columns(day=pl.lit("yesterday"))
    with pytest.raises(CJEError, match="a number or a date"):
        monitor([odd], time="day")


def test_the_monitor_command_draws_and_ends_with_2_on_an_alarm(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    stream(value_from=8, days=16).write_csv(tmp_path / "s.csv")
    stream(days=16).write_csv(tmp_path / "calm.csv")
    run = CliRunner().invoke
    done = run(app, ["monitor", str(tmp_path / "s.csv"), "--time", "day", "--judge-scale", "0-1",
                     "--picture", str(tmp_path / "p.png")])  # fmt: skip
    assert done.exit_code == 2, done.output
    assert "ALARM: the value changed" in done.output
    assert (tmp_path / "p.png").stat().st_size > 5_000
    calm = run(
        app, ["monitor", str(tmp_path / "calm.csv"), "--time", "day", "--judge-scale", "0-1"]
    )
    assert calm.exit_code == 0, calm.output


# ---- drift ------------------------------------------------------------------------------------


def runs(
    *, score: float = 0.0, squeeze: float = 1.0, people: float = 0.0, labels: int = 300,
    noise: float = 0.0, seed: int = 0,
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    rng = np.random.default_rng(seed)
    old = np.round(rng.uniform(0.2, 0.8, 600), 3)
    y = 0.2 + 0.5 * old + 0.08 * rng.standard_normal(600)
    new = 0.5 + squeeze * (old - 0.5) + score + noise * rng.standard_normal(600)
    known = np.arange(600) < labels
    names = [f"q{i}" for i in range(600)]
    return (
        pl.DataFrame({"prompt_id": names, "judge_score": old,
                      "oracle_label": np.where(known, y, None).tolist()}, strict=False),
        pl.DataFrame({"prompt_id": names, "judge_score": np.clip(new, 0, 1),
                      "oracle_label": np.where(known, y + people, None).tolist()}, strict=False),
    )  # fmt: skip


def checked(old: pl.DataFrame, new: pl.DataFrame, **options: Any) -> Any:
    options = {"judge_scale": (0, 1), "oracle_scale": (0, 1), "margin": 0.03} | options
    return drift(old, new, **options)


def test_the_same_scores_pass() -> None:
    found = checked(*runs())
    assert found.decision is Decision.PASS
    assert found.changed == 0.0


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({"score": 0.08}, "scores on the same rows"),
        ({"score": 0.15}, "reported value with the stored calibration"),
        ({"people": -0.1}, "label minus calibrated score"),
        ({"squeeze": -0.2}, "the same, higher scores"),
    ],
)
def test_each_kind_of_drift_fails_its_own_question(
    options: dict[str, float], question: str
) -> None:
    found = checked(*runs(**options))  # type: ignore[arg-type]
    assert found.decision is Decision.FAIL
    assert {s.question: s.decision for s in found.shifts}[question] is Decision.FAIL


def test_few_labels_leave_the_relation_undecided_and_having_none_is_reported() -> None:
    few = checked(*runs(labels=24))
    assert few.decision is Decision.UNDECIDED
    none = checked(*runs(labels=0))
    assert len(none.shifts) == 1
    assert "20 are needed" in none.notes[0]


def test_two_noisy_runs_of_one_judge_are_called_drift_in_at_most_one_of_twenty() -> None:
    failed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        quality = rng.uniform(0.3, 0.7, 500)
        label = np.where(rng.random(500) < 0.4, quality + 0.05 * rng.standard_normal(500), None)
        old, new = (
            pl.DataFrame({"prompt_id": np.arange(500), "oracle_label": label.tolist(),
                          "judge_score": quality + 0.05 * rng.standard_normal(500)}, strict=False)
            for _ in range(2)
        )  # fmt: skip
        failed += checked(old, new, margin=1e-6).decision is Decision.FAIL
    assert failed <= 8  # three standard errors above one in twenty


def test_rows_are_matched_by_the_named_column() -> None:
    old, new = (frame.rename({"prompt_id": "case"}) for frame in runs())
    shuffled = new.sample(fraction=1.0, shuffle=True, seed=3)
    assert checked(old, shuffled, on="case").decision is Decision.PASS
    other = new.with_columns(pl.col("case") + "x")
    with pytest.raises(CJEError, match="rows that both runs have"):
        checked(old, other, on="case")


def test_the_drift_command_has_the_gates_exit_codes(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    old, new = runs(score=0.15)
    for name, frame in (("old", old), ("new", new), ("few", runs(labels=24)[0])):
        frame.write_csv(tmp_path / f"{name}.csv")

    def code(first: str, second: str) -> int:
        return int(CliRunner().invoke(app, [
            "drift", str(tmp_path / f"{first}.csv"), str(tmp_path / f"{second}.csv"),
            "--judge-scale", "0-1", "--oracle-scale", "0-1", "--margin", "0.03",
        ]).exit_code)  # fmt: skip

    assert code("old", "old") == 0
    assert code("old", "new") == 1
    assert code("few", "few") == 2


def test_monitor_and_drift_take_columns_by_name(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    rng = np.random.default_rng(4)
    lines = ["qid,day,gpt,human"]
    for i in range(300):
        value = rng.random()
        lines.append(f"q{i},{i // 100},{value:.3f},{value:.3f}")
    file = tmp_path / "runs.csv"
    file.write_text("\n".join(lines))
    columns = ["--field", "prompt_id=qid", "--field", "judge_score=gpt", "--field", "label=human"]
    run = CliRunner().invoke
    watched = run(app, ["monitor", str(file), "--time", "day", *columns])
    assert watched.exit_code == 0, watched.output
    compared = run(app, ["drift", str(file), str(file), *columns])
    assert compared.exit_code == 0, compared.output
    assert "300 rows scored in both" in compared.output


def test_a_labels_file_alone_is_refused_with_the_way_to_use_it(tmp_path: Path) -> None:
    from cje.label.schema import create_file

    create_file(tmp_path / "labels.db").close()
    with pytest.raises(CJEError, match=r"no judge scores.*labels='"):
        monitor([tmp_path / "labels.db"])


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_time_that_is_not_a_moment_is_refused(value: str) -> None:
    with pytest.raises(CJEError, match="a time must be"):
        _time_key(value, "day")
