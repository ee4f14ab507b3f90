"""Kept import path of a founding document; see `cje.calibration.rewards.flexible_calibrator`."""

from cje.calibration.rewards.flexible_calibrator import *  # noqa: F403
from cje.calibration.rewards.flexible_calibrator import __all__ as __all__
