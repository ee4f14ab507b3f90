"""Uncertainty as a first-class citizen: every score has a variance, and every value shows its own.

See docs/methods/uncertainty.md.
"""

from cje.data.judge_score import JudgeScore, JudgeScores
from cje.uncertainty.calibration import (
    CalibratedReward,
    CalibratedRewards,
    Gamma,
    IsotonicCalibration,
    apply_full_calibration,
    apply_variance_scaling,
    calibrate_scores_isotonic,
    calibrate_variance_gamma,
)
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.estimate import (
    PolicyUncertaintyResult,
    UncertaintyAwareEstimate,
    VarianceDecomposition,
)
from cje.uncertainty.estimator import UncertaintyAwareDRCPO
from cje.uncertainty.judges import (
    DeterministicJudge,
    OfflineJudge,
    UncertaintyAPIJudge,
    UncertaintyJudgeConfig,
)
from cje.uncertainty.report import UncertaintyReport, create_uncertainty_report
from cje.uncertainty.results import MultiPolicyUncertaintyResult
from cje.uncertainty.shrinkage import (
    adaptive_shrinkage,
    apply_shrinkage,
    compute_optimal_shrinkage,
    covariance_shrinkage,
    first_order_shrinkage,
)

__all__ = [
    "CalibratedReward",
    "CalibratedRewards",
    "DeterministicJudge",
    "Gamma",
    "IsotonicCalibration",
    "JudgeScore",
    "JudgeScores",
    "MultiPolicyUncertaintyResult",
    "OfflineJudge",
    "PolicyUncertaintyResult",
    "UncertaintyAPIJudge",
    "UncertaintyAwareDRCPO",
    "UncertaintyAwareEstimate",
    "UncertaintyEstimatorConfig",
    "UncertaintyJudgeConfig",
    "UncertaintyReport",
    "VarianceDecomposition",
    "adaptive_shrinkage",
    "apply_full_calibration",
    "apply_shrinkage",
    "apply_variance_scaling",
    "calibrate_scores_isotonic",
    "calibrate_variance_gamma",
    "compute_optimal_shrinkage",
    "covariance_shrinkage",
    "create_uncertainty_report",
    "first_order_shrinkage",
]
