"""The survival calibration experiment: simulate, fit, evaluate, tabulate, draw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cje.survival.experiment.config import DEFAULT_SEEDS, ExperimentConfig, load_config
from cje.survival.experiment.evaluator import MetricEvaluator, MetricResult
from cje.survival.experiment.figures import write_figures
from cje.survival.experiment.models import (
    CoxPHBaseline,
    KnownRisk,
    RandomSurvivalForestBaseline,
)
from cje.survival.experiment.neural import NeuralCox
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
    """Run (or finish) the experiment and write ``runs.csv``, ``summary.csv`` and the figures."""
    rows = flatten(run_all(config, on_progress=on_progress))
    summary = aggregate(rows)
    paths = {"runs": config.out / "runs.csv", "summary": config.out / "summary.csv"}
    write_csv(paths["runs"], rows)
    write_csv(paths["summary"], summary)
    for path in write_figures(config.out / "figures", summary):
        paths[path.stem] = path
    return paths
