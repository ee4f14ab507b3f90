"""What `direct` says about its own numbers, and the judge's calibration curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.data.scale import Scale
from cje.findings import Finding
from cje.findings.labels import BORROWED_CALIBRATION, COPIED_LABELS, FEW_LABELS, IDENTICAL_LABELS
from cje.inference import CalibrationCurve, interval_limits
from cje.kernels.arrays import FloatArray

__all__ = ["cell_findings", "copy_findings", "judge_curve"]

_CURVE_POINTS = 40


def cell_findings(
    names: Sequence[str],
    n_labels: Mapping[str, int],
    borrowed: Sequence[str],
    min_labels: int,
    constant: Sequence[bool],
) -> tuple[Finding, ...]:
    """Borrowed calibration, few labels, labels that are all the same."""
    findings = []
    for name, same in zip(names, constant, strict=True):
        count = n_labels[name]
        enough = FEW_LABELS["enough"]
        if name in borrowed:
            own = "no labels" if count == 0 else f"only {count} labels"
            findings.append(
                BORROWED_CALIBRATION.finding(
                    name, own=own, enough=max(min_labels, enough), details={"n_labels": count}
                )
            )
        elif count < enough:
            findings.append(
                FEW_LABELS.finding(name, n_labels=count, enough=enough, details={"n_labels": count})
            )
        if same:
            which = "all labels it borrows" if name in borrowed else f"all {count} labels"
            findings.append(
                IDENTICAL_LABELS.finding(name, which=which, details={"n_labels": count})
            )
    return tuple(findings)


def copy_findings(n_copies: int) -> tuple[Finding, ...]:
    """Calibration labels that were left out because the data have them already."""
    return (COPIED_LABELS.finding(n_copies=n_copies),) if n_copies else ()


def judge_curve(
    model: CrossFittedRewardModel,
    scores: FloatArray,
    x: FloatArray | None,
    occupied: np.ndarray,
    judge: Scale,
    oracle: Scale,
) -> CalibrationCurve:
    """Judge score -> calibrated label, band from the delete-one-fold jackknife (pointwise).

    `scores` and `x` are the labelled rows' scores and covariates, `occupied` the folds that hold
    labels. The curve is drawn at the mean covariates.
    """
    grid = np.unique(scores)
    if len(grid) > _CURVE_POINTS:
        grid = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, _CURVE_POINTS)))
    counts = np.bincount(_nearest(grid, scores), minlength=len(grid)).astype(float)
    covariates = None
    if x is not None:
        covariates = np.tile(x.mean(axis=0), (len(grid), 1))
    observed = model.predict(grid, covariates)
    each = np.stack([model.folds[k].predict(grid, covariates) for k in occupied])
    f = len(each)
    se = np.sqrt((f - 1) / f * ((each - each.mean(axis=0)) ** 2).sum(axis=0))
    low, high = interval_limits(observed, se, df=f - 1, bounds=(0.0, 1.0), method="t")
    return CalibrationCurve(
        judge.from_unit(grid),
        oracle.from_unit(observed),
        oracle.from_unit(low),
        oracle.from_unit(high),
        counts,
        band="pointwise",
        x_label="judge score",
        y_label="mean label",
        title="Judge calibration",
        reference=judge == oracle,
    )


def _nearest(grid: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Position of the grid point closest to each score."""
    middle = 0.5 * (grid[1:] + grid[:-1])
    return np.searchsorted(middle, scores)
