"""Coverage of the off-policy estimators' intervals on simulated logs with known truth.

``python -m benchmarks.coverage_offpolicy [--quick] [--reps N] [--cell I]``

Cells: overlap (population ESS fraction), labels, judge shape, labelling, outcome. For each
estimator and target policy: the share of nominal 95% intervals that hold the truth among the
repetitions whose gates call the estimate usable, the share refused, bias, and mean width; likewise
for the paired difference of the two nearest targets.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cje import PrecomputedSampler, simulate
from cje.estimators import DRCPOEstimator, EstimationResult, find_estimator

ESTIMATORS = ("snips", "calibrated-ips", "dr-cpo", "mrdr", "tmle", "tr-cpo", "stacked-dr")
Record = tuple[bool, bool, float, float]
Tally = dict[tuple[str, str], list[Record]]
_CHUNK = 50
TARGETS = {"good": 0.8, "moderate": 0.4, "poor": 0.02}


@dataclass(frozen=True)
class Cell:
    """One data-generating process."""

    name: str
    options: dict[str, Any]
    n: int = 2000


def _cells() -> list[Cell]:
    cells = []
    for labels in (50, 200, 1000):
        cells.append(Cell(f"monotone, {labels} labels, MCAR", {"n_labels": labels}))
    for labels in (200, 1000):
        cells.append(Cell(f"monotone, {labels} labels, MAR",
                          {"n_labels": labels, "labelling": "mar"}))  # fmt: skip
        cells.append(Cell(f"non-monotone, {labels} labels, MCAR",
                          {"n_labels": labels, "shape": "non_monotone"}))  # fmt: skip
    cells.append(Cell("falling weights, 200 labels", {"n_labels": 200, "weight_shape": "falling"}))
    cells.append(Cell("U-shaped weights, 200 labels",
                      {"n_labels": 200, "weight_shape": "u_shaped"}))  # fmt: skip
    cells.append(Cell("0/1 labels, discrete judge, 200 labels",
                      {"n_labels": 200, "concentration": None, "levels": 11}))  # fmt: skip
    return cells


def study(
    cell: Cell, estimators: tuple[str, ...], reps: int, first_seed: int = 0
) -> list[dict[str, Any]]:
    """Run one cell on all cores; one row per estimator and quantity."""
    seeds = [range(at, min(at + _CHUNK, first_seed + reps))
             for at in range(first_seed, first_seed + reps, _CHUNK)]  # fmt: skip
    tally: Tally = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(_records, cell, estimators, part) for part in seeds]
        for job in jobs:
            for key, records in job.result().items():
                tally.setdefault(key, []).extend(records)
    return [_row(cell.name, *key, records) for key, records in tally.items()]


def _records(cell: Cell, estimators: tuple[str, ...], seeds: range) -> Tally:
    """(estimator, quantity) -> one record a seed: usable, covered, error, width."""
    tally: Tally = {}
    for seed in seeds:
        sim = simulate.logged_with_logprobs(cell.n, seed=seed, targets=TARGETS, **cell.options)
        sampler = PrecomputedSampler(sim.dataset)
        problem = DRCPOEstimator(sampler, sim.fresh).prepare()
        for name in estimators:
            result = find_estimator(name).load()(sampler, sim.fresh).estimate(problem)
            for quantity, record in _judge(result, sim.truth):
                tally.setdefault((name, quantity), []).append(record)
    return tally


def _judge(result: EstimationResult, truth: Mapping[str, float]) -> Iterator[tuple[str, Record]]:
    """Every policy's record, and that of the paired difference."""
    refused = set(result.refused())
    rows = zip(result.policies, result.estimates, result.ci(), strict=True)
    for policy, value, (low, high) in rows:
        yield policy, (policy not in refused, low <= truth[policy] <= high,
                       value - truth[policy], high - low)  # fmt: skip
    pair = result.compare_policies("moderate", "good")
    gap = truth["moderate"] - truth["good"]
    low, high = pair.interval
    yield "moderate - good", (not {"moderate", "good"} & refused, low <= gap <= high,
                              pair.difference - gap, high - low)  # fmt: skip


def _row(cell: str, estimator: str, quantity: str, records: list[Any]) -> dict[str, Any]:
    usable = np.array([r[0] for r in records])
    covered = np.array([r[1] for r in records])
    error = np.array([r[2] for r in records])
    width = np.array([r[3] for r in records])
    judged = covered[usable] if usable.any() else covered
    return {
        "cell": cell,
        "estimator": estimator,
        "quantity": quantity,
        "repetitions": len(records),
        "usable_share": float(usable.mean()),
        "coverage": float(judged.mean()),
        "coverage_all": float(covered.mean()),
        "bias": float(error.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "width": float(width.mean()),
    }


def run(
    quick: bool = True, reps: int | None = None, only: int | None = None
) -> list[dict[str, Any]]:
    """All cells (or one); a bar per row: coverage within 93.5-96.5% where mostly usable."""
    reps = reps or (100 if quick else 4000)
    slack = 3.0 * np.sqrt(0.05 * 0.95 / reps) if quick else 0.0
    rows = []
    cells = _cells() if only is None else [_cells()[only]]
    for cell in cells:
        for row in study(cell, ESTIMATORS, reps):
            mostly_usable = row["usable_share"] > 0.5
            inside = 0.935 - slack <= row["coverage"] <= 0.965 + slack
            rows.append(
                {
                    "bar": f"coverage: {row['estimator']}, {row['quantity']}, {row['cell']}",
                    "value": row["coverage"],
                    "limit": "0.935-0.965 where usable",
                    "ok": inside or not mostly_usable,
                    "note": f"usable {row['usable_share']:.2f}, bias {row['bias']:+.4f}, "
                    f"width {row['width']:.3f}, reps {reps}",
                    **row,
                }
            )
            print(
                f"{'ok ' if rows[-1]['ok'] else 'BAD'} {row['cell']:42s} {row['estimator']:15s} "
                f"{row['quantity']:16s} cov {row['coverage']:.3f} usable {row['usable_share']:.2f} "
                f"bias {row['bias']:+.4f} rmse {row['rmse']:.4f} width {row['width']:.3f}",
                flush=True,
            )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--reps", type=int)
    parser.add_argument("--cell", type=int, help="one cell only")
    arguments = parser.parse_args()
    sys.exit(0 if all(r["ok"] for r in run(arguments.quick, arguments.reps, arguments.cell)) else 1)
