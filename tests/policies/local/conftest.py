"""The quick environment (`make quick`) has no torch: these tests belong to `make test`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two small trained models with one tokeniser and a chat template, as saved folders."""
    from tests.policies.local.tiny import trained_folders

    return trained_folders(tmp_path_factory.mktemp("models"))
