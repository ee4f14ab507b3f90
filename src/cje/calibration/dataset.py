"""Kept import path of a founding document; see `cje.calibration.rewards.dataset`."""

from cje.calibration.rewards.dataset import *  # noqa: F403
from cje.calibration.rewards.dataset import __all__ as __all__
