"""Estimators by name; each is imported on first use."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cje.errors import CJEError
from cje.results.estimator_names import DESCRIPTIONS

if TYPE_CHECKING:
    from cje.data import Dataset, PrecomputedSampler

__all__ = ["REGISTRY", "EstimatorEntry", "find_estimator"]

Needs = Literal["fresh", "logged", "both"]


@dataclass(frozen=True)
class EstimatorEntry:
    """Where an estimator lives and what it is built from.

    ``needs`` says what `build` passes on: ``"fresh"``: ``Cls(fresh, **options)``; ``"logged"``:
    ``Cls(sampler, **options)``; ``"both"``: ``Cls(sampler, fresh, **options)``. All have
    `fit_and_estimate()`.
    """

    name: str
    home: str
    needs: Needs

    @property
    def description(self) -> str:
        """What the estimator computes, in one phrase."""
        return DESCRIPTIONS[self.name]

    def load(self) -> Any:
        """The class."""
        module, _, attribute = self.home.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def build(
        self, fresh: Dataset | None, sampler: PrecomputedSampler | None, **options: Any
    ) -> Any:
        """The estimator on the data it needs; the one place where a constructor is called.

        Raises
        ------
        CJEError
            Where the data it needs are absent.
        """
        given = {"fresh": (fresh,), "logged": (sampler,), "both": (sampler, fresh)}[self.needs]
        if any(part is None for part in given):
            needed = {
                "fresh": "fresh draws",
                "logged": "logged data with log-probs",
                "both": "logged data with log-probs and fresh draws",
            }[self.needs]
            raise CJEError(f"the estimator '{self.name}' needs {needed}")
        return self.load()(*given, **options)


_ENTRIES = (
    EstimatorEntry("naive", "cje.estimators.naive:NaiveEstimator", "fresh"),
    EstimatorEntry("direct", "cje.estimators.direct.estimator:DirectEstimator", "fresh"),
    EstimatorEntry("ips", "cje.estimators.offpolicy.importance:IPSEstimator", "logged"),
    EstimatorEntry("snips", "cje.estimators.offpolicy.importance:SNIPSEstimator", "logged"),
    EstimatorEntry(
        "calibrated-ips", "cje.estimators.offpolicy.calibrated_ips:CalibratedIPS", "logged"
    ),
    EstimatorEntry("dr-cpo", "cje.estimators.offpolicy.doubly_robust:DRCPOEstimator", "both"),
    EstimatorEntry("mrdr", "cje.estimators.offpolicy.mrdr:MRDREstimator", "both"),
    EstimatorEntry("tmle", "cje.estimators.offpolicy.tmle:TMLEEstimator", "both"),
    EstimatorEntry("tr-cpo", "cje.estimators.offpolicy.triply_robust:TRCPOEstimator", "both"),
    EstimatorEntry("stacked-dr", "cje.estimators.offpolicy.stacked:StackedDREstimator", "both"),
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
