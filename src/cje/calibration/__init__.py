"""Judge score -> oracle scale, and importance-weight stabilisation.

Rewards and weights are separate: neither imports the other, arrays pass between them. Names load on
first use, so that an estimator that needs `fit_reward_model` does not pay for scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.calibration.rewards.dataset import calibrate_dataset as calibrate_dataset
    from cje.calibration.rewards.dataset import calibrate_from_raw_data as calibrate_from_raw_data
    from cje.calibration.rewards.flexible_calibrator import FlexibleCalibrator as FlexibleCalibrator
    from cje.calibration.rewards.judge import JudgeCalibrator as JudgeCalibrator
    from cje.calibration.rewards.result import CalibrationResult as CalibrationResult
    from cje.calibration.rewards.reward_model import (
        CrossFittedRewardModel as CrossFittedRewardModel,
    )
    from cje.calibration.rewards.reward_model import RewardModel as RewardModel
    from cje.calibration.rewards.reward_model import fit_reward_model as fit_reward_model
    from cje.calibration.rewards.selection import ModeSelection as ModeSelection
    from cje.calibration.weights.influence import projection_influence as projection_influence
    from cje.calibration.weights.oracle_slice import OracleSliceConfig as OracleSliceConfig
    from cje.calibration.weights.oracle_slice import augmentation as augmentation
    from cje.calibration.weights.oracle_slice import labelling_propensity as labelling_propensity
    from cje.calibration.weights.oracle_slice import (
        projected_augmentation as projected_augmentation,
    )
    from cje.calibration.weights.oracle_slice import weight_given_score as weight_given_score
    from cje.calibration.weights.simcal import SIMCalibrator as SIMCalibrator
    from cje.calibration.weights.simcal_config import SimcalConfig as SimcalConfig
    from cje.calibration.weights.target_mean import (
        calibrate_to_target_mean as calibrate_to_target_mean,
    )

_HOME = {
    "calibrate_dataset": "rewards.dataset",
    "calibrate_from_raw_data": "rewards.dataset",
    "FlexibleCalibrator": "rewards.flexible_calibrator",
    "calibrate_to_target_mean": "weights.target_mean",
    "JudgeCalibrator": "rewards.judge",
    "OracleSliceConfig": "weights.oracle_slice",
    "augmentation": "weights.oracle_slice",
    "labelling_propensity": "weights.oracle_slice",
    "projected_augmentation": "weights.oracle_slice",
    "weight_given_score": "weights.oracle_slice",
    "CalibrationResult": "rewards.result",
    "CrossFittedRewardModel": "rewards.reward_model",
    "RewardModel": "rewards.reward_model",
    "fit_reward_model": "rewards.reward_model",
    "ModeSelection": "rewards.selection",
    "SimcalConfig": "weights.simcal_config",
    "SIMCalibrator": "weights.simcal",
    "projection_influence": "weights.influence",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
