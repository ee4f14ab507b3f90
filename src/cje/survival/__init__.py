"""Calibration of survival models: O/E, slope, ICI, whole reports, and the experiment around them.

The metrics take plain arrays and need NumPy and SciPy only; ``cje.survival.experiment`` holds the
simulation study, which uses the ``survival`` extra.
"""

from __future__ import annotations

from cje.survival.assess import survival_report
from cje.survival.assessed import SurvivalReport
from cje.survival.bootstrap import CalibrationDraws, bootstrap_calibration
from cje.survival.brier import (
    brier_score,
    index_of_prediction_accuracy,
    integrated_brier_score,
)
from cje.survival.censoring import CensoringTest, censoring_test
from cje.survival.compare import (
    MetricDifference,
    SurvivalComparison,
    compare_survival,
    paired_difference,
)
from cje.survival.discrimination import harrell_c, time_dependent_auc, uno_c
from cje.survival.distribution import d_calibration, km_calibration
from cje.survival.ici import CalibrationIndex, calibration_curve, integrated_calibration_index
from cje.survival.in_the_large import calibration_in_the_large, observed_expected_at_horizon
from cje.survival.net_benefit import NetBenefit, net_benefit
from cje.survival.optimism import OptimismCorrected, SurvivalModel, optimism_corrected
from cje.survival.recalibrate import BaselineHazard, Recalibration, fit_baseline, recalibrate
from cje.survival.result import MetricEstimate
from cje.survival.sample import SurvivalSample, survival_sample
from cje.survival.slope import calibration_slope, from_survival

__all__ = [
    "BaselineHazard",
    "CalibrationDraws",
    "CalibrationIndex",
    "CensoringTest",
    "MetricDifference",
    "MetricEstimate",
    "NetBenefit",
    "OptimismCorrected",
    "Recalibration",
    "SurvivalComparison",
    "SurvivalModel",
    "SurvivalReport",
    "SurvivalSample",
    "bootstrap_calibration",
    "brier_score",
    "calibration_curve",
    "calibration_in_the_large",
    "calibration_slope",
    "censoring_test",
    "compare_survival",
    "d_calibration",
    "fit_baseline",
    "from_survival",
    "harrell_c",
    "index_of_prediction_accuracy",
    "integrated_brier_score",
    "integrated_calibration_index",
    "km_calibration",
    "net_benefit",
    "observed_expected_at_horizon",
    "optimism_corrected",
    "paired_difference",
    "recalibrate",
    "survival_report",
    "survival_sample",
    "time_dependent_auc",
    "uno_c",
]
