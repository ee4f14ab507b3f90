"""The public surface: every public name with its signature, as kept in `public_surface.txt`.

A change here is a change for users. If it is meant, write the new surface down with

    python -m tests.test_public_surface

and say in the changelog what changed (see the versioning policy).
"""

from __future__ import annotations

import difflib
import enum
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic
import pytest

import cje

INTERNAL = {"checks", "hints", "terminal"}  # used by the other packages, not by users
KEPT = Path(__file__).with_name("public_surface.txt")


def _signature(value: Any) -> str:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return " " + " | ".join(member.name for member in value)
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    # Python 3.13 writes two names otherwise than 3.11 does.
    text = text.replace("pathlib._local.", "pathlib.")
    return re.sub(r"(?<![\w.])Annotated\[", "typing.Annotated[", text)


def _methods(value: type) -> list[str]:
    """Public methods and properties the class itself defines."""
    lines = []
    for name, member in sorted(vars(value).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            lines.append(f"    .{name}")
        elif isinstance(member, staticmethod | classmethod):
            lines.append(f"    .{name}{_signature(member.__func__)}")
        elif inspect.isfunction(member):
            lines.append(f"    .{name}{_signature(member)}")
    return lines


def surface() -> list[str]:
    """One line per public name, sorted by module."""
    below = (info.name for info in pkgutil.iter_modules(cje.__path__))
    names = ["cje", *(f"cje.{name}" for name in below if name[0] != "_" and name not in INTERNAL)]
    lines = []
    for module_name in names:
        module = importlib.import_module(module_name)
        lines.append(module_name)
        for name in sorted(getattr(module, "__all__", ())):
            value = getattr(module, name)
            if inspect.ismodule(value):
                lines.append(f"  {name}: module")
            elif callable(value):
                lines.append(f"  {name}{_signature(value)}")
                if isinstance(value, type) and value.__module__.startswith("cje"):
                    lines += _methods(value)
            else:
                lines.append(f"  {name}: {type(value).__name__}")
    return lines


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 10),
    reason="pydantic before 2.10 shows None for <factory> in signatures",
)
def test_the_public_surface_changes_only_on_purpose() -> None:
    found = surface()
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    changes = "\n".join(difflib.unified_diff(kept, found, "kept", "now", lineterm="", n=0))
    assert found == kept, f"the public surface changed:\n{changes}\n{__doc__}"


def test_cje_itself_offers_twenty_names_and_its_version() -> None:
    names = set(cje.__all__) - {"__version__"}
    assert len(names) == 20
    assert names <= set(dir(cje))
    page = KEPT.parents[1].joinpath("docs", "api", "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == names


def test_every_package_is_an_attribute_of_cje_without_an_import_of_its_own() -> None:
    packages = {info.name for info in pkgutil.iter_modules(cje.__path__) if info.name[0] != "_"}
    users = packages - INTERNAL - {"cli", "errors", "pytest_plugin"}
    code = f"import cje\nfor name in {sorted(users)!r}: getattr(cje, name).__doc__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert users <= set(dir(cje))


if __name__ == "__main__":
    KEPT.write_text("\n".join(surface()) + "\n", encoding="utf-8")
