"""The public names: a name that goes, or is renamed, is a decision and not an accident."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

SNAPSHOT = json.loads((Path(__file__).parent / "fixtures" / "public_surface.json").read_text())


@pytest.mark.parametrize("module", SNAPSHOT)
def test_every_public_name_of_the_snapshot_is_there(module: str) -> None:
    # New names may come at any time; CONTRIBUTING says how one goes. Write the snapshot anew with
    # python -m tests.test_public_surface
    package = importlib.import_module(module)
    missing = [name for name in SNAPSHOT[module] if not hasattr(package, name)]
    assert missing == []
    assert set(SNAPSHOT[module]) <= set(package.__all__)


def surface() -> dict[str, list[str]]:
    """The public names of `cje` and of its sub-packages, as they are now."""
    import cje

    parts = ["cje", *(f"cje.{name}" for name in cje.__all__ if _is_package(f"cje.{name}"))]
    names = {part: sorted(getattr(importlib.import_module(part), "__all__", [])) for part in parts}
    return {part: found for part, found in names.items() if found}


def _is_package(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    target = Path(__file__).parent / "fixtures" / "public_surface.json"
    target.write_text(json.dumps(surface(), indent=1) + "\n", encoding="utf-8")
