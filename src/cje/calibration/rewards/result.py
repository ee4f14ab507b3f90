"""`CalibrationResult`: calibrated scores, how good they are, and what to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel, RewardModel
from cje.calibration.rewards.selection import ModeSelection
from cje.findings import Finding
from cje.findings.labels import LOW_CALIBRATION_R2, LOW_ORACLE_COVERAGE
from cje.kernels.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from cje.calibration.rewards.judge import JudgeCalibrator

__all__ = ["CalibrationResult", "FitQuality", "fit_quality"]

CLOSE = 0.1  # an error of at most this counts as covered


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
        are not flattered by the fit; absent where there were too few labels to cross-fit.
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
        """Low R2 and low coverage."""
        found = []
        kind, r2 = ("in-sample", self.r2) if self.oof_r2 is None else ("out-of-fold", self.oof_r2)
        if r2 < LOW_CALIBRATION_R2["r2"]:
            found.append(LOW_CALIBRATION_R2.finding(kind=kind, r2=r2, n_labels=self.n_oracle))
        if self.oracle_coverage < LOW_ORACLE_COVERAGE["oracle_coverage"]:
            found.append(
                LOW_ORACLE_COVERAGE.finding(
                    oracle_coverage=self.oracle_coverage, n_oracle=self.n_oracle
                )
            )
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
