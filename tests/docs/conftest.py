"""Where the blocks of a page run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples; a how-to page works in its own folder of them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page: Path = request.node.callspec.params["page"]
    place = tmp_path / "examples" / page.stem if page.parent.name == "howto" else tmp_path
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return place
