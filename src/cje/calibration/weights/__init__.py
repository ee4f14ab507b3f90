"""Importance-weight stabilisation: SIMCal, target means, the oracle slice.

Imports nothing of `cje.calibration.rewards`; arrays pass between the two.
"""
