"""A phrase on what each estimator computes, for reports, listings and help."""

from __future__ import annotations

__all__ = ["DESCRIPTIONS"]

DESCRIPTIONS: dict[str, str] = {
    "naive": "the judge's mean, uncalibrated",
    "direct": "calibrated mean of fresh draws, rectified by each policy's own labels",
    "pairwise": "win rates from the judge's comparisons, rectified by human ones",
    "ips": "importance weighting",
    "snips": "self-normalised importance weighting",
    "calibrated-ips": "importance weighting with weights projected on the judge score",
    "dr-cpo": "doubly robust: outcome model on fresh draws plus weighted residual",
    "mrdr": "doubly robust, outcome model fitted for least variance",
    "tmle": "doubly robust, outcome model targeted; stays within [0, 1]",
    "tr-cpo": "doubly robust plus a weighted label correction",
    "stacked-dr": "least-variance combination of dr-cpo, mrdr and tmle",
}
