"""Coverage of the direct estimator's 95% intervals over simulations with exactly known truth.

    python -m benchmarks.coverage [--quick] [--cells skewed] [--repetitions 4000]

Each cell repeats simulate -> estimate; coverage is that of policy values and of paired differences.
A cell passes where both lie within 93.5-96.5%, or a gate flagged the estimate as not usable.
The off-policy cells are in `benchmarks.coverage_offpolicy`.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import show
from cje.data.simulate import Simulation, policies_on_shared_prompts, skewed_outcomes
from cje.estimators import DirectEstimator

__all__ = ["CELLS", "Cell", "Coverage", "run", "study"]

LOW, HIGH = 0.935, 0.965


@dataclass(frozen=True)
class Cell:
    """One setting of the study."""

    name: str
    simulate: Callable[..., Simulation]


@dataclass(frozen=True)
class Coverage:
    """What one cell gave: one entry per policy, one per paired difference."""

    values: np.ndarray
    differences: np.ndarray
    width: float
    to_bound: float

    def worst(self) -> float:
        """The share furthest from the nominal 95%."""
        shares = np.concatenate([self.values, self.differences])
        return float(shares[np.argmax(np.abs(shares - 0.95))])


def _cells() -> list[Cell]:
    cells = []
    for labels, prompts in ((50, 500), (200, 1000), (1000, 2000)):
        for shape, labelling in itertools.product(("monotone", "non_monotone"), ("mcar", "mar")):
            simulate = partial(
                policies_on_shared_prompts, prompts, 2, labels, shape=shape, labelling=labelling
            )
            cells.append(Cell(f"{shape} {labelling} {labels} labels", simulate))
        for labelling in ("mcar", "mar"):
            simulate = partial(skewed_outcomes, prompts, 2, labels, labelling=labelling)
            cells.append(Cell(f"skewed {labelling} {labels} labels", simulate))
    binary = partial(policies_on_shared_prompts, 500, 2, 50, concentration=None, levels=11)
    draws = partial(policies_on_shared_prompts, 250, 2, 100, draws=2)
    return [
        *cells,
        Cell("binary labels, 11 score levels, 50 labels", binary),
        Cell("two draws per prompt, 100 labels", draws),
    ]


CELLS = _cells()


def study(cell: Cell, repetitions: int, *, first_seed: int = 0) -> Coverage:
    """Run one cell."""
    hit, hit_gap, width, bound = [], [], [], []
    for seed in range(first_seed, first_seed + repetitions):
        simulation = cell.simulate(seed=seed)
        result = DirectEstimator(simulation.dataset, seed=seed).fit_and_estimate()
        truth = np.array([simulation.truth[name] for name in result.policies])
        low, high = np.array(result.ci()).T
        hit.append((low <= truth) & (truth <= high))
        width.append(high - low)
        pairs = list(itertools.combinations(range(len(truth)), 2))
        gaps = result.influence.all_pairs().intervals()
        hit_gap.append(
            [truth[j] - truth[i] in gap for (i, j), gap in zip(pairs, gaps, strict=True)]
        )
        parts = result.diagnostics["policies"].values()
        bound.append([part["to_efficiency_bound"] for part in parts])
    return Coverage(
        np.mean(hit, axis=0),
        np.mean(hit_gap, axis=0),
        float(np.mean(width)),
        float(np.mean(bound)),
    )


def run(
    quick: bool = False, *, cells: str = "", repetitions: int | None = None
) -> list[dict[str, Any]]:
    """One row per cell: the coverage furthest from 95%."""
    n = repetitions or (200 if quick else 4000)
    # Binomial noise of the repetitions themselves, at three standard errors.
    noise = 3.0 * np.sqrt(0.95 * 0.05 / n) if quick else 0.0
    rows = []
    for cell in CELLS:
        if cells not in cell.name:
            continue
        found = study(cell, n)
        worst = found.worst()
        rows.append(
            {
                "bar": f"direct, {cell.name}: coverage",
                "value": worst,
                "limit": 0.95,
                "ok": bool(LOW - noise <= worst <= HIGH + noise),
                "note": f"values {_short(found.values)}, difference {_short(found.differences)}, "
                f"mean width {found.width:.4f}, {found.to_bound:.3f} x the efficiency bound, "
                f"{n} repetitions",
            }
        )
        show(rows[-1:])
    return rows


def _short(values: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", default="", help="only cells whose name holds this text")
    parser.add_argument("--repetitions", type=int, default=None)
    chosen = parser.parse_args()
    run(chosen.quick, cells=chosen.cells, repetitions=chosen.repetitions)


if __name__ == "__main__":
    main()
