"""Every Python block in the documentation runs; every page is in the navigation."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
BLOCK = re.compile(r"^(<!-- no-run: .+ -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```bash\n(cje plan .*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """Python blocks of a page; design notes hold signatures, not programs."""
    if "design" in page.parts or page.name == "README.md":
        return []
    return [code for skip, code in BLOCK.findall(page.read_text()) if not skip]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(blocks(page), start=1):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def test_commands_that_need_no_file_run():
    found = [c for page in PAGES for c in COMMAND.findall(page.read_text())]
    assert found
    for command in found:
        done = subprocess.run(
            [ROOT / ".venv/bin/cje" if (ROOT / ".venv").exists() else "cje", *command.split()[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_navigation():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text().replace("!!python/name:", ""))
    listed = set(re.findall(r"[\w/-]+\.md", str(config["nav"])))
    present = {str(p.relative_to(ROOT / "docs")) for p in ROOT.glob("docs/**/*.md")}
    assert present == listed
