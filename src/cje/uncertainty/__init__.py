"""Judge scores with variances, and policy values with the sources of their uncertainty.

The founding document's names for the estimators of `cje.estimators`; nothing is estimated here.

See docs/methods/uncertainty.md.
"""

from cje.data.judge_score import JudgeScore, JudgeScores
from cje.diagnostics.judge_variance import (
    Gamma,
    apply_variance_scaling,
    calibrate_variance_gamma,
)
from cje.estimators.offpolicy.shrinkage import (
    adaptive_shrinkage,
    apply_shrinkage,
    compute_optimal_shrinkage,
    covariance_shrinkage,
    first_order_shrinkage,
)
from cje.uncertainty.calibration import (
    CalibratedReward,
    CalibratedRewards,
    IsotonicCalibration,
    apply_full_calibration,
    calibrate_scores_isotonic,
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
