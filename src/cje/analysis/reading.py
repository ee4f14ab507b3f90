"""The data sets of one analysis, read from whatever the caller gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cje.analysis.inputs import as_table, read_source
from cje.analysis.pairs import comparisons_of
from cje.analysis.selection import cluster_columns, factor_columns
from cje.data.comparisons import Comparisons
from cje.data.dataset import Dataset
from cje.data.sources import Opened, open_sources
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.findings import Finding

__all__ = ["Inputs", "read_inputs"]


@dataclass(frozen=True)
class Inputs:
    """The data sets of one analysis; any may be absent."""

    fresh: Dataset | Comparisons | None
    logged: Dataset | None
    calibration: Dataset | None

    @property
    def present(self) -> tuple[Dataset | Comparisons, ...]:
        """The data sets that are there."""
        parts = (self.fresh, self.logged, self.calibration)
        return tuple(part for part in parts if part is not None)

    @property
    def n_labels(self) -> int:
        """Labels of all data sets together."""
        return sum(part.n_labelled for part in self.present)

    def labelled_elsewhere(self) -> tuple[Dataset, ...]:
        """Labelled rows outside the fresh draws: of the calibration file, and logged ones."""
        return tuple(
            part.select(part.is_labelled)
            for part in (self.calibration, self.logged)
            if part is not None and part.n_labelled
        )

    def findings(self) -> list[Finding]:
        """Findings of the readers, each once."""
        found = [f for part in self.present for f in part.metadata.get("findings", ())]
        return list({(f.code, f.message): f for f in found}.values())

    def skipped(self) -> dict[str, int]:
        """Rows and labels that the readers left out, of all data sets together."""
        counts: Counter[str] = Counter()
        for part in self.present:
            counts.update(part.metadata.get("skipped", {}))
        return dict(counts)

    def readings(self) -> dict[str, list[str]]:
        """What the readers recognised and assumed, by role."""
        parts = {"fresh": self.fresh, "logged": self.logged, "calibration": self.calibration}
        notes = {
            role: list(part.metadata.get("reading", ()))
            for role, part in parts.items()
            if part is not None
        }
        return {role: text for role, text in notes.items() if text}


def read_inputs(
    fresh: Any,
    folder: str | Path | None,
    logged: Any,
    calibration: Any,
    *,
    estimator: str,
    groups: list[str],
    reading: dict[str, Any],
    joined: dict[str, Any],
) -> Inputs:
    """Read the sources of an analysis; the labels `joined` belong to the fresh draws, if any."""
    draws = _fresh(fresh, folder, groups, {**reading, **joined}, estimator)
    # Logged rows that only teach the calibration need no subgroup column.
    off_policy = draws is None or (
        estimator != "auto" and find_estimator(estimator).needs != "fresh"
    )
    log_reading = {**reading, **(joined if draws is None else {})}
    log = _logged(logged, groups if off_policy else [], log_reading)
    return Inputs(draws, log, read_source(calibration, **reading))


def _fresh(
    data: Any, folder: str | Path | None, groups: list[str], reading: dict[str, Any], estimator: str
) -> Dataset | Comparisons | None:
    if data is not None and folder is not None:
        raise CJEError("give fresh_draws_data or fresh_draws_dir, not both")
    source = data if folder is None else folder
    if source is not None and not isinstance(source, Dataset | Comparisons):
        source = as_table(source)
        if not isinstance(source, Mapping):  # a table per policy is never a comparison
            source = open_sources(
                source, None, reading["sheet"], skip_bad_rows=reading["skip_bad_rows"]
            )
    found = comparisons_of(source, groups, reading, estimator)
    if found is not None:
        return found
    if isinstance(source, Opened):
        taken = {*groups, *_named(reading["fields"])}
        groups = [*groups, *(c for c in _shared(source, cluster_columns) if c not in taken)]
        reading = _watched(source, reading)
    return read_source(source, groups=groups, **reading)


def _logged(source: Any, groups: list[str], reading: dict[str, Any]) -> Dataset | None:
    """Logged rows with the lengths for the checks of the weights; a `Dataset` stays as it is."""
    if source is None or isinstance(source, Dataset | Mapping):
        return read_source(source, groups=groups, **reading)
    opened = open_sources(source, None, reading["sheet"], skip_bad_rows=reading["skip_bad_rows"])
    return read_source(opened, groups=groups, **_watched(opened, reading))


def _named(fields: Mapping[str, Any] | None) -> set[str]:
    """Columns to which the caller gave a role."""
    columns: set[str] = set()
    for given in (fields or {}).values():
        several = given.values() if isinstance(given, Mapping) else given
        columns |= {str(given)} if isinstance(given, str) else set(map(str, several or ()))
    return columns


def _shared(opened: Opened, columns: Callable[[Any], list[str]]) -> list[str]:
    """Columns that `columns` finds in every source."""
    names = [set(columns(part)) for part in opened.sources]
    return sorted(set.intersection(*names)) if names else []


def _watched(opened: Opened, reading: dict[str, Any]) -> dict[str, Any]:
    """Add the lengths and times that labelling and weights are checked against."""
    taken = {*reading["covariates"], *_named(reading["fields"])}
    extra = [name for name in _shared(opened, factor_columns) if name not in taken]
    return reading | {"covariates": (*reading["covariates"], *extra)}
