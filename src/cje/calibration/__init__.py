"""Judge score -> oracle scale, and importance-weight stabilisation.

Rewards and weights are separate: neither imports the other, arrays pass between them. Names load on
first use, so that an estimator that needs `fit_reward_model` does not pay for scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.calibration.dataset import calibrate_dataset as calibrate_dataset
    from cje.calibration.dataset import calibrate_from_raw_data as calibrate_from_raw_data
    from cje.calibration.flexible_calibrator import FlexibleCalibrator as FlexibleCalibrator
    from cje.calibration.influence import projection_influence as projection_influence
    from cje.calibration.isotonic import calibrate_to_target_mean as calibrate_to_target_mean
    from cje.calibration.judge import JudgeCalibrator as JudgeCalibrator
    from cje.calibration.oracle_slice import OracleSliceConfig as OracleSliceConfig
    from cje.calibration.oracle_slice import augmentation as augmentation
    from cje.calibration.oracle_slice import labelling_propensity as labelling_propensity
    from cje.calibration.oracle_slice import projected_augmentation as projected_augmentation
    from cje.calibration.oracle_slice import weight_given_score as weight_given_score
    from cje.calibration.result import CalibrationResult as CalibrationResult
    from cje.calibration.reward_model import CrossFittedRewardModel as CrossFittedRewardModel
    from cje.calibration.reward_model import RewardModel as RewardModel
    from cje.calibration.reward_model import fit_reward_model as fit_reward_model
    from cje.calibration.selection import ModeSelection as ModeSelection
    from cje.calibration.simcal import SimcalConfig as SimcalConfig
    from cje.calibration.simcal import SIMCalibrator as SIMCalibrator

_HOME = {
    "calibrate_dataset": "dataset",
    "calibrate_from_raw_data": "dataset",
    "FlexibleCalibrator": "flexible_calibrator",
    "calibrate_to_target_mean": "isotonic",
    "JudgeCalibrator": "judge",
    "OracleSliceConfig": "oracle_slice",
    "augmentation": "oracle_slice",
    "labelling_propensity": "oracle_slice",
    "projected_augmentation": "oracle_slice",
    "weight_given_score": "oracle_slice",
    "CalibrationResult": "result",
    "CrossFittedRewardModel": "reward_model",
    "RewardModel": "reward_model",
    "fit_reward_model": "reward_model",
    "ModeSelection": "selection",
    "SimcalConfig": "simcal",
    "SIMCalibrator": "simcal",
    "projection_influence": "influence",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
