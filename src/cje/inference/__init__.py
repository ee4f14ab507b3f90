"""Influence algebra, intervals, bootstrap and jackknife; `CalibrationCurve` and `Finding`."""
