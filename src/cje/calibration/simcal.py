"""Kept import path of a founding document; see `cje.calibration.weights.simcal`."""

from cje.calibration.weights.simcal import *  # noqa: F403
from cje.calibration.weights.simcal import __all__ as __all__
