"""Promises of `cje analyze`: what it prints and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import cje.simulate as simulate
from cje import CJEError
from cje.cli.main import app, main


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    data = simulate.policies_on_shared_prompts(300, 2, 60, seed=1).dataset
    frame = pl.DataFrame(
        {
            "policy": ["[bold]odd" if p == "base" else p for p in data.policy.decode()],
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
            "domain": ["x" if code % 2 else "y" for code in data.prompt_id.codes],
        }
    )
    frame.write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["cje", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_a_clean_file_exits_with_zero_and_names_are_never_interpreted(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "analyze", str(rows), "--by", "domain") == 0
    text = capsys.readouterr().out
    assert "[bold]odd" in text
    assert "paired differences" in text
    assert "by domain" in text


def test_a_warning_does_not_change_the_exit_code(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_csv(rows)
    one = frame.with_columns(
        oracle_label=pl.when(pl.col("policy") == "candidate_1").then(None).otherwise("oracle_label")
    )
    one.write_csv(rows)
    assert _run(monkeypatch, "analyze", str(rows)) == 0
    assert "borrowed calibration" in capsys.readouterr().out


def test_a_refused_value_ends_with_two(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(rows).drop("oracle_label").write_csv(rows)
    assert _run(monkeypatch, "analyze", str(rows)) == 2
    assert capsys.readouterr().out.startswith("No result here supports a decision")


def test_the_answer_comes_first_and_names_the_baseline(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, "analyze", str(rows), "--baseline", "candidate_1")
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("[bold]odd is worse than candidate_1 by 0.")
    assert "on 120 labels" in first
    assert _run(monkeypatch, "analyze", str(rows), "--baseline", "nobody") == 1
    assert "the baseline is not in the data" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["nowhere.csv"], ["--no-such-option"], [], ["nowhere.csv", "--level", "high"]]
)
def test_a_failed_command_exits_with_one_and_no_traceback(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "analyze", *arguments) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_json_is_the_saved_result(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "result.json"
    _run(monkeypatch, "analyze", str(rows), "--json", "--save", str(saved), "--margin", "0.1")
    printed = json.loads(capsys.readouterr().out)
    kept = json.loads(saved.read_text())
    assert printed["format"] == kept["format"] == "cje-result"
    assert printed["table"] == kept["table"]
    assert kept["metadata"]["margin"] == 0.1


def test_the_command_is_installed_and_needs_no_terminal(rows: Path) -> None:
    command = Path(sys.executable).parent / "cje"
    done = subprocess.run([command, "analyze", rows], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.char.count(done.stdout, "candidate_1") >= 2


def test_a_guessed_scale_is_reported(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(rows).with_columns(pl.col("oracle_label") * 7).write_csv(rows)
    _run(monkeypatch, "analyze", str(rows), "--verbose")
    text = " ".join(capsys.readouterr().out.split())
    assert "[read] fresh: oracle_label taken to be on 0-10" in text


def test_an_a_a_check_must_be_declared(tmp_path):
    rows = [
        {
            "prompt_id": f"p{i}", "judge_score": (i % 10) / 10, "oracle_label": float(i % 3 == 0),
            "base_policy_logprob": -5.0 - i, "target_policy_logprobs": {"clone": -5.0 - i},
        }
        for i in range(60)
    ]  # fmt: skip
    path = tmp_path / "logged.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    command = ["analyze", "--logged", str(path), "--estimator", "snips"]
    undeclared = CliRunner().invoke(app, command)
    assert isinstance(undeclared.exception, CJEError)
    assert "teacher forcing" in str(undeclared.exception)
    declared = CliRunner().invoke(app, [*command, "--same-as-logging", "clone"])
    assert declared.exit_code in (0, 2), declared.output


def test_json_has_what_the_tables_show(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, "analyze", str(rows), "--json", "--margin", "0.1", "--by", "domain")
    printed = json.loads(capsys.readouterr().out)
    (pair,) = printed["differences"]
    assert pair["margin"] == 0.1
    assert pair["p_non_inferior"] < 0.5
    assert printed["best"]["policy"] == "candidate_1"
    assert printed["table"][0]["joint_low"] <= printed["table"][0]["single_low"]
    assert len(printed["subgroups"]["domain"]["differences"]) == 2


def test_the_margin_is_printed(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, "analyze", str(rows), "--margin", "0.1", "--by", "domain")
    text = capsys.readouterr().out
    assert "margin 0.1: non-inferior" in text
    assert "p 1st non-inferior" in text
    assert "candidate_1 - [bold]odd | x" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--margin", "-1"], "margin must be positive"),
        (["--margin", "nan"], "margin must be positive"),
        (["--margin", "wide"], "--margin"),
        (["--same-as-logging", "foo"], "has no such option"),
        (["--save", "/no/such/folder/x.json"], "cannot write the result"),
        (["--report", "/no/such/folder/x.html"], "cannot write the report"),
        (["--estimator", "snips"], "--logged"),
    ],
)
def test_wrong_options_end_with_one_and_say_why(
    rows: Path,
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(monkeypatch, "analyze", str(rows), *options) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_without_input_the_command_names_its_own_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "analyze") == 1
    error = capsys.readouterr().err
    assert "DATA" in error
    assert "--logged" in error
    assert "fresh_draws_data" not in error


def test_an_empty_file_is_reported_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.csv").write_bytes(b"")
    assert _run(monkeypatch, "analyze", str(tmp_path / "e.csv")) == 1
    assert "run it again" in capsys.readouterr().err.partition("What to do:")[2]


def test_the_help_lists_the_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(CliRunner().invoke(app, ["analyze", "--help"]).output.split())
    assert "Exit code 0" in text
    assert "a requested value was refused" in text


def test_a_saved_result_is_shown_as_it_was(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved, page = tmp_path / "r.json", tmp_path / "r.html"
    _run(monkeypatch, "analyze", str(rows), "--save", str(saved))
    first = capsys.readouterr().out
    assert _run(monkeypatch, "show", str(saved), "--report", str(page)) == 0
    assert capsys.readouterr().out == first
    assert "candidate_1" in page.read_text()
    assert _run(monkeypatch, "show", str(rows)) == 1
    assert "not a saved result" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["date", "created_at", "length"])
@pytest.mark.parametrize("filled", ["all", "some"])
def test_an_unused_column_of_dates_or_gaps_does_not_stop_an_analysis(
    tmp_path: Path, column: str, filled: str
) -> None:
    data = simulate.policies_on_shared_prompts(100, 2, 40, seed=3).dataset
    text = [f"2026-01-{1 + i % 28:02d}" for i in range(len(data))]
    lines = ["prompt_id,policy,judge_score,oracle_label," + column]
    labels = ["" if np.isnan(y) else str(y) for y in data.oracle_label]
    rows = zip(
        data.prompt_id.decode(), data.policy.decode(), data.judge_score, labels, text, strict=True
    )
    for i, (*cells, date) in enumerate(rows):
        last = date if filled == "all" else ("" if i % 3 else "7")
        lines.append(",".join(map(str, [*cells, last])))
    path = tmp_path / "evals.csv"
    path.write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["analyze", str(path), "--judge-scale", "0-1"])
    assert done.exit_code == 0, done.output
