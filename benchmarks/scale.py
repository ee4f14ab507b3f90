"""Growth of the direct analysis with the number of rows, from Parquet to intervals.

``python -m benchmarks.scale [--quick]``

10^5, 10^6 and 10^7 rows (five policies, continuous scores, 5% labels); every run is a fresh
process, so that peak memory is its own. The floor reads the same columns and sorts the scores once.
Time is processor time (all threads of the process): it does not move with what else runs.
Writes `scale.png`: seconds and peak memory against rows, log-log, with the fitted exponents.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.environments import ROOT
from benchmarks.timing import main, row, show

__all__ = ["run"]

SIZES = (100_000, 1_000_000, 10_000_000)
QUICK_SIZES = (50_000, 200_000, 1_000_000)
PICTURE = Path(__file__).with_name("scale.png")

_PEAK = """
import re, sys, time
def peak(): return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
_FLOOR = (
    _PEAK
    + """
import numpy as np, polars as pl
start, cpu = time.perf_counter(), time.process_time()
names = ["prompt_id", "policy", "judge_score", "oracle_label"]
frame = pl.read_parquet(sys.argv[1], columns=names)
np.argsort(frame["judge_score"].to_numpy())
print(time.perf_counter() - start, time.process_time() - cpu, peak())
"""
)
_OURS = (
    _PEAK
    + """
import polars as pl
from cje import analyze_dataset
# first use of the libraries is not the analysis: a small one warms them up
ids = [f"p{i}" for i in range(40)]
part = [i / 40 for i in range(40)]
small = {"policy": ["a"] * 40, "prompt_id": ids, "judge_score": part, "oracle_label": part}
analyze_dataset(pl.DataFrame(small)).ci()
start, cpu = time.perf_counter(), time.process_time()
analyze_dataset(sys.argv[1]).ci()
print(time.perf_counter() - start, time.process_time() - cpu, peak())
"""
)


def write_rows(path: Path, rows: int, policies: int = 5) -> None:
    """Policies on shared prompts, as polars writes them (zstd)."""
    rng = np.random.default_rng(0)
    prompts = rows // policies
    shared = rng.normal(size=prompts)
    names = "prompt_" + pl.Series("n", np.arange(prompts)).cast(pl.String)
    parts = []
    for k in range(policies):
        score = 1.0 / (1.0 + np.exp(-shared - rng.normal(size=prompts) - 0.1 * k))
        label = np.clip(0.1 + 0.8 * score + 0.1 * rng.normal(size=prompts), 0.0, 1.0)
        label[rng.random(prompts) > 0.05] = np.nan
        parts.append(
            pl.DataFrame(
                {
                    "prompt_id": names,
                    "policy": pl.Series([f"policy_{k}"]).new_from_index(0, prompts),
                    "judge_score": score,
                    "oracle_label": pl.Series(label).fill_nan(None),
                }
            )
        )
    pl.concat(parts).write_parquet(path)


def measure(code: str, path: Path) -> tuple[float, float, float]:
    """Wall seconds and processor seconds of the work, and peak bytes, of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True,
        cwd=ROOT,
    )  # fmt: skip
    wall, processor, peak = map(float, done.stdout.split()[-3:])
    return wall, processor, peak


def study(sizes: tuple[int, ...], repeats: int) -> dict[str, np.ndarray]:
    """name -> (size, [wall, processor seconds, peak]): medians, ours and the floor interleaved."""
    found: dict[str, list[Any]] = {"ours": [], "floor": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        for rows in sizes:
            write_rows(path, rows)
            parts = [(measure(_FLOOR, path), measure(_OURS, path)) for _ in range(repeats)]
            for name, at in (("floor", 0), ("ours", 1)):
                found[name].append(np.median([part[at] for part in parts], axis=0))
    return {name: np.array(table) for name, table in found.items()}


def exponent(sizes: tuple[int, ...], values: np.ndarray) -> float:
    """Slope of log(value) on log(rows)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def draw(sizes: tuple[int, ...], found: dict[str, np.ndarray], path: Path) -> None:
    """The picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from cje.inference._plot import INK, MUTED, PALETTE, tidy

    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    for ax, column, unit, title in (
        (axes[0], 1, 1.0, "processor seconds"), (axes[1], 2, 1e9, "peak memory of the process, GB"),
    ):  # fmt: skip
        for name, colour, text in (
            ("ours", PALETTE[0], "Parquet to intervals"),
            ("floor", MUTED, "read columns + one argsort"),
        ):
            values = found[name][:, column] / unit
            label = f"{text}: rows^{exponent(sizes, values):.2f}"
            ax.plot(sizes, values, "o-", color=colour, label=label)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("rows")
        ax.set_title(title, color=INK, fontsize=10, loc="left")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
        tidy(ax)
    axes[1].axhline(4.0, color=MUTED, linestyle=":", linewidth=1.0)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Ratios to the floor, exponents, and the memory of the largest size."""
    sizes, repeats = (QUICK_SIZES, 2) if quick else (SIZES, 3)
    found = study(sizes, repeats)
    if not quick:
        draw(sizes, found, PICTURE)
    ours, floor = found["ours"], found["floor"]
    rows = [
        row(f"direct from Parquet, {n:.0e} rows: time / (read + argsort)", mine[1] / bare[1], 4.0,
            f"{mine[1]:.2f} s against {bare[1]:.2f} s of processor, {mine[0]:.2f} s against "
            f"{bare[0]:.2f} s on the clock; peak {mine[2] / 1e9:.2f} GB against "
            f"{bare[2] / 1e9:.2f} GB; {repeats} fresh processes each")
        for n, mine, bare in zip(sizes, ours, floor, strict=True)
    ]  # fmt: skip
    mine, bare = exponent(sizes, ours[:, 1]), exponent(sizes, floor[:, 1])
    note = f"time grows as rows^{mine:.2f}, the floor as rows^{bare:.2f}"
    rows.append(row("growth exponent of time - the floor's", mine - bare, 0.15, note))
    rows.append(row(f"peak memory at {sizes[-1]:.0e} rows, GB", ours[-1, 2] / 1e9, 4.0))
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
