"""The demo's question: shipped data, a judge with the order wrong, and the right answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from cje.cli.main import app
from cje.pipeline.demo import DemoRow
from cje.pipeline.demo_question import ask, question_report

SUPPORT = Path(__file__).resolve().parents[2] / "examples" / "support"


def test_the_shipped_files_are_what_their_script_writes(tmp_path: Path) -> None:
    script = tmp_path / "make_evals.py"
    script.write_text((SUPPORT / "make_evals.py").read_text())
    subprocess.run([sys.executable, str(script)], check=True)
    for name in ("evals.csv", "truth.csv"):
        assert (tmp_path / name).read_bytes() == (SUPPORT / name).read_bytes()


def test_the_judge_has_the_order_wrong_and_the_answer_has_it_right(tmp_path: Path) -> None:
    question = ask(tmp_path)
    names = list(question.truth)
    by_truth = sorted(names, key=lambda n: question.truth[n])
    assert sorted(names, key=lambda n: question.naive[n]) == ["cand-short", "prod", "cand-long"]
    assert by_truth == ["cand-long", "prod", "cand-short"]
    verdicts = {c.a: c.verdict for c in question.result.versus_baseline()}
    assert verdicts == {"cand-short": "better", "cand-long": "worse"}
    for _, _, _, low, high, truth in question.rows():
        assert low < truth < high


def test_the_judge_likes_length_and_people_do_not() -> None:
    data = pl.read_csv(SUPPORT / "evals.csv").with_columns(
        length=pl.col("response").str.len_chars()
    )
    rated = data.drop_nulls("human_label")
    assert rated.select(pl.corr("length", "judge_score")).item() > 0.5
    assert rated.select(pl.corr("length", "human_label")).item() < 0.1


def test_the_command_prints_naive_calibrated_and_true_values(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    done = CliRunner().invoke(app, ["demo", "--out", str(out), "--pipeline", "none"])
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "cand-short is better than prod by 0.67 points" in words
    assert "The judge alone says cand-long > prod > cand-short" in words
    assert "3.83" in words  # the truth
    assert (out / "evals.csv").is_file()


def test_the_report_opens_with_the_question_and_ends_with_the_log(tmp_path: Path) -> None:
    rows = [DemoRow("base", 0.56, 0.55, 0.57, 0.556, None, True),
            DemoRow("bad", 0.1, 0.0, 0.9, 0.48, "effective sample size 4")]  # fmt: skip
    page = question_report(ask(tmp_path), rows).to_html()
    places = [page.rindex(words) for words in (
        "Which support prompt is better?", "cand-short\u2069 is better than \u2068prod",
        "The judge, the calibrated answer, the truth", "From a log alone", "wrote the log",
        "effective sample size 4", "How it was made",
    )]  # fmt: skip
    assert places == sorted(places)
