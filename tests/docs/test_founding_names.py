"""Every name on the page of founding names resolves to something in the code."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "founding_documents.md"
ROW = re.compile(r"^\| (.+) \| `(cje[\w.]*)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, tuple[str, ...]]]:
    """(module, name, members) of every row."""
    found = []
    for names, module in ROW.findall(PAGE.read_text()):
        for name, members in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", names):
            if members or not re.search(rf"\([^)]*`{name}`", names):
                found.append((module, name, tuple(re.findall(r"`(\w+)`", members))))
    return found


@pytest.mark.parametrize(("module", "name", "members"), rows(), ids=lambda v: str(v))
def test_the_name_is_where_the_page_says(module, name, members):
    thing = getattr(importlib.import_module(module), name)
    for member in members:
        known = (
            hasattr(thing, member)
            or member in getattr(thing, "__annotations__", {})
            or member in getattr(thing, "model_fields", {})
            or (inspect.isfunction(thing) and member in inspect.signature(thing).parameters)
            or any(
                member in base.__init__.__code__.co_varnames
                or member in base.__init__.__code__.co_names
                for base in getattr(thing, "__mro__", ())
                if hasattr(base.__init__, "__code__")
            )
        )
        assert known, f"{name}.{member}"


def test_the_page_lists_names_of_all_five_documents():
    assert len(rows()) > 45
    found = {name for _, name, _ in rows()} | {m for *_, members in rows() for m in members}
    assert len(found) > 100  # methods, fields and parameters too


def test_a_row_that_is_wrong_is_noticed():
    with pytest.raises(AssertionError):
        test_the_name_is_where_the_page_says("cje.uncertainty", "JudgeScore", ("no_such_field",))
    with pytest.raises(AttributeError):
        test_the_name_is_where_the_page_says("cje.uncertainty", "NoSuchName", ())
