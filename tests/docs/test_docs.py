"""Every block in the documentation runs or is accepted; every page is in the navigation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from cje import simulate
from cje.cli.main import app
from cje.pipeline import load_config
from cje.pipeline.demo import demo_settings, run_demo
from cje.pipeline.demo_question import ask

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
BLOCK = re.compile(r"^(<!-- no-run: .+ -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """Python blocks of a page; design notes hold signatures, not programs."""
    if "design" in page.parts or page.name == "README.md":
        return []
    return [code for skip, code in BLOCK.findall(page.read_text()) if not skip]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, folder):
    if "demo/run" in page.read_text():  # the page works on what `make demo` leaves behind
        ask(Path("demo"))
        run_demo(Path("demo"))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(blocks(page), start=1):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def command_lines(text: str) -> list[list[str]]:
    """Lines of shell blocks, and code in running text, that call `cje`; comments taken off."""
    lines = [line for block in SHELL.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`(cje [a-z ]+ [^`]*[.-][^`]*)`", text)
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [line for line in words if line[:1] == ["cje"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_shown_is_one_the_program_takes(page):
    for _, *words in command_lines(page.read_text()):
        words = words[: words.index(">")] if ">" in words else words
        command, context = get_command(app), None
        while hasattr(command, "commands") and words:
            command, words = command.commands[words[0]], words[1:]
        context = command.make_context(command.name, list(words), parent=context)
        assert context.command.name == command.name


def test_every_configuration_shown_is_one_a_run_takes(tmp_path):
    found = [block for page in PAGES for block in YAML.findall(page.read_text())]
    assert found
    for block in found:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({**demo_settings(), **yaml.safe_load(block)}))
        load_config(path)


@pytest.fixture
def files_of_the_readme(tmp_path, monkeypatch):
    """evals.csv, as the README supposes it."""
    monkeypatch.chdir(tmp_path)
    data = simulate.policies_on_shared_prompts(200, 2, 60, seed=3).dataset
    evals = pl.DataFrame(
        {
            "prompt_id": data.prompt_id.decode(),
            "policy": [{"base": "prod", "candidate_1": "cand"}[p] for p in data.policy.decode()],
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
            "date": [f"2026-{1 + i % 6:02d}-01" for i in range(len(data))],
        }
    )
    evals.write_csv("evals.csv")


def test_the_readme_runs(files_of_the_readme):
    text = (ROOT / "README.md").read_text()
    for _, code in BLOCK.findall(text):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    commands = command_lines(text)
    assert len(commands) >= 3
    for _, *words in commands:
        if words[0] == "label":  # serves a page until stopped; tests/browser labels with it
            continue
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (0, 2), (words, done.output, done.exception)
    assert Path("report.html").is_file()
