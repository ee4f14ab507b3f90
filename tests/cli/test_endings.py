"""Every command ends with a message and a documented exit code, whatever it is given."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from cje.cli import ending
from cje.errors import CJEError
from tests.pipeline.scenes import ngram_settings, write_config, write_prompts

CODES = {0, 1, 2, 130, 141}
ROWS = "prompt_id,policy,judge_score,oracle_label\n" + "".join(
    f"pé{i // 2},{'ab'[i % 2]},{(i * 37 % 101) / 101},{(i * 37 % 101) / 101 if i % 3 else ''}\n"
    for i in range(120)
)


def _run(
    arguments: list[str], folder: Path, *, before: Callable[[], Any] | None = None, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "cje.cli.main", *arguments], cwd=folder, capture_output=True,
        timeout=120, preexec_fn=before, **more,
    )  # fmt: skip


def _files(folder: Path) -> None:
    (folder / "é.csv").write_text(ROWS, encoding="utf-8")
    write_prompts(folder, 30)
    write_config(folder, ngram_settings())
    (folder / "survival.yaml").write_text("out: survival-out\nruns: 1\n")


COMMANDS = [
    ["analyze", "é.csv"],
    ["analyze", "é.csv", "--report", "/"],
    ["analyze", "é.csv", "--save", "/"],
    ["analyze", "é.csv", "--report", "x" * 5000],
    ["analyze", "x" * 5000 + ".csv"],
    ["analyze", "/"],
    ["analyze", "é.csv", "--seed", "x"],
    ["doctor", "é.csv"],
    ["doctor", "x" * 5000],
    ["plan", "é.csv", "--width", "0.1"],
    ["plan", "é.csv", "--width", "0.1", "--report", "/"],
    ["run", "config.yaml"],
    ["run", "x" * 5000],
    ["resume", "config.yaml"],
    ["status", "config.yaml"],
    ["validate", "config.yaml"],
    ["demo", "--out", "/proc/nowhere"],
    ["demo", "--out", "x" * 5000],
    ["survival", "example"],
    ["survival", "run", "survival.yaml"],
    ["survival", "run", "x" * 5000],
    ["--help"],
    ["--version"],
    ["nonsense"],
]


def _ends_well(done: subprocess.CompletedProcess[bytes]) -> None:
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode in CODES, (done.returncode, said)
    assert "Traceback" not in said, said
    assert "defect of cje" not in said, said
    if done.returncode == 1:
        assert "error: " in said or "FAIL" in said, said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_commands_end_with_a_message_on_a_terminal_without_accents(tmp_path: Path) -> None:
    _files(tmp_path)
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for command in COMMANDS:
        _ends_well(_run(command, tmp_path, env=ascii_only))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_commands_end_with_a_message_when_file_descriptors_run_out(tmp_path: Path) -> None:
    _files(tmp_path)
    for command in (["analyze", "é.csv"], ["run", "config.yaml"], ["doctor", "é.csv"],
                    ["status", "config.yaml"], ["demo"]):  # fmt: skip
        for most in (7, 12):
            done = _run(
                command, tmp_path,
                before=lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
            )  # fmt: skip
            if b"import" in done.stderr.lower() or not done.stderr + done.stdout:
                continue  # Python itself could not start
            assert done.returncode in CODES
            assert b"Traceback" not in done.stderr


def test_a_reader_that_closes_early_is_not_an_error(tmp_path: Path) -> None:
    _files(tmp_path)
    command = f"{sys.executable} -m cje.cli.main doctor é.csv | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() in ("0", "2", "141")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CJEError("no such file", where="a.csv\nbest: evil"), 1, "a.csv\\nbest: evil"),
        (IsADirectoryError(21, "Is a directory", "/"), 1, "is a directory [/]"),
        (ZeroDivisionError("division by zero"), 1, "details in"),
        (MemoryError(), 1, "memory"),
        (RecursionError("deep"), 1, "details in"),
        (KeyboardInterrupt(), 130, "stopped"),
        (BrokenPipeError(), 141, ""),
        (typer.Abort(), 130, "stopped"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_kind_of_error_has_its_exit_code_and_message(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(ending, "_give_up_output", lambda: None)

    def command() -> None:
        raise error

    assert ending.run_to_the_end(command, typer.BadParameter, typer.Abort) == code
    written = capsys.readouterr().err
    assert said in written
    assert "Traceback" not in written
    details = list(tmp_path.glob("cje-error-*.txt"))
    assert len(details) == ("details in" in said)
    for path in details:
        assert path.stat().st_mode & 0o077 == 0
        assert type(error).__name__ in path.read_text()
        assert str(path) in written
