"""The survival calibration experiment: simulate, fit, evaluate, tabulate, draw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cje.survival.experiment.config import DEFAULT_SEEDS, ExperimentConfig, load_config
from cje.survival.experiment.evaluator import MetricEvaluator, MetricResult
from cje.survival.experiment.figures import write_figures
from cje.survival.experiment.models import (
    CoxPHBaseline,
    KnownRisk,
    RandomSurvivalForestBaseline,
)
from cje.survival.experiment.neural import NeuralCox
from cje.survival.experiment.paired import paired_effects, threshold_regions
from cje.survival.experiment.runner import run_all
from cje.survival.experiment.simulate import SimulatedData, simulate_survival
from cje.survival.experiment.tables import aggregate, flatten, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DEFAULT_SEEDS",
    "CoxPHBaseline",
    "ExperimentConfig",
    "KnownRisk",
    "MetricEvaluator",
    "MetricResult",
    "NeuralCox",
    "RandomSurvivalForestBaseline",
    "SimulatedData",
    "load_config",
    "run_experiment",
    "simulate_survival",
]


def run_experiment(
    config: ExperimentConfig, *, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, Path]:
    """Run (or finish) the experiment and write its tables and figures.

    ``runs.csv``, ``summary.csv``, ``paired.csv`` (effects tested over the seeds), ``threshold.csv``
    (where the network begins to interpolate) and, where a run failed, ``failures.csv``: the tables
    and figures then hold the other runs.
    """
    records, failures = run_all(config, on_progress=on_progress)
    rows = flatten(records)
    summary = aggregate(rows)
    tables: dict[str, list[dict[str, Any]]] = {
        "runs": rows,
        "summary": summary,
        "paired": paired_effects(rows),
        "threshold": threshold_regions(summary),
        "failures": [{"run": failure.run.key, "reason": failure.reason} for failure in failures],
    }
    paths = {}
    for name, table in tables.items():
        path = config.out / f"{name}.csv"
        path.unlink(missing_ok=True)  # of an earlier call, perhaps with other runs
        if table:
            paths[name] = path
            write_csv(path, table)
    for path in write_figures(config.out / "figures", summary):
        paths[path.stem] = path
    return paths
