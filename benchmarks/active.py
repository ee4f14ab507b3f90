"""Labels that active labelling saves, and the coverage of both designs.

python -m benchmarks.active [--quick]
"""

from __future__ import annotations

import sys
from typing import Any

from studies.active import ARENA, WORLDS, arena_world, replay, true_mean

__all__ = ["run"]


def run(quick: bool) -> list[dict[str, Any]]:
    """One row per world: labels saved, and coverage of both designs."""
    n_reps = 100 if quick else 4_000
    worlds = {name: (world, true_mean(world)) for name, world in WORLDS.items()}
    if ARENA.exists():
        worlds["Arena sample, base"] = arena_world("base")
    slack = 2.5 * (0.05 * 0.95 / n_reps) ** 0.5 * (n_reps < 4_000)
    rows = []
    for name, (world, truth) in worlds.items():
        found = replay(world, truth, n_reps=n_reps)
        rows.append({
            "bar": f"coverage of the fixed interval, active: {name}",
            "value": found["active"],
            "limit": "0.935 to 0.965",
            "ok": 0.935 - slack <= found["active"] <= 0.965 + slack,
            "note": f"random {found['random']:.3f}; labels saved {found['saving']:.2f} x; "
            f"informative in {found['informed']:.0%}; refused {found['refused']:.2%}",
        })  # fmt: skip
    return rows


def main() -> None:
    """Print every row."""
    for row in run("--quick" in sys.argv):
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.4f} ({row['limit']}) {row['note']}", flush=True)


if __name__ == "__main__":
    main()
