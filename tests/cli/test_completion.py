"""Shell completion: the printed scripts, and what a real bash completes with one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """An executable `cje` of this interpreter."""
    made = tmp_path / "cje"
    made.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c '
        '"import sys; sys.argv[0] = \'cje\'; from cje.cli.main import main; main()" "$@"\n',
        encoding="utf-8",
    )
    made.chmod(0o755)
    return made


def _bash(script: str) -> str:
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_bash_user_is_shown_the_script_for_bash(program: Path) -> None:
    script = _bash(f"'{program}' --show-completion; exit $?")  # exit: bash stays the parent
    assert "complete -o default -F _cje_completion cje" in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_cje(shell: str, program: Path) -> None:
    asked = os.environ | {"_CJE_COMPLETE": f"source_{shell}"}
    done = subprocess.run([program], env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"_CJE_COMPLETE=complete_{shell}" in done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cje ana", {"analyze"}),
        ("cje labels ", {"export", "import"}),
        ("cje analyze --basel", {"--baseline"}),
    ],
)
def test_bash_completes_commands_sub_commands_and_options(
    line: str, expected: set[str], program: Path
) -> None:
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = [
        f'eval "$(_CJE_COMPLETE=source_bash "{program}")"',
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}",
        f"_cje_completion '{program}'",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    found = _bash("\n".join(script)).split()
    assert expected <= set(found)
    assert all(word.startswith(words[-1]) for word in found)
