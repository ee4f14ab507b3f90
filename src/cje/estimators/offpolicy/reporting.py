"""What an off-policy result shows beside its values: how it was made, the judge's curve, rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.data import Dataset
from cje.estimators.judge_curve import judge_curve
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.inference import CalibrationCurve
from cje.results.evidence import Evidence

__all__ = ["evidence", "metadata", "shared_judge_curve"]


def metadata(
    problem: Problem, fit: Fit, data: Dataset, *, level: float, counted: bool
) -> dict[str, Any]:
    """Plain facts; `counted` says whether the labels' jackknife is in the standard errors."""
    names = problem.logged.policies
    n_labels = int(problem.logged.labelled.sum())
    scale = data.oracle_scale
    return {
        "level": level,
        "quantity": "policy value",
        "n_rows": {name: len(problem.logged) for name in names},
        "n_labels": dict.fromkeys(names, n_labels),
        "calibration_mode": problem.rewards.model.mode,
        "label_uncertainty": _where_labels_are(fit, counted),
        "off_policy": True,
        "scale": [scale.low, scale.high],
    }


def shared_judge_curve(problem: Problem, data: Dataset) -> CalibrationCurve:
    """The judge against the labels, by the calibration that all targets share."""
    logged = problem.logged
    rows = logged.labelled
    return judge_curve(
        problem.rewards.model,
        logged.scores[rows],
        None if logged.covariates is None else logged.covariates[rows],
        np.unique(logged.folds[rows]),
        data.judge_scale,
        data.oracle_scale,
    )


def evidence(problem: Problem, data: Dataset) -> Evidence:
    """The labelled rows with their out-of-fold rewards and weights."""
    rows = np.flatnonzero(problem.logged.labelled)
    return Evidence(
        data,
        rows,
        problem.rewards.out_of_fold[rows],
        problem.logged.weights,
        problem.__dict__.get("projected"),  # only where an estimator needed it
    )


def _where_labels_are(fit: Fit, counted: bool) -> str:
    """Where the labels' uncertainty is."""
    if not fit.labels_apart:
        return "influence"
    return "jackknife" if counted else "left out"
