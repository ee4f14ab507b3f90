"""Ordinary exports of comparisons are read right, or asked about with an answer to paste.

`scripts/pairwise_exports.py` writes them from one evaluation; the manifest says what is expected.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from cje.analysis import analyze_dataset
from cje.cli import main as cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "pairwise" / "exports"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
EXPORTS = {entry["name"]: entry for entry in MANIFEST["exports"]}


@functools.cache
def known(base: str) -> dict[str, float]:
    """The win rates of the same rows in the usual names."""
    result = analyze_dataset(FOLDER / "base" / f"{base}.jsonl", baseline="prod")
    return dict(zip(result.policies, result.estimates.tolist(), strict=True))


def run(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["cje", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_of_comparisons_is_read_right_or_asked_about(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = EXPORTS[name]
    monkeypatch.chdir(FOLDER / name)
    code, out, err = run(["analyze", *entry["run"], "--json"], monkeypatch, capsys)
    if "asks" in entry:
        assert code == 1
        assert entry["asks"] in err
        pasted = next(line.strip() for line in err.splitlines() if line.strip()[:4] == "cje ")
        code, out, err = run(shlex.split(pasted)[1:], monkeypatch, capsys)
    assert code == 0, err
    rows = {row["policy"]: row for row in json.loads(out)["table"]}
    assert set(rows) == {"prod", "cand"}
    for policy, row in rows.items():
        assert row["estimate"] == pytest.approx(known(entry["base"])[policy], abs=1e-9)
    assert rows["cand"]["low"] <= MANIFEST["truth"] <= rows["cand"]["high"]


def test_the_exports_are_what_their_script_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ROOT / "scripts" / "pairwise_exports.py"
    copy = tmp_path / "scripts" / source.name
    copy.parent.mkdir()
    copy.write_text(source.read_text())
    (tmp_path / "tests").mkdir()
    runpy.run_path(os.fspath(copy), run_name="__main__")
    made = tmp_path / "tests" / "fixtures" / "pairwise" / "exports"
    for path in FOLDER.rglob("*.*"):
        assert (made / path.relative_to(FOLDER)).read_bytes() == path.read_bytes()
