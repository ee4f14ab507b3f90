"""The pages' commands that need a labels file, run on one: test_commands.py leaves them out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
from typer.testing import CliRunner

from cje.cli.main import app
from cje.data import read
from cje.label.store import Store
from cje.label.study import Study, StudyOptions

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "label_responses"
HOWTO = ROOT / "docs" / "howto"


def _lines(page: str, wanted: str) -> list[list[str]]:
    """The `cje` lines of the block, among those that test_commands.py skips, with `wanted`."""
    text = (HOWTO / page).read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- no-run: [^\n]+ -->\n```bash\n(.*?)```", text, re.S)
    block = next(block for block in blocks if wanted in block)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["cje"]]


def _run(words: list[str], code: int = 0) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, (words, done.output[-600:], done.exception)
    return done.output


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make labels.db beside the page's file, with the first `answers` items labelled."""
    monkeypatch.chdir(tmp_path)

    def made(name: str, answers: int, word: Any, **options: Any) -> None:
        shutil.copy(EXAMPLE / "responses.csv", "responses.csv")
        _run(["convert", "responses.csv", name])
        study = Study.create(Path("labels.db"), read(name, text=True), StudyOptions(**options))
        for number in range(answers):
            item = study.next_item("alice", "one")
            assert item is not None
            study.store.answer(
                "alice", item.id, word=word(number), revision=item.revision,
                key=f"key-{number:08d}", seconds=5.0,
            )  # fmt: skip
        study.store.close()

    return made


def test_the_commands_after_labelling_run(labelled: Any) -> None:
    labelled("evals.jsonl", 80, lambda i: str(1 + i % 5), count=120, scale="1-5",
             design="paired", baseline="prod", candidate="cand")  # fmt: skip
    plan, analyze, gate = _lines("label_responses.md", "--plan")
    assert "labels" in _run(plan)
    assert "Anytime intervals" in _run(analyze)
    assert "UNDECIDED" in _run(gate, 2)


def test_the_commands_for_sheets_run(labelled: Any) -> None:
    labelled("evals.jsonl", 40, lambda i: str(1 + i % 5), count=60, scale="1-5")
    sheet, back, _, export = _lines("label_responses.md", "labels sheet")
    _run(sheet)
    book = openpyxl.load_workbook("for_bob.xlsx")
    page = book.active
    assert page is not None
    titles = [cell.value for cell in page[1]]
    answer = next(i for i, title in enumerate(titles, start=1) if title == "label")
    for row in range(2, page.max_row + 1):
        page.cell(row, answer).value = 3
    book.save("for_bob.xlsx")
    _run(back)
    _run(export)
    assert pl.read_csv("labels.csv").height == 60
    assert len(Store.open(Path("labels.db")).read("SELECT DISTINCT rater FROM answer")) == 2


def test_side_by_side_answers_are_analysed(labelled: Any) -> None:
    labelled("evals.csv", 60, lambda i: ("A", "B", "tie")[i % 3], count=100, pairs=True,
             baseline="prod", candidate="cand")  # fmt: skip
    _, analyze = _lines("compare_side_by_side.md", "--pairs")
    assert "win rate" in _run(analyze)
