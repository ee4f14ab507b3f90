"""What names, files and servers say is shown on a terminal and never obeyed by it."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from cje.pipeline.progress import LineProgress
from cje.terminal import safe
from tests.pipeline.scenes import server_settings, write_config, write_prompts
from tests.server import Faults
from tests.server.running import TestServer

HOSTILE = {
    "osc": "\x1b]0;owned\x07",
    "csi": "\x1b[2J\x1b[H",
    "c1": "\x9b31m",
    "return": "good\rbest: evil",
    "newline": "good\nbest: evil",
    "bidi": "\u202egnp.evil",
    "separator": "a\u2028best: evil",
}
NAME = "".join(HOSTILE.values())
#: rich's own sequences: colours, and what a progress bar needs to redraw itself.
_OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\x1b\[2K|\r\n|\r(?=\x1b|$)")
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _under_a_terminal(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Exit code, and everything written to a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "cje.cli.main", *arguments], cwd=folder, env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        if not select.select([ours], [], [], 0.2)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(ours)
    return process.wait(30), written.decode("utf-8", "replace")


def _evaluation(folder: Path) -> Path:
    """Two policies, one of them hostile; hostile levels, columns, ids and file name too."""
    path = folder / f"data{HOSTILE['csi']}{HOSTILE['newline']}.csv"
    with open(path, "w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle)
        out.writerow(["prompt_id", "policy", "judge_score", "oracle_label", f"topic{NAME}"])
        for i in range(120):
            for policy in ("base", NAME):
                score = (i * 37 % 101) / 101
                label = min(1.0, score + 0.1) if i % 2 else ""
                out.writerow([f"{i}{NAME}", policy, score, label, f"{i % 2}{NAME}"])
    return path


def _clean(written: str) -> None:
    rest = _OURS.sub("\n", written)
    found = _ACTIVE.search(rest)
    assert found is None, repr(rest[max(0, found.start() - 60) : found.end() + 60])
    assert not any(line.strip().startswith("best: evil") for line in rest.splitlines())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_safe_text_has_no_control_characters_and_stays_readable(text: str) -> None:
    shown = safe(text)
    assert not _ACTIVE.search(shown)
    assert "\n" not in shown
    assert "evil" not in text or "evil" in shown
    assert safe(shown) == shown


def test_ordinary_text_is_left_alone() -> None:
    for text in ("naïve Straße", "日本語", "👩\u200d💻 done", "a\\nb", "שלום"):
        assert safe(text) == text


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "FILE", "--by", f"topic{NAME}"],
        ["analyze", "FILE", "--by", f"no{NAME}"],
        ["analyze", f"none{NAME}.csv"],
        ["analyze", "FILE", "--report", f"no-folder/{NAME}.html"],
        ["doctor", "FILE"],
        ["doctor", f"none{NAME}.csv"],
        ["plan", "FILE", "--width", "0.1"],
        ["plan", f"none{NAME}.csv", "--width", "0.1"],
        ["plan", "--width", NAME],
        ["run", f"none{NAME}.yaml"],
        ["status", f"none{NAME}.yaml"],
        ["validate", f"none{NAME}.yaml"],
        ["resume", f"none{NAME}.yaml"],
        ["survival", "run", f"none{NAME}.yaml"],
        [f"no-such-command{NAME}"],
    ],
    ids=lambda arguments: " ".join(a if a.isascii() and a.isprintable() else "X"
                                   for a in arguments),
)  # fmt: skip
def test_no_command_lets_a_name_act_on_the_terminal(tmp_path: Path, arguments: list[str]) -> None:
    path = _evaluation(tmp_path)
    code, written = _under_a_terminal(
        [str(path) if a == "FILE" else a for a in arguments], tmp_path
    )
    assert code in (0, 1, 2), written
    assert "Traceback" not in written
    assert written.strip()
    _clean(written)


@pytest.mark.timeout(120)
def test_a_hostile_server_and_configuration_cannot_act_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.server.http import Connection

    def curse(self: Connection, *_: object) -> None:
        self._write(401, json.dumps({"error": {"message": NAME}}).encode(), "application/json")

    monkeypatch.setattr(Connection, "_begin", curse)
    with TestServer(faults=Faults()) as server:
        settings = server_settings(server.base_url)
        write_prompts(tmp_path, 10)
        path = write_config(tmp_path, settings)
        for command in ("run", "status", "validate"):
            code, written = _under_a_terminal([command, str(path)], tmp_path)
            assert code in (0, 1), written
            assert "Traceback" not in written
            _clean(written)
        settings["target_policies"][0]["name"] = NAME
        path = write_config(tmp_path, settings)
        code, written = _under_a_terminal(["run", str(path)], tmp_path)
        assert code == 1
        assert "visible characters" in written
        _clean(written)


def test_progress_lines_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = LineProgress()
    reporter.start(NAME, 3)
    reporter.done(NAME, NAME)
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert not _ACTIVE.search(said)


def test_commands_print_through_the_one_safe_function() -> None:
    root = Path(__file__).resolve().parents[2] / "src" / "cje"
    for folder in ("cli", "pipeline", "label"):
        for path in (root / folder).rglob("*.py"):
            code = path.read_text(encoding="utf-8")
            assert not re.search(r"typer\.echo\(|^\s*print\(|[^_]Console\(", code, re.M), path
