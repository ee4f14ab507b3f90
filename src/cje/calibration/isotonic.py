"""Kept import path of a founding document; see `cje.calibration.weights.target_mean`."""

from cje.calibration.weights.target_mean import *  # noqa: F403
from cje.calibration.weights.target_mean import __all__ as __all__
