"""`CalibrationResult`: calibrated scores, how good they are, and what to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel, RewardModel
from cje.calibration.rewards.selection import ModeSelection
from cje.findings import Finding, Severity
from cje.kernels.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from cje.calibration.rewards.judge import JudgeCalibrator

__all__ = ["CalibrationResult", "FitQuality", "fit_quality"]

CLOSE = 0.1  # an error of at most this counts as covered
LOW_R2 = 0.3
LOW_COVERAGE = 0.05


@dataclass(frozen=True)
class FitQuality:
    """Root mean squared error, share of errors within 0.1, and R squared."""

    rmse: float
    coverage_at_01: float
    r2: float


@dataclass(frozen=True)
class CalibrationResult:
    """What a calibration returns.

    Parameters
    ----------
    calibrated_scores : array (n,)
        The all-data model's reward of every row.
    calibration_rmse, coverage_at_01, r2 : float
        Quality on the labelled rows the model was fitted on: root mean squared error, share with
        an absolute error of at most 0.1, and 1 - SSE / SST (NaN where all labels are equal).
    n_oracle, n_total : int
        Labelled rows and all rows.
    selection : ModeSelection
        The mode and why.
    oof_rmse, oof_coverage_at_01, oof_r2 : float, optional
        The same out of fold: each label predicted by the model that never saw its fold. These
        are the honest ones; absent where there were too few labels to cross-fit.
    fold_ids : array (n,) of int, optional
        Fold of every row, labelled or not; give it to `JudgeCalibrator.predict_oof`.
    fold_models : tuple of RewardModel
        The models without fold 0, 1, ...
    calibrator : JudgeCalibrator, optional
        The fitted calibrator.
    """

    calibrated_scores: FloatArray
    calibration_rmse: float
    coverage_at_01: float
    r2: float
    n_oracle: int
    n_total: int
    selection: ModeSelection
    oof_rmse: float | None = None
    oof_coverage_at_01: float | None = None
    oof_r2: float | None = None
    fold_ids: IntArray | None = None
    fold_models: tuple[RewardModel, ...] = ()
    calibrator: JudgeCalibrator | None = None

    @property
    def selected_mode(self) -> str:
        """``"monotone"`` or ``"two_stage"``."""
        return self.selection.mode

    @property
    def oracle_coverage(self) -> float:
        """Share of rows with a label."""
        return self.n_oracle / self.n_total

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a reader of the numbers should know first."""
        found = []
        r2 = self.oof_r2 if self.oof_r2 is not None else self.r2
        if r2 < LOW_R2:
            found.append(_low_r2(r2))
        if self.oracle_coverage < LOW_COVERAGE:
            found.append(_low_coverage(self.oracle_coverage, self.n_oracle))
        return tuple(found)

    def summary(self) -> str:
        """The result in a few lines, for a person."""
        lines = [
            "Calibration Summary:",
            f"  Oracle samples: {self.n_oracle} of {self.n_total} ({self.oracle_coverage:.1%})",
            f"  Mode: {self.selected_mode} ({self.selection.reason})",
            f"  RMSE: {self.calibration_rmse:.3f}",
            f"  Coverage (±0.1): {self.coverage_at_01:.1%}",
            f"  R²: {self.r2:.3f}",
        ]
        if self.oof_rmse is not None:
            lines.append(
                f"  Out of fold: RMSE {self.oof_rmse:.3f}, coverage (±0.1) "
                f"{self.oof_coverage_at_01:.1%}, R² {self.oof_r2:.3f}"
            )
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)


def fit_quality(labels: FloatArray, predicted: FloatArray, weights: FloatArray) -> FitQuality:
    """Weighted root mean squared error, coverage at 0.1 and R squared."""
    share = weights / weights.sum()
    error = labels - predicted
    mse = float(np.sum(share * error**2))
    spread = float(np.sum(share * (labels - np.sum(share * labels)) ** 2))
    # The slack keeps 0.3 - 0.2 a hit, as written.
    within = float(np.sum(share * (np.abs(error) <= CLOSE + 1e-12)))
    return FitQuality(float(np.sqrt(mse)), within, 1.0 - mse / spread if spread > 0 else np.nan)


def build_result(
    model: CrossFittedRewardModel,
    calibrated: FloatArray,
    labelled: IntArray,
    labels: FloatArray,
    weights: FloatArray,
    oof: FloatArray | None,
    fold_ids: IntArray | None,
    calibrator: JudgeCalibrator | None,
) -> CalibrationResult:
    """Assemble the result: `labelled` indexes the rows whose `labels` and `weights` are given."""
    inside = fit_quality(labels, calibrated[labelled], weights)
    outside = None if oof is None else fit_quality(labels, oof, weights)
    return CalibrationResult(
        calibrated_scores=calibrated,
        calibration_rmse=inside.rmse,
        coverage_at_01=inside.coverage_at_01,
        r2=inside.r2,
        n_oracle=len(labelled),
        n_total=len(calibrated),
        selection=model.selection,
        oof_rmse=None if outside is None else outside.rmse,
        oof_coverage_at_01=None if outside is None else outside.coverage_at_01,
        oof_r2=None if outside is None else outside.r2,
        fold_ids=fold_ids,
        fold_models=model.folds,
        calibrator=calibrator,
    )


def _low_r2(r2: float) -> Finding:
    return Finding(
        "low-calibration-r2",
        f"The judge explains little of the oracle label: R² is {r2:.2f}, below {LOW_R2}",
        Severity.WARNING,
        "label more rows (aim above 10%), improve the judge's prompt or model, try another judge, "
        "or check whether the labels themselves are noisy",
        details={"r2": r2},
    )


def _low_coverage(coverage: float, n_oracle: int) -> Finding:
    return Finding(
        "low-oracle-coverage",
        f"Only {coverage:.1%} of the rows ({n_oracle}) carry an oracle label",
        Severity.WARNING,
        "collect more labels, consider the uncalibrated judge score, "
        "or bootstrap the calibration to see how uncertain it is",
        details={"oracle_coverage": coverage, "n_oracle": n_oracle},
    )
