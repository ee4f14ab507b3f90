"""`cje doctor` on a large JSONL beside polars' own scan of the same columns.

``python -m benchmarks.doctor [--quick]`` writes a file of 1 GB (100 MB with --quick) to a temporary
folder; each side runs in a process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import main, middle, row, show

_POLARS = """
import polars as pl, sys
pl.scan_ndjson(sys.argv[1]).select(
    "prompt_id", "policy", "judge_score", "oracle_label", pl.col("response")
).collect()
"""
_DOCTOR = """
import sys
from cje.analysis.doctor import examine
examine(sys.argv[1])
"""
_PEAK = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def _write(path: Path, size: float) -> int:
    """Rows of about 1 kB: ids, scores, labels on a tenth, a response."""
    rng = np.random.default_rng(0)
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])
    texts = [" ".join(rng.choice(words, n)) for n in rng.integers(60, 240, 500)]
    n = 0
    with path.open("w") as file:
        while file.tell() < size:
            score = rng.random(5000)
            for i in range(5000):
                label = float(score[i] > 0.5) if i % 10 == 0 else None
                row = {"prompt_id": f"p{n // 2}", "policy": "ab"[n % 2],
                       "judge_score": round(float(score[i]), 4), "oracle_label": label,
                       "response": texts[n % 500]}  # fmt: skip
                file.write(json.dumps(row) + "\n")
                n += 1
    return n


def _measure(code: str, path: Path) -> tuple[float, float]:
    """Processor seconds and peak memory in GB of a fresh process."""
    start = _children_seconds()
    done = subprocess.run(
        [sys.executable, "-c", code + _PEAK, str(path)], check=True, capture_output=True, text=True
    )
    return _children_seconds() - start, int(done.stdout.split()[-1]) / 2**20


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(quick: bool = True) -> list[dict[str, Any]]:
    """Time ratio and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evals.jsonl"
        n = _write(path, 1e8 if quick else 1e9)
        pairs = [(_measure(_POLARS, path), _measure(_DOCTOR, path)) for _ in range(3)]
        ratio = middle(doctor[0] / floor[0] for floor, doctor in pairs)
        peak = max(doctor[1] for _, doctor in pairs)
        size = path.stat().st_size / 1e9
    floor = np.median([polars[0] for polars, _ in pairs])
    note = f"{n:,} rows, {size:.2f} GB, polars {floor:.2f} s of processor"
    rows = [
        row("doctor / polars scan of the same columns", ratio, 2.5, note),
        row("doctor, peak memory in GB", peak, 2.0, note),
    ]
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
