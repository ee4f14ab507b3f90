"""Top-label calibration of classifiers and calibration metrics.

Names load on first use: the metrics need NumPy and SciPy alone, the estimators scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.classification.assessment import Assessment as Assessment
    from cje.classification.assessment import NullReference as NullReference
    from cje.classification.assessment import assess as assess
    from cje.classification.assessment import null_reference as null_reference
    from cje.classification.brier import CorpDecomposition as CorpDecomposition
    from cje.classification.brier import brier_score as brier_score
    from cje.classification.brier import corp_decomposition as corp_decomposition
    from cje.classification.brier import corp_discrimination as corp_discrimination
    from cje.classification.brier import corp_miscalibration as corp_miscalibration
    from cje.classification.check import ClassifierCheck as ClassifierCheck
    from cje.classification.check import check_predictions as check_predictions
    from cje.classification.comparison import compare_calibration as compare_calibration
    from cje.classification.cumulative import CalibrationTest as CalibrationTest
    from cje.classification.cumulative import kolmogorov_smirnov_error as kolmogorov_smirnov_error
    from cje.classification.cumulative import kolmogorov_smirnov_test as kolmogorov_smirnov_test
    from cje.classification.cumulative import kuiper_error as kuiper_error
    from cje.classification.cumulative import kuiper_test as kuiper_test
    from cje.classification.cumulative import spiegelhalter_test as spiegelhalter_test
    from cje.classification.cumulative import spiegelhalter_z as spiegelhalter_z
    from cje.classification.curves import calibration_curve as calibration_curve
    from cje.classification.curves import class_wise_curves as class_wise_curves
    from cje.classification.curves import confidence_curve as confidence_curve
    from cje.classification.curves import top_label_curves as top_label_curves
    from cje.classification.display import ReliabilityDisplay as ReliabilityDisplay
    from cje.classification.display import calibration_scorer as calibration_scorer
    from cje.classification.ece import class_wise_ece as class_wise_ece
    from cje.classification.ece import confidence_ece as confidence_ece
    from cje.classification.ece import debiased_ece as debiased_ece
    from cje.classification.ece import expected_calibration_error as expected_calibration_error
    from cje.classification.ece import maximum_calibration_error as maximum_calibration_error
    from cje.classification.ece import mean_top_label_ece as mean_top_label_ece
    from cje.classification.ece import top_label_ece as top_label_ece
    from cje.classification.estimators import ClassWiseCalibrator as ClassWiseCalibrator
    from cje.classification.estimators import ConfidenceCalibrator as ConfidenceCalibrator
    from cje.classification.estimators import TopLabelCalibrator as TopLabelCalibrator
    from cje.classification.parametric import BetaCalibrator as BetaCalibrator
    from cje.classification.parametric import SigmoidCalibrator as SigmoidCalibrator
    from cje.classification.parametric import TemperatureCalibrator as TemperatureCalibrator
    from cje.classification.recalibration import RecalibrationMap as RecalibrationMap
    from cje.classification.report import classification_report as classification_report
    from cje.classification.rms import class_wise_rms_error as class_wise_rms_error
    from cje.classification.rms import rms_calibration_error as rms_calibration_error
    from cje.classification.rms import top_label_rms_error as top_label_rms_error
    from cje.classification.scores import multiclass_brier_score as multiclass_brier_score
    from cje.classification.scores import multiclass_log_loss as multiclass_log_loss
    from cje.classification.smooth import smooth_ece as smooth_ece
    from cje.classification.smooth import smooth_ece_at as smooth_ece_at
    from cje.classification.softmax import SoftmaxCalibrator as SoftmaxCalibrator
    from cje.classification.stepwise import CenteredIsotonicCalibrator as CenteredIsotonicCalibrator
    from cje.classification.stepwise import HistogramCalibrator as HistogramCalibrator
    from cje.classification.stepwise import IsotonicCalibrator as IsotonicCalibrator
    from cje.classification.subgroups import ClassRow as ClassRow
    from cje.classification.subgroups import SubgroupAssessment as SubgroupAssessment
    from cje.classification.subgroups import assess_subgroups as assess_subgroups
    from cje.classification.subgroups import class_table as class_table
    from cje.classification.venn_abers import VennAbersCalibrator as VennAbersCalibrator
    from cje.classification.verdict_tokens import verdict_distribution as verdict_distribution
    from cje.classification.verdicts import VerdictCalibrator as VerdictCalibrator

_HOME = {
    "BetaCalibrator": "parametric",
    "SigmoidCalibrator": "parametric",
    "TemperatureCalibrator": "parametric",
    "CenteredIsotonicCalibrator": "stepwise",
    "HistogramCalibrator": "stepwise",
    "IsotonicCalibrator": "stepwise",
    "VennAbersCalibrator": "venn_abers",
    "ClassWiseCalibrator": "estimators",
    "ConfidenceCalibrator": "estimators",
    "TopLabelCalibrator": "estimators",
    "Assessment": "assessment",
    "NullReference": "assessment",
    "assess": "assessment",
    "null_reference": "assessment",
    "CorpDecomposition": "brier",
    "brier_score": "brier",
    "corp_decomposition": "brier",
    "corp_discrimination": "brier",
    "corp_miscalibration": "brier",
    "CalibrationTest": "cumulative",
    "kolmogorov_smirnov_error": "cumulative",
    "kolmogorov_smirnov_test": "cumulative",
    "kuiper_error": "cumulative",
    "kuiper_test": "cumulative",
    "spiegelhalter_test": "cumulative",
    "spiegelhalter_z": "cumulative",
    "calibration_curve": "curves",
    "class_wise_curves": "curves",
    "confidence_curve": "curves",
    "top_label_curves": "curves",
    "class_wise_ece": "ece",
    "confidence_ece": "ece",
    "debiased_ece": "ece",
    "expected_calibration_error": "ece",
    "maximum_calibration_error": "ece",
    "mean_top_label_ece": "ece",
    "top_label_ece": "ece",
    "classification_report": "report",
    "multiclass_brier_score": "scores",
    "multiclass_log_loss": "scores",
    "rms_calibration_error": "rms",
    "top_label_rms_error": "rms",
    "class_wise_rms_error": "rms",
    "SoftmaxCalibrator": "softmax",
    "compare_calibration": "comparison",
    "ClassRow": "subgroups",
    "SubgroupAssessment": "subgroups",
    "assess_subgroups": "subgroups",
    "class_table": "subgroups",
    "ReliabilityDisplay": "display",
    "calibration_scorer": "display",
    "verdict_distribution": "verdict_tokens",
    "RecalibrationMap": "recalibration",
    "ClassifierCheck": "check",
    "check_predictions": "check",
    "smooth_ece": "smooth",
    "smooth_ece_at": "smooth",
    "VerdictCalibrator": "verdicts",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
