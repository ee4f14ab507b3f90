"""Check a release: the wheel built from the sdist holds what the tree holds.

Usage: compare_wheels.py WHEEL_FROM_SDIST WHEEL_FROM_TREE. Two builds of the same files are equal
file by file; every tracked file of the package is in them; the entry points are there.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY_POINTS = ("cje = cje.cli.main:main", "cje = cje.pytest_plugin")


def contents(wheel: Path) -> dict[str, str]:
    """SHA-256 of every file in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}


def problems(from_sdist: Path, from_tree: Path) -> list[str]:
    """What is wrong with the wheel, one sentence each."""
    files, expected = contents(from_sdist), contents(from_tree)
    found = [
        f"differs between sdist and tree: {name}"
        for name in sorted(files.keys() | expected.keys())
        if files.get(name) != expected.get(name)
    ]
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    found += [f"not in the wheel: {n}" for n in tracked if n.removeprefix("src/") not in files]
    with zipfile.ZipFile(from_sdist) as archive:
        (name,) = (n for n in files if n.endswith("entry_points.txt"))
        text = archive.read(name).decode()
    return found + [f"not an entry point: {line}" for line in ENTRY_POINTS if line not in text]


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit("\n".join(wrong) if wrong else 0)
