"""Growth of the direct analysis with the number of rows, from Parquet to intervals.

``python -m benchmarks.scale [--quick]``

In memory: 10^5, 10^6 and 10^7 rows (five policies, continuous scores, 5% labels). The floor reads
the same columns and sorts the scores once. In parts (``engine="streaming"``): 10^5 to 10^8 rows on
a hundredth as many prompts (five policies, twenty draws each, five scores, 1% labels), and 9 x 10^7
rows on 3 x 10^7 prompts (three policies). Every run is a fresh process, so that peak memory is its
own. Time is processor time (all threads of the process): it does not move with what else runs.
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

STREAMED = (100_000, 1_000_000, 10_000_000, 100_000_000)
QUICK_STREAMED = (50_000, 200_000, 1_000_000)
MANY_PROMPTS = 30_000_000  # of three policies
EQUAL_AT = 1_000_000  # rows at which both engines are compared number by number
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

_STREAMED = (
    _PEAK
    + """
from cje import analyze_dataset
start, cpu = time.perf_counter(), time.process_time()
result = analyze_dataset(sys.argv[1], repeats="draws", engine="streaming")
result.ci(), result.compare_all()
print(time.perf_counter() - start, time.process_time() - cpu, peak())
"""
)
_CHUNK = 2_000_000


def write_draws(
    path: Path, prompts: int, policies: int, draws: int, share: float, seed: int = 1
) -> None:
    """Rows of discrete scores and labels in chunks of prompts, each with `draws` per policy.

    Chunks are row groups of one file: memory stays at one of them, whatever the size.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    step = max(_CHUNK // (policies * draws), 1)
    names = pa.array([f"policy_{k}" for k in range(policies)])
    schema = pa.schema(
        [
            ("prompt_id", pa.string()),
            ("policy", pa.dictionary(pa.int32(), pa.string())),
            ("judge_score", pa.int8()),
            ("oracle_label", pa.float64()),
        ]
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, prompts, step):
            n = min(step, prompts - start)
            ids = np.repeat(np.arange(start, start + n), policies * draws)
            policy = np.tile(np.repeat(np.arange(policies), draws), n)
            hard = np.repeat(rng.normal(size=n), policies * draws)
            latent = 3.0 + hard + 0.1 * policy + rng.normal(size=len(ids))
            score = np.clip(np.round(latent), 1, 5)
            label = np.clip(np.round(latent + rng.normal(size=len(ids))), 1, 5)
            missing = rng.random(len(ids)) > share
            table = [
                ("prompt_" + pl.Series(ids).cast(pl.String)).to_arrow().cast(pa.string()),
                pa.DictionaryArray.from_arrays(pa.array(policy, pa.int32()), names),
                pa.array(score.astype(np.int8)),
                pa.array(label, mask=missing),
            ]
            writer.write_table(pa.Table.from_arrays(table, schema=schema))


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


def measure_streamed(prompts: int, policies: int, draws: int) -> tuple[float, float, float]:
    """`measure` of a file read in parts.

    By chance labels follow the score at the 2% level for one policy in fifty. Such a file would be
    read in memory; another is drawn in its place.
    """
    for seed in range(1, 10):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_draws(path, prompts, policies, draws, 0.01, seed)
            try:
                return measure(_STREAMED, path)
            except subprocess.CalledProcessError as error:
                if "labelling depends on the judge score" not in error.stderr:
                    raise
                print(f"labels of {prompts:,} prompts follow the score by chance, seed {seed}")
    raise RuntimeError("labels of nine files follow the score: is the test right?")


def streamed_study(sizes: tuple[int, ...]) -> np.ndarray:
    """(size, [wall, processor seconds, peak]) of files read in parts, one run each."""
    return np.array([measure_streamed(rows // 100, 5, 20) for rows in sizes])


def largest_gap(rows: int) -> float:
    """Largest gap between both engines: values and limits on the label's scale, errors relative."""
    from cje import analyze_dataset

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_draws(path, rows // 100, 5, 20, 0.01)
        memory, streamed = (
            analyze_dataset(path, repeats="draws", engine=engine).influence
            for engine in ("memory", "streaming")
        )
    gaps = []
    for mine, theirs in ((memory, streamed), (memory.all_pairs(), streamed.all_pairs())):
        gaps.append(np.abs(mine.values - theirs.values))
        gaps.append(np.abs(theirs.standard_errors() / mine.standard_errors() - 1.0))
        limits = (np.array([(i.low, i.high) for i in one.intervals()]) for one in (mine, theirs))
        gaps.append(np.abs(np.subtract(*limits)).ravel())
    return float(np.concatenate(gaps).max())


def exponent(sizes: tuple[int, ...], values: np.ndarray) -> float:
    """Slope of log(value) on log(rows)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def draw(
    sizes: tuple[int, ...], found: dict[str, np.ndarray], streamed: np.ndarray, path: Path
) -> None:
    """The picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from cje.inference._plot import INK, MUTED, PALETTE, tidy

    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    for ax, column, unit, title in (
        (axes[0], 1, 1.0, "processor seconds"), (axes[1], 2, 1e9, "peak memory of the process, GB"),
    ):  # fmt: skip
        for table, n, colour, text in (
            (found["ours"], sizes, PALETTE[0], "in memory"),
            (streamed, STREAMED, PALETTE[1], "in parts"),
            (found["floor"], sizes, MUTED, "read columns + one argsort"),
        ):
            values = table[:, column] / unit
            label = f"{text}: rows^{exponent(n, values):.2f}"
            ax.plot(n, values, "o-", color=colour, label=label)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("rows")
        ax.set_title(title, color=INK, fontsize=10, loc="left")
        ax.legend(frameon=False, fontsize=8, loc="lower right")
        tidy(ax)
    axes[1].axhline(4.0, color=MUTED, linestyle=":", linewidth=1.0)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Ratios to the floor, exponents, and the memory of the largest size."""
    sizes, repeats = (QUICK_SIZES, 2) if quick else (SIZES, 3)
    found = study(sizes, repeats)
    streamed = streamed_study(QUICK_STREAMED if quick else STREAMED)
    if not quick:
        draw(sizes, found, streamed, PICTURE)
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
    rows += _streamed_rows(streamed, quick)
    show(rows)
    return rows


def _streamed_rows(found: np.ndarray, quick: bool) -> list[dict[str, Any]]:
    """What is recorded of files read in parts."""
    sizes, prompts = (QUICK_STREAMED, 100_000) if quick else (STREAMED, MANY_PROMPTS)
    wall, processor, peak = found[-1]
    many = measure_streamed(prompts, 3, 1)  # one response each
    growth = ", ".join(
        f"{n:.0e}: {one[1]:.1f} s, {one[2] / 1e9:.2f} GB"
        for n, one in zip(sizes, found, strict=True)
    )
    return [
        row(f"in parts, {sizes[-1]:.0e} rows: peak memory, GB", peak / 1e9, 4.0,
            f"{processor:.0f} s of processor, {wall:.0f} s on the clock, one fresh process"),
        row("in parts: growth exponent of time", exponent(sizes, found[:, 1]), 1.1, growth),
        row(f"in parts, {prompts:.0e} prompts of 3 policies: peak memory, GB", many[2] / 1e9, 4.0,
            f"{many[1]:.0f} s of processor, {many[0]:.0f} s on the clock"),
        row(f"in parts, {EQUAL_AT:.0e} rows: largest gap to memory",
            largest_gap(EQUAL_AT), 1e-12),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
