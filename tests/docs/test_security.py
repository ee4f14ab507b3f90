"""Every promise of `SECURITY.md` names tests, and every test it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def missing(text: str) -> list[str]:
    """Tests (``file::name``, or a file) that the text names and the tree does not have."""
    found = []
    for path, name in re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text):
        file = ROOT / path
        if not file.is_file():
            found.append(path)
        elif name and name not in _tests(file):
            found.append(f"{path}::{name}")
    return found


def _tests(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_named_test_exists() -> None:
    assert missing(TEXT) == []


def test_every_promise_names_a_test() -> None:
    table = re.findall(r"^\| (?!promise|---)(.+?) \| .+ \| (.+) \|$", TEXT, re.MULTILINE)
    assert len(table) >= 15
    assert [promise for promise, held in table if "::test_" not in held] == []


def test_a_wrong_name_is_noticed() -> None:
    here = "tests/docs/test_security.py"
    assert missing(f"`{here}::test_nothing` `tests/no_file.py`") == [
        f"{here}::test_nothing",
        "tests/no_file.py",
    ]
