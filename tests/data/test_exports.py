"""Ordinary exports are read right, or answered with one question whose answer can be pasted.

`scripts/exports/make.py` writes the files of `tests/fixtures/exports/` from one evaluation whose
truth is known; the manifest says what is expected of each.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cje.cli import main as cli

FOLDER = Path(__file__).parents[1] / "fixtures" / "exports"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
EXPORTS = {entry["name"]: entry for entry in MANIFEST["exports"]}


def run(
    folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], stdin: str = "",
) -> tuple[int, str, str]:  # fmt: skip
    """Exit code, output and messages of a command, run in a folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["cje", *words])
    if stdin:
        content = (folder / stdin).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@functools.cache
def canonical(base: str) -> dict[str, float]:
    """The values of the same rows in the usual names."""
    from cje.analysis import analyze_dataset

    result = analyze_dataset(FOLDER / "canonical" / f"{base}.jsonl", baseline="prod")
    return dict(zip(result.policies, result.estimates.tolist(), strict=True))


def answers(message: str) -> list[list[str]]:
    """The commands to paste, as the message shows them."""
    lines = [line.strip() for line in message.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("cje ")]


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_right_or_answered_with_one_question(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = EXPORTS[name]
    folder, stdin = FOLDER / name, entry.get("stdin", "")
    words = ["analyze", *entry["run"], "--json"]
    code, out, err = run(folder, words, monkeypatch, capsys, stdin)
    if "asks" in entry:
        assert code == 1
        assert entry["asks"] in err
        words = answers(err)[entry.get("answer", 0)]
        code, out, err = run(folder, words, monkeypatch, capsys, stdin)
    assert code == 0, err
    result = json.loads(out)
    compare(result, entry)
    reading = json.dumps(result["metadata"]["reading"], ensure_ascii=False)
    for text in entry.get("says", ()):
        assert text in reading


def compare(result: dict[str, Any], entry: dict[str, Any]) -> None:
    """The values are those of the canonical rows, and the truth lies in every interval."""
    known, truth = canonical(entry["base"]), MANIFEST["truth"][entry["base"]]
    changed = not entry.get("same_ids", True) or "labels" in entry
    rows = {row["policy"]: row for row in result["table"]}
    assert set(rows) == set(known)
    for policy, row in rows.items():
        assert row["estimate"] == pytest.approx(known[policy], abs=0.1 if changed else 1e-9)
        assert row["low"] <= truth[policy] <= row["high"]
    given = [json.loads(line) for line in (FOLDER / "canonical" / f"{entry['base']}.jsonl").open()]
    assert result["metadata"]["n_rows"] == dict(Counter(row["policy"] for row in given))
    labelled = [row for row in given if is_labelled(row["oracle_label"])]
    found = sum(result["metadata"]["n_labels"].values())
    assert found == len(labelled) + entry.get("labels", 0)


def is_labelled(label: Any) -> bool:
    return any(value is not None for value in label.values()) if isinstance(label, dict) else (
        label is not None
    )  # fmt: skip


def test_there_are_forty_exports_and_three_of_every_kind() -> None:
    kinds = Counter(entry["bullet"] for entry in EXPORTS.values())
    assert len(EXPORTS) >= 40
    assert min(kinds.values()) >= 3, kinds
    assert len(kinds) >= 12


@pytest.mark.parametrize("command", ["doctor", "gate", "plan", "convert", "label"])
@pytest.mark.parametrize("name", ["names_two_scores", "versions_unknown_name"])
def test_every_command_that_reads_data_asks_in_its_own_words(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    further = {
        "gate": ["--baseline", "prod"], "plan": ["--width", "0.5"],
        "convert": [str(tmp_path / "out.csv")],
        "label": ["--plan", "--width", "0.5", "--labels", str(tmp_path / "labels.db")],
    }  # fmt: skip
    words = [command, "evals.csv", *further.get(command, [])]
    code, _, err = run(FOLDER / name, words, monkeypatch, capsys)
    asked = EXPORTS[name]["asks"] in err
    if not asked:  # commands that need no score, or no versions
        assert command in ("doctor", "convert", "label")
        return
    assert code != 0
    code, _, err = run(FOLDER / name, answers(err)[0], monkeypatch, capsys)
    assert EXPORTS[name]["asks"] not in err


def test_regenerating_an_export_gives_the_same_file(tmp_path: Path) -> None:
    import subprocess

    script = Path(__file__).parents[2] / "scripts" / "exports" / "make.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in (".csv", ".jsonl", ".json", ".tsv", ".gz"):
            assert _content(tmp_path / path.relative_to(FOLDER)) == _content(path), path


def _content(path: Path) -> bytes:
    """What a file says: the header of gzip names the system that packed it, by Python's version."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
