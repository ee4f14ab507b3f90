"""Designs that break intervals: dependence, selection, few, skewed and rare labels, bad weights.

    python -m benchmarks.stress [--quick] [--cells TEXT] [--repetitions 4000]

Each family of cells is a module of `studies` with ``CELLS`` and ``study``; what `FAMILIES` names
runs. A cell passes where 95% intervals cover 93.5-96.5% (rare binary labels: at least 93.5%) at
1.15 times the width of an oracle (the t interval with the estimator's true standard deviation;
binary labels: Clopper-Pearson's interval of the labels alone), or where the value is refused or a
finding names the cause. The first seed is one that no development used.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import numpy as np

from benchmarks.timing import show

__all__ = ["FAMILIES", "run"]

FAMILIES = ("studies.stress_direct",)
LOW, HIGH, WIDTH = 0.935, 0.965, 1.15
FIRST_SEED = 1_000_000


def run(
    quick: bool = False, *, cells: str = "", repetitions: int | None = None
) -> list[dict[str, Any]]:
    """One row per cell."""
    n = repetitions or (100 if quick else 4000)
    rows = []
    for family in FAMILIES:
        module = importlib.import_module(family)
        for cell in module.CELLS:
            if cells in cell.name:
                rows.append(_row(cell, module.study(cell, n, first_seed=FIRST_SEED), n))
                show(rows[-1:])
    return rows


def _row(cell: Any, found: Any, n: int) -> dict[str, Any]:
    noise = 3.0 * np.sqrt(LOW * (1.0 - LOW) / n)
    binary = bool(cell.binary_labels)
    width = found.to_exact if binary else found.to_oracle
    covers = found.coverage >= LOW - noise and (binary or found.coverage <= HIGH + noise)
    excused = found.refused >= 0.95 or found.warned >= 0.95
    return {
        "bar": f"{cell.name}: coverage",
        "value": found.coverage,
        "limit": 0.95,
        "ok": bool(excused or (covers and width <= WIDTH)),
        "note": f"refused {found.refused:.3f}, warned {found.warned:.3f}, width {found.width:.4f}, "
        f"{width:.2f} x {'Clopper-Pearson' if binary else 'oracle'}, bias {found.bias:+.4f}, "
        f"a worse version named best {found.best_wrong:.3f}; labels alone (t): coverage "
        f"{found.t_coverage:.3f}, width {found.t_width:.4f}; {n} repetitions",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", default="", help="only cells whose name holds this text")
    parser.add_argument("--repetitions", type=int, default=None)
    chosen = parser.parse_args()
    run(chosen.quick, cells=chosen.cells, repetitions=chosen.repetitions)


if __name__ == "__main__":
    main()
