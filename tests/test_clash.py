"""Another distribution that installs `cje` beside this one is detected and explained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

UNKNOWN_NAME = "import cje\ntry:\n    cje.load_dataset\nexcept AttributeError as e:\n    print(e)"
VERSION = "import sys; sys.argv = ['cje', '--version']; from cje.cli.main import main; main()"


def output_of(code: str, extra: Path) -> str:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(extra), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("code", [UNKNOWN_NAME, VERSION])
def test_an_installed_cje_eval_is_explained(code: str, tmp_path: Path) -> None:
    (tmp_path / "cje_eval-0.9.3.dist-info").mkdir()
    message = output_of(code, tmp_path)
    assert "cje-eval" in message
    assert "pip uninstall cje-eval" in message
    assert str(Path("cje") / "__init__.py") in message


@pytest.mark.parametrize("code", [UNKNOWN_NAME, VERSION])
def test_a_distribution_of_a_similar_name_is_not_mentioned(code: str, tmp_path: Path) -> None:
    (tmp_path / "cje_evaluation-1.0.dist-info").mkdir()
    assert "cje-eval" not in output_of(code, tmp_path)


def test_importing_cje_lists_no_folder(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "os.listdir = lambda *a: (_ for _ in ()).throw(AssertionError('a folder was listed'))\n"
        "import cje; print(cje.__version__)"
    )
    assert output_of(code, tmp_path).strip()
