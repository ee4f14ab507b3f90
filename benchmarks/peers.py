"""Speed and memory of the direct analysis against cje-eval 0.9.3 and against physical floors.

    python -m benchmarks.peers [--quick]

- 3 policies x 50,000 rows, intervals out: at least 300 x faster than cje-eval 0.9.3 (in
  `.venvs/cje093`) from a data frame, and 100 x from rows of dicts, which cje-eval reads.
- 5 policies x 10^6 rows from Parquet to intervals: <= 2.5 x (reading the columns + one argsort of
  the scores); peak memory <= 4 x the columns read.
- 2,000 refitting cluster-bootstrap draws on 4 x 1,000 rows: <= 2,000 x three bincount passes.

Times are processor seconds of all threads: what else runs on the machine matters less.
The bars of the off-policy estimators are in `benchmarks.peers_offpolicy`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.scale import write_rows
from benchmarks.timing import interleaved, main, middle, ratio, row, show
from cje import analyze_dataset
from cje.data import Dataset
from cje.estimators import bootstrap_direct
from cje.simulate import policies_on_shared_prompts

__all__ = ["run"]

ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / ".venvs" / "cje093" / "bin" / "python"


def run(quick: bool = False) -> list[dict[str, Any]]:
    """All bars."""
    rows = [*_against_cje_eval(quick), *_from_parquet(quick), _bootstrap(quick)]
    show(rows)
    return rows


def as_frame(data: Dataset) -> pl.DataFrame:
    """The rows as a user's table."""
    return pl.DataFrame(
        {
            "policy": data.policy.decode(),
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
        }
    )


def _processor(source: object, repeats: int) -> float:
    """Median processor seconds from the rows in memory to intervals."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        analyze_dataset(fresh_draws_data=source).ci()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def _against_cje_eval(quick: bool) -> list[dict[str, Any]]:
    if not PEER_PYTHON.exists():
        print("skipped: no .venvs/cje093")
        return []
    prompts = 5_000 if quick else 50_000
    frame = as_frame(policies_on_shared_prompts(prompts, 3, prompts // 10, seed=1).dataset)
    dicts = frame.to_dicts()
    worker = ROOT / "benchmarks" / "workers" / "direct_peer.py"
    mine: dict[str, list[float]] = {"frame": [], "dicts": []}
    theirs, memory = [], []
    _processor(frame, 2)  # first use of the libraries is not the analysis
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        frame.write_csv(table)
        for _ in range(3):
            out = subprocess.run(
                [PEER_PYTHON, "-I", worker, table],
                check=True,
                capture_output=True,
                text=True,
                cwd=folder,
            )
            spent, grown = map(float, out.stdout.split()[-2:])
            theirs.append(spent)
            memory.append(grown)
            mine["frame"].append(_processor(frame, 9))
            mine["dicts"].append(_processor(dicts, 5))
        path = Path(folder) / "table.parquet"
        frame.write_parquet(path)
        peak = _child(_OURS, path)[1] / 2**20
    what = f"direct, 3 x {prompts:,} rows"
    small = "; cje-eval's quadratic part is still small at this size" if quick else ""
    rows = []
    for source, words, limit in (("frame", "", 300), ("dicts", " of dicts", 100)):
        ratio = middle(a / b for a, b in zip(mine[source], theirs, strict=True))
        note = f"{1 / ratio:.0f} x faster: ours {statistics.median(mine[source]):.3f} s, cje-eval "
        note += f"{statistics.median(theirs):.1f} s of processor{small}"
        bar = f"{what}{words}: time / cje-eval 0.9.3's"
        rows.append(row(bar, ratio, (30 if quick else 1) / limit, note))
    rows.append(
        row(f"{what}: growth of peak memory / cje-eval 0.9.3's", peak / statistics.median(memory),
            1.0, f"ours {peak:.0f} MiB from Parquet, cje-eval {statistics.median(memory):.0f} MiB "
            "from rows in memory")
    )  # fmt: skip
    return rows


_FLOOR = """
import resource, sys, time
import numpy as np, polars as pl
def rss(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = rss()
start = time.process_time()
frame = pl.read_parquet(sys.argv[1], columns=["prompt_id", "policy", "judge_score", "oracle_label"])
scores = frame["judge_score"].to_numpy()
columns = rss() - before
np.argsort(scores)
print(time.process_time() - start, columns)
"""

_OURS = """
import resource, sys, time
from cje import analyze_dataset
import cje.analysis, cje.data.reader, cje.estimators.direct.estimator, polars as pl
# first use of the libraries is not the analysis: a small one warms them up
small = pl.DataFrame({"policy": ["a"] * 40, "prompt_id": [f"p{i}" for i in range(40)],
                      "judge_score": [i / 40 for i in range(40)],
                      "oracle_label": [i / 40 for i in range(40)]})
analyze_dataset(small).ci()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
start = time.process_time()
analyze_dataset(sys.argv[1]).ci()
seconds = time.process_time() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


def _from_parquet(quick: bool) -> list[dict[str, Any]]:
    prompts = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, 5 * prompts)
        times, memory, floors = [], [], []
        for _ in range(3):
            floor, columns = _child(_FLOOR, path)
            seconds, peak = _child(_OURS, path)
            times.append(seconds / floor)
            memory.append(peak / columns)
            floors.append((floor, seconds, columns, peak))
    floor, seconds, columns, peak = (statistics.median(part) for part in zip(*floors, strict=True))
    size = f"5 x {prompts:,} rows from Parquet"
    return [
        row(f"direct, {size}: time / (read + argsort)", middle(times), 2.5,
            f"{seconds:.2f} s against {floor:.2f} s of processor"),
        row(f"direct, {size}: peak memory / columns read", middle(memory), 4.0,
            f"{peak / 1e6:.0f} MB against {columns / 1e6:.0f} MB in memory"),
    ]  # fmt: skip


def _child(code: str, path: Path) -> tuple[float, float]:
    out = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True, cwd=ROOT
    )
    first, second = out.stdout.split()[-2:]
    return float(first), float(second)


def _bootstrap(quick: bool) -> dict[str, Any]:
    draws = 2_000
    data = policies_on_shared_prompts(1000, 4, 100, seed=1, levels=21).dataset
    cell = data.policy.codes * 21 + np.rint(data.judge_score * 20).astype(np.int64)
    weight = np.random.default_rng(0).random(len(data))

    def floor() -> None:
        for _ in range(draws):
            for _ in range(3):
                np.bincount(cell, weight)

    def ours() -> None:
        bootstrap_direct(data, n_draws=draws, seed=1)

    seconds = interleaved({"ours": ours, "floor": floor}, 3 if quick else 9)
    note = f"{statistics.median(seconds['ours']) * 1e3:.0f} ms, 21 distinct scores"
    return row("2,000 refitting bootstrap draws, 4 x 1,000 rows / 3 bincounts each",
               ratio(seconds, "ours", "floor"), 1.0, note)  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
