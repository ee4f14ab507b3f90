"""Report time and size: they grow with what is shown, not with the rows.

Run with ``python -m benchmarks.report [--quick]``. Reading and estimating are not counted, and the
intervals, differences and best policy that ``cje analyze`` prints belong to estimating; the note
says what a report costs when they have to be computed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import cje.simulate as simulate
from benchmarks.timing import interleaved, main, ratio, row, show
from cje.analysis import analyze_dataset
from cje.data import Dataset
from cje.estimators import EstimationResult

SMALL, N_POLICIES = 1_000, 4
MOST_BYTES = 1_500_000


def with_text(data: Dataset) -> Dataset:
    """The data with prompts, responses and a subgroup; 300 characters a response."""
    words = pl.Series([f"response {i}, <b>with</b> some words. " * 9 for i in range(len(data))])
    topic = np.array(["maths", "code", "chat"])[np.arange(len(data)) % 3]
    return data.with_columns(prompt=words, response=words, topic=topic.tolist())


def fresh(n_prompts: int) -> EstimationResult:
    """Four policies on shared prompts, direct."""
    n_labels = min(n_prompts // 4, 2_000)
    made = simulate.policies_on_shared_prompts(n_prompts, N_POLICIES, n_labels, seed=1)
    return analyze_dataset(with_text(made.dataset), by="topic")


def logged(n_rows: int) -> EstimationResult:
    """Three target policies weighed from a log."""
    targets = {"near": 0.85, "middle": 0.5, "far": 0.2}
    made = simulate.logged_with_logprobs(n_rows, min(n_rows // 4, 2_000), targets=targets, seed=1)
    return analyze_dataset(logged_data=with_text(made.dataset))


def forgetful(result: EstimationResult) -> str:
    """The page of a result that has never been asked for an interval or a difference."""
    return replace(result, influence=replace(result.influence)).to_html()


def growth(name: str, make: Callable[[int], EstimationResult], n: int, big: int, rows: int,
           repeats: int) -> list[dict[str, Any]]:  # fmt: skip
    """Time at `big` units over time at `n` units, and the size of the larger page."""
    small, large = make(n), make(big)
    calls = {
        "small": small.to_html,
        "large": large.to_html,
        "small, cold": lambda: forgetful(small),
        "large, cold": lambda: forgetful(large),
    }
    seconds = interleaved(calls, repeats)
    times = {key: 1000 * float(np.median(values)) for key, values in seconds.items()}
    note = (
        f"{times['large']:.0f} ms against {times['small']:.0f} ms; with intervals and differences "
        f"{times['large, cold']:.0f} against {times['small, cold']:.0f}"
    )
    size = len(large.to_html().encode())
    return [
        row(f"{name}: report of {rows:,} rows / of 4 x 1,000", ratio(seconds, "large", "small"),
            3.0, note),
        row(f"{name}: report of {rows:,} rows, megabytes", size / 1e6, MOST_BYTES / 1e6),
    ]  # fmt: skip


def run(quick: bool) -> list[dict[str, Any]]:
    """The bars; `quick` at a fifth of the rows."""
    rows = 100_000 if quick else 500_000
    repeats = 5 if quick else 11
    big = rows // N_POLICIES
    lines = growth("direct", fresh, SMALL, big, rows, repeats)
    lines += growth("off-policy", logged, SMALL * N_POLICIES, rows, rows, repeats)
    show(lines)
    return lines


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
