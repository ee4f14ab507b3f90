"""Estimators by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

from cje.errors import CJEError

__all__ = ["REGISTRY", "EstimatorEntry", "find_estimator"]

Needs = Literal["fresh", "logged", "both"]


@dataclass(frozen=True)
class EstimatorEntry:
    """Where an estimator lives and what it is built from.

    ``needs`` fixes the constructor: ``"fresh"``: ``Cls(dataset, **options)``; ``"logged"``:
    ``Cls(sampler, **options)``; ``"both"``: ``Cls(sampler, fresh_draws, **options)``, where
    `sampler` is a PrecomputedSampler and `fresh_draws` a Dataset. All have `fit_and_estimate()`.
    """

    name: str
    home: str
    needs: Needs
    says: str

    def load(self) -> Any:
        """The class."""
        module, _, attribute = self.home.partition(":")
        return getattr(importlib.import_module(module), attribute)


_ENTRIES = (
    EstimatorEntry(
        "naive", "cje.estimators.naive:NaiveEstimator", "fresh", "the judge's mean, uncalibrated"
    ),
    EstimatorEntry(
        "direct",
        "cje.estimators.direct:DirectEstimator",
        "fresh",
        "calibrated mean of fresh draws, rectified by each policy's own labels",
    ),
    EstimatorEntry(
        "ips", "cje.estimators.importance:IPSEstimator", "logged", "importance weighting"
    ),
    EstimatorEntry(
        "snips",
        "cje.estimators.importance:SNIPSEstimator",
        "logged",
        "self-normalised importance weighting",
    ),
    EstimatorEntry(
        "calibrated-ips",
        "cje.estimators.calibrated_ips:CalibratedIPS",
        "logged",
        "importance weighting with weights projected on the judge score",
    ),
    EstimatorEntry(
        "dr-cpo",
        "cje.estimators.doubly_robust:DRCPOEstimator",
        "both",
        "doubly robust: outcome model on fresh draws plus weighted residual",
    ),
    EstimatorEntry(
        "mrdr",
        "cje.estimators.mrdr:MRDREstimator",
        "both",
        "doubly robust, outcome model fitted for least variance",
    ),
    EstimatorEntry(
        "tmle",
        "cje.estimators.tmle:TMLEEstimator",
        "both",
        "doubly robust, outcome model targeted; stays within [0, 1]",
    ),
    EstimatorEntry(
        "tr-cpo",
        "cje.estimators.triply_robust:TRCPOEstimator",
        "both",
        "doubly robust plus a weighted label correction",
    ),
    EstimatorEntry(
        "stacked-dr",
        "cje.estimators.stacked:StackedDREstimator",
        "both",
        "least-variance combination of dr-cpo, mrdr and tmle",
    ),
)
REGISTRY: dict[str, EstimatorEntry] = {entry.name: entry for entry in _ENTRIES}


def find_estimator(name: str) -> EstimatorEntry:
    """The entry of a name, or an error that lists the names."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise CJEError(
            "unknown estimator", value=name, hint=f"choose from auto, {', '.join(REGISTRY)}"
        ) from None
