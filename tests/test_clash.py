"""Another distribution that installs `cje` beside this one is detected and explained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def import_cje(extra: Path) -> str:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(extra), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import cje; print(cje.__version__)"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip()
    return done.stderr


def test_a_cje_eval_beside_us_is_explained(tmp_path: Path) -> None:
    (tmp_path / "cje_eval-0.9.3.dist-info").mkdir()
    message = import_cje(tmp_path)
    assert "cje-eval" in message
    assert "pip uninstall cje-eval" in message
    assert str(Path("cje") / "__init__.py") in message


def test_without_it_importing_is_silent(tmp_path: Path) -> None:
    (tmp_path / "cje_evaluation-1.0.dist-info").mkdir()
    assert import_cje(tmp_path) == ""
