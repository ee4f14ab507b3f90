"""Judge score -> calibrated reward: fits, cross-fitting, selection of the mode.

Imports nothing of `cje.calibration.weights`; arrays pass between the two.
"""
