"""Speed of stacked-dr on the Arena sample against cje-eval 0.3.0, files in, intervals out, one run.

    python -m benchmarks.peers_offpolicy [--quick]

Bar: at least 50 x faster. cje-eval insists on prompt and response texts and on file names of its
own; it gets a copy of the sample with placeholders, made outside the clock.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import arena_folder
from benchmarks.environments import ROOT, python_of
from benchmarks.timing import main, middle, row, show
from cje import analyze_dataset

__all__ = ["run"]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """The bar, and how far apart the two answers are."""
    sample, python = arena_folder(), python_of("cje030")
    if sample is None or not python.exists():
        print("skipped: needs the Arena sample and .venvs/cje030")
        return []
    ratios, mine, theirs = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _copy(sample, folder)
        for _ in range(2 if quick else 3):
            peer = _peer(python, folder)
            again = []
            for _ in range(5):
                start = time.process_time()
                ours = analyze_dataset(
                    logged_data=sample / "logged.jsonl",
                    fresh_draws_dir=sample / "fresh_draws",
                    estimator="stacked-dr",
                )
                ours.ci()
                again.append(time.process_time() - start)
            mine.append(statistics.median(again))
            theirs.append(peer["seconds"])
            ratios.append(mine[-1] / theirs[-1])
    apart = _apart(ours, peer)
    note = f"ours {statistics.median(mine):.3f} s, cje-eval {statistics.median(theirs):.1f} s"
    note += " of processor; apart (in joint standard errors): "
    note += ", ".join(f"{k} {v:+.1f}" for k, v in apart)
    rows = [row("stacked-dr on Arena: time / cje-eval 0.3.0's", middle(ratios), 0.02,
                note)]  # fmt: skip
    show(rows)
    return rows


def _copy(sample: Path, folder: Path) -> None:
    """The sample under the peer's file names, with placeholder texts."""
    (folder / "fresh_draws").mkdir()
    _with_texts(sample / "logged.jsonl", folder / "logged.jsonl")
    for path in (sample / "fresh_draws").glob("*.jsonl"):
        _with_texts(path, folder / "fresh_draws" / f"{path.stem}_responses.jsonl")


def _with_texts(source: Path, target: Path) -> None:
    lines = []
    for i, line in enumerate(source.read_text(encoding="utf-8").splitlines()):
        texts = {"prompt": "a prompt", "response": f"response {i}", "draw_idx": 0}
        lines.append(json.dumps(texts | json.loads(line)))
    target.write_text("\n".join(lines), encoding="utf-8")


def _peer(python: Path, folder: Path) -> dict[str, Any]:
    worker = ROOT / "benchmarks" / "workers" / "stacked_peer.py"
    out = subprocess.run(
        [python, "-I", worker, folder / "logged.jsonl", folder / "fresh_draws"],
        check=True, capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    return dict(json.loads(out.stdout.splitlines()[-1]))


def _apart(ours: Any, peer: dict[str, Any]) -> list[tuple[str, float]]:
    """(policy, difference over the root of the summed variances)."""
    found = []
    for name, value, error in zip(peer["policies"], peer["values"], peer["errors"], strict=True):
        k = ours.policies.index(name)
        joint = float(np.hypot(error, ours.robust_standard_errors[k]))
        found.append((name, float(ours.estimates[k] - value) / joint))
    return found


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
