"""`cje judge`, `--report` to every kind of file, `cje plan --transport`: as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cje.analysis.judge_report import judge_report
from cje.cli.main import main
from cje.data import read
from cje.report import pdf


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    lines = ["prompt_id,policy,judge_score,second,human_label,position,response"]
    for i in range(120):
        for policy in ("prod", "cand"):
            label = int(np.clip(round(3 + rng.normal() + 0.4 * (policy == "cand")), 1, 5))
            one, two = (int(np.clip(label + rng.integers(-1, 2), 1, 5)) for _ in range(2))
            shown = label if i % 2 else ""
            lines.append(f"{i},{policy},{one},{two},{shown},{'AB'[i % 2]},words {'x' * (i % 9)}")
    path = tmp_path_factory.mktemp("judge") / "evals.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["cje", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code))


def test_cje_judge_says_what_the_judge_saves_and_what_its_errors_depend_on(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "judge", rows, "--also", "second") == 0
    text = capsys.readouterr().out
    assert "judge_score saves" in text
    assert "labels with it are as precise as" in text
    assert "All 2 judges in one calibration explain" in text
    assert "weighted kappa (quadratic)" in text
    assert "log length of the response" in text
    assert "position A" not in text.splitlines()[0]
    assert "version cand" in text


def test_a_judge_that_was_recognised_counts_once_although_also_names_it() -> None:
    data = read(
        Path(__file__).parents[2] / "examples" / "judge_the_judge" / "evals.csv",
        covariates=["gpt_score", "claude_score"],
    )
    cards = judge_report(data, also=["gpt_score", "claude_score"])
    assert [card.judge for card in cards.cards] == ["gpt", "claude"]


def test_a_saved_card_is_stale_for_another_rubric(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("Be strict.")
    new.write_text("Be kind.")
    card, bound = tmp_path / "card.json", ["--judge", "m", "--template", "comprehensive_judge"]
    assert run(monkeypatch, "judge", rows, *bound, "--rubric", old, "--save", card) == 0
    assert json.loads(card.read_text())["cards"][0]["identity"]["judge"] == "m"
    assert run(monkeypatch, "judge", rows, *bound, "--rubric", old, "--card", card) == 0
    assert run(monkeypatch, "judge", rows, *bound, "--rubric", new, "--card", card) == 2
    assert "the rubric differs" in capsys.readouterr().out
    assert run(monkeypatch, "judge", rows, "--card", card) == 1
    assert "--judge NAME" in capsys.readouterr().err


def test_the_report_of_an_analysis_has_the_judges_card(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, saved = tmp_path / "r.html", tmp_path / "r.json"
    assert run(monkeypatch, "analyze", rows, "--report", page, "--save", saved) == 0
    assert "How good is the judge?" in page.read_text()
    again = tmp_path / "again.html"
    assert run(monkeypatch, "show", saved, "--report", again) == 0
    assert "How good is the judge?" in again.read_text()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (".", "this is a folder"),
        ("/", "this is a folder"),
        ("no/such/folder/x.html", "no such folder"),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "judge"])
def test_a_report_that_is_a_folder_is_an_error_before_anything_is_read(
    command: str, place: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, command, "there-is-no-such-file.csv", "--report", place) == 1
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_pdf_is_a_pdf(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if pdf.find_browser() is None:
        pytest.skip("no Chromium on this machine")
    made = tmp_path / "card.pdf"
    assert run(monkeypatch, "judge", rows, "--report", made) == 0
    assert made.read_bytes().startswith(b"%PDF-")
    assert [p.name for p in tmp_path.iterdir()] == ["card.pdf"]


def test_without_a_browser_a_pdf_says_what_to_install_and_writes_nothing(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pdf, "BROWSERS", ("no-such-browser",))
    assert run(monkeypatch, "analyze", rows, "--report", tmp_path / "r.pdf") == 1
    assert "apt install chromium" in capsys.readouterr().err
    assert not (tmp_path / "r.pdf").exists()


def test_html_is_never_written_under_the_name_of_a_pdf(tmp_path: Path) -> None:
    from cje.errors import CJEError
    from cje.report import Report

    with pytest.raises(CJEError, match="to_pdf"):
        Report("x", ()).to_html(tmp_path / "x.PDF")
    assert not list(tmp_path.iterdir())


def test_cje_plan_sizes_a_probe(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "plan", rows, "--transport", "0.5", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["n_labels"] >= 20
    assert plan["power"] >= 0.8
    assert run(monkeypatch, "plan", rows, "--transport", "0.5", "--width", "0.1") == 1
    assert run(monkeypatch, "plan", "--transport", "0.5") == 1
    assert "--calibration-labels" in capsys.readouterr().err
