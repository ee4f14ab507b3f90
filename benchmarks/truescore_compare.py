"""`cje doctor` and a paired comparison beside truescore's commands, on the same file.

``python -m benchmarks.truescore_compare [--quick]``

Both sides are whole commands in processes of their own, so the time includes starting Python.
truescore (`.venvs/truescore`) reads a wide table (one row an example, both systems' 0/1 verdicts
beside each other), ours the long form of the same numbers.
"""

from __future__ import annotations

import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.environments import ROOT, python_of
from benchmarks.timing import main, middle, row, show

__all__ = ["run"]

_COMPARE = """
import sys
from cje import analyze_dataset
pair = analyze_dataset(sys.argv[1]).compare_policies("b", "a")
print(pair.difference, pair.interval.low, pair.interval.high)
"""


def _write(folder: Path, n: int) -> tuple[Path, Path, float]:
    """Wide and long form of one experiment, and the true difference b - a."""
    rng = np.random.default_rng(1)
    skill = rng.normal(size=n)
    truth = {"a": 0.60, "b": 0.66}
    gold, judge = {}, {}
    for name, level in truth.items():
        chance = 1 / (1 + np.exp(-skill - rng.normal(size=n)))
        gold[name] = (chance > np.quantile(chance, 1 - level)).astype(int)
        wrong = rng.random(n) < 0.15
        judge[name] = np.where(wrong, 1 - gold[name], gold[name])
    seen = rng.random(n) < 0.1
    ids = [f"q{i}" for i in range(n)]
    wide = {"id": ids}
    parts = []
    for name in truth:
        label = pl.Series(np.where(seen, gold[name], -1)).replace(-1, None)
        wide |= {f"judge_{name}": judge[name], f"gold_{name}": label}
        parts.append(pl.DataFrame({"prompt_id": ids, "policy": [name] * n,
                                   "judge_score": judge[name], "oracle_label": label}))  # fmt: skip
    paths = folder / "wide.csv", folder / "long.csv"
    pl.DataFrame(wide).write_csv(paths[0])
    pl.concat(parts).write_csv(paths[1])
    return *paths, float(gold["b"].mean() - gold["a"].mean())


def _processor(command: Sequence[str | Path]) -> tuple[float, str]:
    """Processor seconds of a command and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode not in (0, 2):  # 2: `cje doctor` has findings to show
        raise RuntimeError(done.stderr[-500:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        done.stdout,
    )


def _ratio(mine: Sequence[str | Path], peer: Sequence[str | Path], repeats: int) -> dict[str, Any]:
    pairs = [(_processor(mine), _processor(peer)) for _ in range(repeats)]
    return {
        "ratio": middle(a[0] / b[0] for a, b in pairs),
        "mine": statistics.median(a[0] for a, _ in pairs),
        "peer": statistics.median(b[0] for _, b in pairs),
        "said": (pairs[0][0][1], pairs[0][1][1]),
    }


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Time of both commands; the two answers to one comparison."""
    program = python_of("truescore").with_name("truescore")
    if not program.exists():
        note = "truescore's environment could not be made: see the table of peers"
        return [{"bar": "truescore", "value": float("nan"), "limit": 1.0, "ok": False,
                 "note": note}]  # fmt: skip
    n = 5_000 if quick else 50_000
    with tempfile.TemporaryDirectory() as folder:
        wide, long, truth = _write(Path(folder), n)
        cje = Path(sys.executable).with_name("cje")
        doctor = _ratio([cje, "doctor", long], [program, "doctor", wide], 3)
        compare = _ratio(
            [sys.executable, "-c", _COMPARE, long],
            [program, "compare", "--judge-a", "judge_a", "--judge-b", "judge_b", "--gold-a",
             "gold_a", "--gold-b", "gold_b", "--id-column", "id", wide],
            3,
        )  # fmt: skip
    difference, low, high = map(float, compare["said"][0].split())
    size = f"2 x {n:,} rows"
    rows = []
    for name, found in (("doctor", doctor), ("compare two systems", compare)):
        note = f"{found['mine']:.2f} s against {found['peer']:.2f} s of processor"
        rows.append(row(f"{name}, {size}: time / truescore", found["ratio"], 1.0, note))
    rows.append(row("comparison: |difference - the full labels'| / half the interval",
                    abs(difference - truth) / ((high - low) / 2), 1.0,
                    f"ours {difference:+.4f} ({low:+.4f} to {high:+.4f}), all labels {truth:+.4f}; "
                    f"truescore says: {_numbers(compare['said'][1])}"))  # fmt: skip
    show(rows)
    return rows


def _numbers(text: str) -> str:
    """The line of truescore's answer that holds its interval."""
    for line in reversed(text.splitlines()):  # the corrected comparison comes last
        if re.search(r"[-+]?\d\.\d+.*[-+]?\d\.\d+", line):
            return " ".join(line.split())[:120]
    return "no interval"


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
