"""Every how-to has an example that runs: its commands, its script, the notebooks."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cje.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGES = sorted(page.stem for page in (ROOT / "docs" / "howto").glob("*.md"))
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The examples, to write into."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    return tmp_path / "examples"


def commands(script: Path) -> list[tuple[list[str], int]]:
    """The command lines of a run.sh with the exit code that each one states."""
    found = []
    for line in script.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            stated = re.search(r"# exit code (\d)$", line)
            found.append((shlex.split(line, comments=True), int(stated[1]) if stated else 0))
    return found


def test_every_how_to_has_an_example_and_the_page_of_examples_lists_it() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for page in PAGES:
        folder = EXAMPLES / page
        assert (folder / "run.sh").is_file() or (folder / "run.py").is_file(), page
        assert f"[{page}]({page})" in listed


@pytest.mark.parametrize("page", [p for p in PAGES if (EXAMPLES / p / "run.sh").is_file()])
def test_the_commands_of_an_example_run(
    copy: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copy / page)
    lines = commands(copy / page / "run.sh")
    assert lines
    for (program, *words), code in lines:
        assert program == "cje"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, (words, done.exception, done.output[-800:])
        for option, name in itertools.pairwise(words):
            if option in ("--report", "--markdown", "--map"):
                assert Path(name).stat().st_size > 0


@pytest.mark.parametrize("page", [p for p in PAGES if (EXAMPLES / p / "run.py").is_file()])
def test_the_script_of_an_example_runs(
    copy: Path, page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy / page)
    runpy.run_path("run.py", run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run_in_order(
    copy: Path, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(copy / "notebooks")
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 4
    assert not any(cell.get("outputs") for cell in cells)  # kept out of the tree
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(code, start=1):
        exec(compile(source, f"{notebook.name}, cell {number}", "exec"), namespace)


def test_there_are_two_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


def test_the_data_of_the_examples_are_what_their_script_writes(copy: Path) -> None:
    shipped = {
        path.relative_to(copy): path.read_bytes()
        for pattern in ("*/*.csv", "*/*.jsonl")
        for path in copy.glob(pattern)
    }
    subprocess.run([sys.executable, str(copy / "make_data.py")], check=True)
    for path, content in shipped.items():
        assert (copy / path).read_bytes() == content, path
