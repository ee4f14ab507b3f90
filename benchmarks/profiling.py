"""Profiles of the five hottest paths, written to `benchmarks/profiles/`.

``python -m benchmarks.profiling [NAME ...]``

Each file starts with what was profiled and what was done about what it shows.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).with_name("profiles")
LINES = 16


def direct_from_parquet(folder: Path) -> Callable[[], Any]:
    """Direct analysis of 10^6 rows (5 policies), Parquet file to intervals.

    Done: prompt ids that repeat block by block (policies on shared prompts) are encoded once; the
    ten fold models average to one piecewise linear function, evaluated once a row.
    Left: reading (collect, cast), that one look-up a row (searchsorted), and sorts of the scores.
    """
    from benchmarks.scale import write_rows
    from cje import analyze_dataset

    write_rows(folder / "rows.parquet", 1_000_000)
    return lambda: analyze_dataset(folder / "rows.parquet").ci()


def reading_jsonl(folder: Path) -> Callable[[], Any]:
    """Reading 10^5 JSONL rows with text into a `Dataset`.

    Done: only the columns asked for are parsed, by polars, in one scan; rows become Python objects
    only where one has to be named in an error.
    Left: almost all of the time is polars' own parser (collect), which is the floor.
    """
    from benchmarks.reading import make_frame
    from cje.data import read

    make_frame(20_000, "a response of some words, " * 30).write_ndjson(folder / "rows.jsonl")
    return lambda: read(folder / "rows.jsonl")


def stacked_dr(folder: Path) -> Callable[[], Any]:
    """stacked-dr on 10^5 logged rows with 2,000 labels and three targets.

    Done: the members share one problem (weights, folds, reward models), prepared once; fold models
    are looked up through a table of buckets (kernels/search) instead of bisection.
    Left: interpolation of the fold models at every logged and fresh row, which every member needs.
    """
    from cje import PrecomputedSampler
    from cje.estimators import StackedDREstimator
    from cje.simulate import logged_with_logprobs

    sim = logged_with_logprobs(100_000, 2_000, seed=1)
    sampler = PrecomputedSampler(sim.dataset)
    return lambda: StackedDREstimator(sampler, sim.fresh).fit_and_estimate()


def judge_and_weight_calibration(folder: Path) -> Callable[[], Any]:
    """JudgeCalibrator with 5 folds and SIMCal with 4 policies on 10^6 continuous scores.

    Done: one sort of the scores serves all of SIMCal's policies and candidates, the fits of rewards
    sort the labelled rows alone; a projection is one pool-adjacent-violators pass.
    Left: the sort and gathers in its order; the bars count both in units of that sort.
    """
    from cje.calibration import JudgeCalibrator, SIMCalibrator

    rng = np.random.default_rng(7)
    n = 1_000_000
    score = rng.random(n)
    label = np.clip(score + 0.15 * rng.standard_normal(n), 0.0, 1.0)
    mask = rng.random(n) < 0.1
    weight = np.exp(np.linspace(-1.5, 1.5, 4) * score[:, None] + rng.standard_normal((n, 4)))

    def work() -> None:
        JudgeCalibrator().fit_cv(score, label[mask], mask, n_folds=5)
        SIMCalibrator().transform(weight, score)

    return work


def survival_bootstrap(folder: Path) -> Callable[[], Any]:
    """500 bootstrap draws of O/E, slope and ICI on 10^4 subjects.

    Done: one sort of the times; every draw is a vector of weights on the sorted rows, the windows
    of the smoother are found once, and Newton's method starts from the full-sample slope.
    Left: cumulative sums of the weights, one set a draw and Newton step.
    """
    from benchmarks.survival import one_covariate
    from cje.survival import bootstrap_calibration

    risk, time, event = one_covariate(10_000, 1)
    horizon = float(np.median(time[event]))
    own, at = np.exp(-time * np.exp(risk)), np.exp(-horizon * np.exp(risk))
    return lambda: bootstrap_calibration(own, risk, at, time, event, horizon, n_draws=500)


PATHS = {
    part.__name__: part
    for part in (
        direct_from_parquet, reading_jsonl, stacked_dr, judge_and_weight_calibration,
        survival_bootstrap,
    )
}  # fmt: skip


def profile(name: str) -> str:
    """The text of one profile: by internal time, folders of the machine stripped."""
    with tempfile.TemporaryDirectory() as folder:
        work = PATHS[name](Path(folder))
        work()  # first use of the libraries is not the path's
        profiler = cProfile.Profile()
        profiler.enable()
        work()
        profiler.disable()
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).strip_dirs().sort_stats("tottime").print_stats(LINES)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    return f"{textwrap.dedent('    ' + (PATHS[name].__doc__ or '')).strip()}\n\n" + "\n".join(lines)


def main() -> None:
    """Write the profiles named, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PATHS:
        text = profile(name)
        (FOLDER / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        print(text, "\n")


if __name__ == "__main__":
    main()
