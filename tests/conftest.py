"""Property tests: the same examples on every run, and no deadline a busy machine could miss."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")
