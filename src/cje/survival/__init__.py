"""Calibration of survival models: O/E, slope, ICI and the experiment around them (seed 003)."""
