"""What `direct` says about its own numbers, and the judge's calibration curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.data.scale import Scale
from cje.inference import CalibrationCurve, Finding, Severity, interval_limits
from cje.kernels.arrays import FloatArray

__all__ = ["cell_findings", "copy_findings", "judge_curve"]

_FEW = 20
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
        if name in borrowed:
            findings.append(_borrowed(name, count, min_labels))
        elif count < _FEW:
            findings.append(
                Finding(
                    "few-labels",
                    f"only {count} labels of its own; the interval leans on normal theory",
                    Severity.WARNING,
                    f"label at least {_FEW} randomly chosen responses",
                    name,
                    {"n_labels": count},
                )
            )
        if same:
            findings.append(
                Finding(
                    "identical-labels",
                    f"{'all labels it borrows' if name in borrowed else f'all {count} labels'} "
                    "are equal, so they show no spread; the interval uses the largest deviation "
                    "that such labels would still allow",
                    Severity.WARNING,
                    "label more responses",
                    name,
                    {"n_labels": count},
                )
            )
    return tuple(findings)


def _borrowed(name: str, count: int, min_labels: int) -> Finding:
    own = "no labels" if count == 0 else f"only {count} labels"
    return Finding(
        "borrowed-calibration",
        f"{own} of its own: its value rests on the calibration learnt from other labels, and is "
        "right only if the judge errs on it as on them",
        Severity.WARNING,
        f"label at least {max(min_labels, _FEW)} randomly chosen responses of this policy",
        name,
        {"n_labels": count},
    )


def copy_findings(n_copies: int) -> tuple[Finding, ...]:
    """Calibration labels that were left out because the data have them already."""
    if n_copies == 0:
        return ()
    return (
        Finding(
            "copied-labels",
            f"{n_copies} labels of the calibration data are labels of the fresh draws over again "
            "(the same prompts, scores and labels); each counts once",
            Severity.INFO,
            "nothing to do; leave the file out where it adds no other labels",
            details={"n_copies": n_copies},
        ),
    )


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
