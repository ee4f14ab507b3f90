"""Estimators by name; each is imported on first use."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.hints import option_hint
from cje.results.estimator_names import DESCRIPTIONS

if TYPE_CHECKING:
    from cje.data import Dataset, PrecomputedSampler
    from cje.data.streaming import StreamedRows

__all__ = ["REGISTRY", "EstimatorEntry", "find_estimator"]

Needs = Literal["fresh", "comparisons", "logged", "both"]


@dataclass(frozen=True)
class EstimatorEntry:
    """Where an estimator lives and what it is built from.

    ``needs`` fixes the constructor: ``"fresh"``: ``Cls(dataset, **options)``; ``"comparisons"``:
    the same with `Comparisons` in place of a Dataset; ``"logged"``:
    ``Cls(sampler, **options)``; ``"both"``: ``Cls(sampler, fresh_draws, **options)``, where
    `sampler` is a PrecomputedSampler and `fresh_draws` a Dataset. `build` calls it. All have
    `fit_and_estimate()`, and `audit()`, which gives the diagnostics and findings alone.
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
        self,
        fresh: Dataset | StreamedRows | Comparisons | None = None,
        logged: Dataset | PrecomputedSampler | None = None,
        **options: Any,
    ) -> Any:
        """The estimator on its data, with further options of its constructor.

        Raises
        ------
        CJEError
            The estimator needs data that were not given.
        """
        if self.needs == "comparisons" or isinstance(fresh, Comparisons):
            self._check_comparisons(fresh)
        if self.needs != "logged" and fresh is None:
            raise CJEError(f"the estimator '{self.name}' needs fresh draws of the policies")
        if self.needs in ("fresh", "comparisons"):
            return self.load()(fresh, **options)
        if logged is None:
            raise CJEError(f"the estimator '{self.name}' needs logged data with log-probs")
        from cje.data.sampler import PrecomputedSampler

        sampler = logged if isinstance(logged, PrecomputedSampler) else PrecomputedSampler(logged)
        given = (sampler,) if self.needs == "logged" else (sampler, fresh)
        return self.load()(*given, **options)

    def _check_comparisons(self, given: Any) -> None:
        """Raise unless comparisons meet the estimator made for them, and other data another one."""
        if self.needs != "comparisons":
            raise CJEError(
                f"the estimator '{self.name}' needs scores of single responses, and these data are "
                "comparisons of two",
                hint=f"use {option_hint('estimator', 'pairwise')}",
            )
        if not isinstance(given, Comparisons):
            raise CJEError(
                f"the estimator '{self.name}' needs comparisons of two responses: a row with two "
                "policies and a winner",
                hint="give such data, or labels of comparisons; for "
                f"scores of single responses use {option_hint('estimator', 'direct')}",
            )


_ENTRIES = (
    EstimatorEntry("naive", "cje.estimators.naive:NaiveEstimator", "fresh"),
    EstimatorEntry("direct", "cje.estimators.direct.estimator:DirectEstimator", "fresh"),
    EstimatorEntry(
        "pairwise", "cje.estimators.pairwise.estimator:PairwiseEstimator", "comparisons"
    ),
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
