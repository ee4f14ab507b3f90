"""Design notes name code that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTES = sorted((ROOT / "docs" / "design").glob("*.md"))
SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
WORDS = {"p", "f", "W"}


def _defined(tree: ast.AST) -> set[str]:
    """Names a piece of code defines: functions, classes, variables, fields, parameters."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def _source() -> tuple[set[str], dict[str, set[str]], set[str]]:
    """Every name of the package, the names within each class, and every module's dotted name."""
    names: set[str] = set()
    classes: dict[str, set[str]] = {}
    modules: set[str] = set()
    for path in (ROOT / "src" / "cje").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        modules.add(".".join(part for part in parts if part != "__init__"))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= _defined(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, set()).update(_defined(node))
    return names, classes, modules


SOURCE_NAMES, CLASSES, MODULES = _source()
STAGES = {
    "dataset",
    "logging_policy",
    "judge",
    "oracle",
    "target_policy",
    "calibration",
    "estimation",
}


def _known(name: str) -> bool:
    if {name, f"cje.{name}"} & MODULES or name in WORDS | STAGES:
        return True
    head, _, last = name.rpartition(".")
    if not head:
        return name in SOURCE_NAMES
    if head in MODULES:
        return last in SOURCE_NAMES
    return last in CLASSES.get(head.rpartition(".")[2], set())


def _names(page: str) -> list[str]:
    """Code names of a page: the first name of every span in backticks."""
    spans = (NAME.match(span) for span in SPAN.findall(page))
    return [found.group(0) for found in spans if found is not None]


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_every_code_name_of_a_design_note_exists(note: Path) -> None:
    page = note.read_text(encoding="utf-8")
    assert [name for name in _names(page) if not _known(name)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    page = "`InfluenceEstimate.contrast` exists; `no_such_name`, `Dataset.no_such_field` do not"
    missing = [name for name in _names(page) if not _known(name)]
    assert missing == ["no_such_name", "Dataset.no_such_field"]


def test_each_note_says_why_and_what_must_not_change() -> None:
    assert len(NOTES) >= 7
    for note in NOTES:
        page = note.read_text(encoding="utf-8").lower()
        assert "why" in page, note.name
        assert len(page.splitlines()) < 60, note.name
