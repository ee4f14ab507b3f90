"""Coverage, robustness and speed of `cje.uncertainty` (scenarios: `studies/uncertainty.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import interleaved, main, ratio, row, show
from cje.uncertainty import UncertaintyAwareDRCPO
from studies.uncertainty import COVERED, DEFAULT, LOST, NOISY, PLAIN, SAVED, TWICE, draw, study

FloatArray = NDArray[np.float64]


def _tolerance(repetitions: int) -> float:
    """93.5 to 96.5%; a short run is given three binomial standard errors more."""
    slack = 3.0 * np.sqrt(0.05 * 0.95 / repetitions) if repetitions < 2000 else 0.0
    return float(0.015 + slack)


def coverage_rows(repetitions: int) -> list[dict[str, Any]]:
    """How far each coverage is from 95%."""
    rows = []
    for scenario in COVERED:
        found = study(scenario, repetitions)
        note = (
            f"coverage {found['coverage']:.4f}, bias {found['bias']:+.4f}, "
            f"sd {found['sd']:.4f}, mean se {found['mean_se']:.4f}"
        )
        limit = _tolerance(repetitions)
        rows.append(row(f"|coverage - 95%|: {scenario.name}", abs(found["coverage"] - 0.95),
                        limit, note))  # fmt: skip
    for scenario in SAVED:
        found = study(scenario, repetitions)
        rows.append(row(f"|bias|: {scenario.name}", abs(found["bias"]), 0.012,
                        f"coverage {found['coverage']:.4f}"))  # fmt: skip
    for scenario in LOST:
        found = study(scenario, repetitions // 4)
        rows.append(row(f"coverage (nothing saves it): {scenario.name}", found["coverage"], 0.5,
                        f"bias {found['bias']:+.4f}"))  # fmt: skip
    return rows


def standard_error_rows(repetitions: int) -> list[dict[str, Any]]:
    """The judge's noise counted once and twice."""
    once = study(replace(TWICE, config=PLAIN), repetitions)
    twice = study(TWICE, repetitions)
    note = (
        f"once: {once['coverage']:.4f}, twice: {twice['coverage']:.4f}, "
        f"se {twice['mean_se'] / twice['sd']:.2f} x the true sd"
    )
    return [
        row(
            "|coverage - 95%|: counted once",
            abs(once["coverage"] - 0.95),
            _tolerance(repetitions),
            note,
        ),
        row("0.975 - coverage: counted twice is too wide", 0.975 - twice["coverage"], 0.0, note),
    ]


def shrinkage_rows(repetitions: int) -> list[dict[str, Any]]:
    """Mean squared error with shrinkage over without, on the same data sets."""
    told = replace(NOISY, name="shrinkage", noise=0.03, told_noise=True)
    untold = replace(NOISY, name="noise the judge does not tell")
    rows = []
    for base, method, limit in (
        (told, "optimal", 0.95),
        (told, "covariance", np.inf),
        (untold, "optimal", 1.02),
    ):
        plain = study(replace(base, config=PLAIN), repetitions)
        config = replace(DEFAULT, shrinkage_method=method)
        found = study(replace(base, config=config), repetitions)
        note = f"bias {found['bias']:+.4f}, coverage {found['coverage']:.4f}"
        rows.append(row(f"MSE of '{method}' / none: {base.name}", found["mse"] / plain["mse"],
                        limit, note))  # fmt: skip
    return rows


def speed_rows(repeats: int) -> list[dict[str, Any]]:
    """Four policies, a million rows, against one sort."""
    rng = np.random.default_rng(1)
    n = 1_000_000
    d = draw(replace(NOISY, n=n), rng)
    weights = d.weights[:, None] * np.exp(rng.normal(0.0, 0.3, (n, 4)))
    column = rng.random(n)
    fit: Callable[[], Any] = lambda: UncertaintyAwareDRCPO().fit(  # noqa: E731
        judge_scores=d.scores, oracle_rewards=d.labels, importance_weights=weights
    )
    seconds = interleaved({"fit": fit, "argsort": lambda: np.argsort(column)}, repeats)
    return [row("fit, 4 policies x 10^6 rows / np.argsort", ratio(seconds, "fit", "argsort"), 30.0)]


def run(quick: bool) -> list[dict[str, Any]]:
    """All bars."""
    repetitions = 400 if quick else 4000
    rows = [
        *speed_rows(2 if quick else 5),
        *coverage_rows(repetitions),
        *standard_error_rows(repetitions),
        *shrinkage_rows(repetitions),
    ]
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
