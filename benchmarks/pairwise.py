"""Coverage of pairwise win rates, strengths and win probabilities with 100 human verdicts.

    python -m benchmarks.pairwise [--quick]

The worlds are those of `studies.pairwise`: people and the judge favour what is shown first, the
judge also the longer response, which is the worse one. Label-only width is that of a plain mean of
the same human verdicts.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.timing import main
from studies.pairwise import WORLDS, coverage_study

__all__ = ["run"]

_RANGE = (0.93, 0.97)


def run(quick: bool) -> list[dict[str, Any]]:
    """One row per world and quantity."""
    n_reps = 100 if quick else 1_000
    slack = 2.5 * math.sqrt(0.05 * 0.95 / n_reps)
    low, high = (_RANGE[0] - slack, _RANGE[1] + slack) if quick else _RANGE
    rows = []
    for name, world in WORLDS.items():
        found = coverage_study(world, n_reps, seed=4100)
        note = (
            f"{n_reps} repetitions; mean width of a win rate {found.width:.3f}, of the human "
            f"verdicts alone {found.label_width:.3f}; a ranking in {found.given:.1%}"
        )
        for what, value in (("win rates", found.win_rate), ("strengths", found.strength),
                            ("win probabilities", found.probability)):  # fmt: skip
            rows.append({
                "bar": f"coverage of {what}: {name}", "value": value,
                "limit": f"{low:.3f} to {high:.3f}", "ok": low <= value <= high, "note": note,
            })  # fmt: skip
            print(rows[-1]["bar"], round(value, 4), note, flush=True)
    return rows


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
