"""Writes `tests/fixtures/exports/`: ordinary exports of one evaluation whose truth is known.

    python scripts/exports/make.py [FOLDER]

A folder per export, `manifest.json` with the command and what is expected of it, and `canonical/`
with the same rows in the usual names, which every export must agree with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import formats  # noqa: F401  # registers its exports
import shapes  # noqa: F401
import tables  # noqa: F401
import tools  # noqa: F401
from export import EXPORTS
from truth import BASES, TRUTH
from writing import as_json, as_jsonl

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "exports"


def main(folder: Path) -> None:
    """Write everything below `folder`."""
    (folder / "canonical").mkdir(parents=True, exist_ok=True)
    for name, rows in BASES.items():
        as_jsonl(folder / "canonical" / f"{name}.jsonl", rows)
    for export in EXPORTS:
        target = folder / export.name
        target.mkdir(exist_ok=True)
        export.write(target)
    manifest = {"truth": TRUTH, "exports": [export.entry() for export in EXPORTS]}
    as_json(folder / "manifest.json", manifest)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
