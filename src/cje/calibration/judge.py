"""Kept import path of a founding document; see `cje.calibration.rewards.judge`."""

from cje.calibration.rewards.judge import *  # noqa: F403
from cje.calibration.rewards.judge import __all__ as __all__
