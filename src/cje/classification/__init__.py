"""Top-label calibration of classifiers and calibration metrics (seed 004)."""
