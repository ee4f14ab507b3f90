"""Property tests: the same examples on every run, and no deadline a busy machine could miss."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

SHIPPED = Path(__file__).parent / "fixtures" / "arena_like"
REAL = Path(__file__).parents[2] / "shared" / "data" / "arena"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the Arena sample is not beside this")


@pytest.fixture(params=["shipped", pytest.param("real", marks=needs_real)])
def arena(request: pytest.FixtureRequest) -> Path:
    """Judge data in the layout of the Arena sample: simulated, and real where present."""
    return SHIPPED if request.param == "shipped" else REAL
