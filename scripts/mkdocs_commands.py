"""MkDocs hook: the help of every command becomes the page `commands.md` when the site is built."""

from __future__ import annotations

from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from cje.cli.main import app

_MARK = "<!-- the help of every command -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by a section per command, in the order of `cje --help`."""
    return markdown.replace(_MARK, sections()) if _MARK in markdown else markdown


def sections() -> str:
    """`## cje analyze` and what `cje analyze --help` prints, for every command."""
    found = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for below in getattr(command, "commands", None) or [None]:
            words = [name] if below is None else [name, below]
            printed = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "84"}).output
            found.append(f"## `cje {' '.join(words)}`\n\n```text\n{printed.strip()}\n```\n")
    return "\n".join(found)
