"""Do the intervals of a judge card cover? ``python -m benchmarks.judge_cards [--quick]``

Ratings, labels of 0 and 1, and smooth scores, 25 to 250 labelled prompts with two versions each.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.timing import main
from studies.judge_cards import KINDS, coverage, truth_of

PROMPTS = (25, 50, 100, 250)
SEED = 20_000
_STACKED = ("stacked R2", "gain over the best judge")  # few labels underestimate what a stack gains


def run(quick: bool = True) -> list[dict[str, Any]]:
    """Coverage of every statistic; nominal 95%."""
    reps = 60 if quick else 1000
    rows = []
    for kind in KINDS:
        truth = truth_of(kind)
        for n in PROMPTS:
            for name, held in coverage(kind, n, reps, truth, seed=SEED).items():
                least = 0.85 if name in _STACKED else 0.92
                slack = 0.08 if quick else 0.0
                rows.append({"bar": f"{kind}, {n} labelled prompts: {name} covers", "value": held,
                             "limit": f">= {least}", "ok": held >= least - slack,
                             "note": f"{reps} repetitions, truth {truth[name]:.3f}"})  # fmt: skip
    for row in rows:
        print(f"{'ok ' if row['ok'] else 'BAD'} {row['bar']:66s} {row['value']:.3f}  {row['note']}")
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
