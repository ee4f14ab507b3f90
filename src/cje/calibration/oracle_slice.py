"""Kept import path of a founding document; see `cje.calibration.weights.oracle_slice`."""

from cje.calibration.weights.oracle_slice import *  # noqa: F403
from cje.calibration.weights.oracle_slice import __all__ as __all__
