"""Reading into a `Dataset` beside polars reading the same columns; time and peak memory.

``python -m benchmarks.reading [--quick]``
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.timing import interleaved, main, ratio, row, show
from cje.data import read

COLUMNS = ["prompt_id", "policy", "judge_score", "oracle_label"]


def make_frame(n_prompts: int, text: str) -> pl.DataFrame:
    """Five policies on shared prompts, 2% labels, and a response text nobody asked for."""
    rng = np.random.default_rng(0)
    n = 5 * n_prompts
    ids = pl.Series("prompt_id", np.tile(np.arange(n_prompts), 5)).cast(pl.String)
    label = np.where(rng.random(n) < 0.02, rng.random(n), np.nan)
    return pl.DataFrame(
        {
            "prompt_id": "prompt-" + ids,
            "policy": np.repeat([f"policy_{k}" for k in range(5)], n_prompts),
            "judge_score": rng.random(n),
            "oracle_label": pl.Series(label).fill_nan(None),
            "response": pl.Series([text]).new_from_index(0, n),
        }
    )


def peak_bytes(code: str, path: Path) -> int:
    """Growth of a fresh process's peak memory while it runs `code` (after imports).

    Linux only; `ru_maxrss` would not do, as a child inherits its parent's.
    """
    script = (
        "import re, sys, polars as pl, numpy as np\nfrom cje.data import read\n"
        "path = sys.argv[1]\n"
        "status = lambda: open('/proc/self/status').read()\n"
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status()).group(1))\n"
        f"before = peak()\n{code}\nprint(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def parquet_rows(folder: Path, n_prompts: int, repeats: int) -> list[dict[str, Any]]:
    path = folder / "data.parquet"
    frame = make_frame(n_prompts, "a response of some words, " * 4)
    frame.write_parquet(path)
    size = frame.select(COLUMNS).estimated_size()
    del frame

    def floor() -> None:
        np.argsort(pl.read_parquet(path, columns=COLUMNS)["judge_score"].to_numpy())

    seconds = interleaved({"read": lambda: read(path), "floor": floor}, repeats)
    label = f"Parquet, {5 * n_prompts:,} rows"
    peak = peak_bytes("data = read(path)", path)
    return [
        row(
            f"{label}: read / (polars columns + one argsort)",
            ratio(seconds, "read", "floor"),
            2.0,
            "half of the 4x the whole direct analysis may take",
        ),
        row(f"{label}: peak memory / the columns' size", peak / size, 4.0),
    ]


def jsonl_rows(folder: Path, n_prompts: int, repeats: int) -> list[dict[str, Any]]:
    path = folder / "data.jsonl"
    make_frame(n_prompts, "a response of some words, " * 30).write_ndjson(path)

    def scan() -> None:
        pl.scan_ndjson(path, infer_schema_length=1000).select(COLUMNS).collect()

    seconds = interleaved({"read": lambda: read(path), "scan": scan}, repeats)
    megabytes = path.stat().st_size / 2**20
    note = f"{megabytes:.0f} MB; peak {peak_bytes('data = read(path)', path) / 2**20:.0f} MB"
    bar = "JSONL: read / polars' scan of the same columns"
    return [row(bar, ratio(seconds, "read", "scan"), 2.5, note)]


def dict_rows(n_prompts: int, repeats: int) -> list[dict[str, Any]]:
    rows = make_frame(n_prompts, "a response of some words").to_dicts()
    seconds = interleaved(
        {
            "read": lambda: read(rows),
            "all rows": lambda: pl.DataFrame(rows, infer_schema_length=None),
            "100 rows": lambda: pl.DataFrame(rows),
        },
        repeats,
    )
    label = f"{len(rows):,} dicts: read / polars.DataFrame"
    note = "polars guesses types from 100 rows; later fields and other types are lost or fail"
    return [
        row(f"{label}, types of all rows", ratio(seconds, "read", "all rows"), 1.5),
        row(f"{label}, types of 100 rows", ratio(seconds, "read", "100 rows"), 1.5, note),
    ]


def run(quick: bool) -> list[dict[str, Any]]:
    """The bars; `quick` at a tenth of the size."""
    with tempfile.TemporaryDirectory() as folder:
        rows = parquet_rows(Path(folder), 100_000 if quick else 1_000_000, 3 if quick else 5)
        rows += jsonl_rows(Path(folder), 20_000 if quick else 200_000, 3)
    rows += dict_rows(3_000 if quick else 30_000, 7)
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
