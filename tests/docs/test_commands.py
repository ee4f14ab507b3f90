"""The commands of the pages run as they are written, and print what the pages show.

A page of `docs/howto/` works in its own folder of `examples/`, every other page in a folder that
holds `examples/`. Blocks run in order. A line states its exit code, unless that is 0, in a
comment: `# exit code 2`. A block that cannot run here says why in front of it:
`<!-- no-run: why -->`. A block of text after a block of commands is their output; `...` stands for
what is left out.
"""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cje.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page for page in ROOT.glob("docs/**/*.md") if "design" not in page.parts
)  # the README: test_docs.py
FENCE = re.compile(
    r"^(?P<skip><!-- no-run: .+ -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```", re.M | re.S
)
KNOWN = {"bash", "bibtex", "json", "py", "python", "text", "yaml", "yml"}


def fences(page: Path) -> list[dict[str, str]]:
    return [found.groupdict() for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


def runs(block: dict[str, str]) -> bool:
    lines = block["code"].splitlines()
    return (
        block["language"] == "bash"
        and not block["skip"]
        and any(line.startswith("cje ") for line in lines)
    )


def squeezed(text: str) -> str:
    return " ".join(text.split())


def run(line: str) -> str:
    """What one command prints; its exit code is the one that its line states."""
    stated = re.search(r"# exit code (\d)$", line)
    _, *words = shlex.split(line, comments=True)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (int(stated[1]) if stated else 0), (line, done.output[-800:])
    return done.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(map(runs, fences(page)))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_of_a_page_run_and_print_what_it_shows(page: Path) -> None:
    blocks = [*fences(page), {"language": "", "code": "", "skip": ""}]
    for block, following in itertools.pairwise(blocks):
        if not runs(block):
            continue
        lines = [line for line in block["code"].splitlines() if line.startswith("cje ")]
        printed = squeezed("\n".join(map(run, lines)))
        if following["language"] != "text":
            continue
        for part in map(squeezed, re.split(r"^\.\.\.$", following["code"], flags=re.M)):
            assert part in printed, (lines, part, printed)
            printed = printed[printed.index(part) + len(part) :]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_some_test_runs(page: Path) -> None:
    """`console` or `sh` would be a way around the tests."""
    assert {block["language"] for block in fences(page)} <= KNOWN
