"""The rows as the direct estimator needs them: labelled ones singly, others as weighted scores.

Values, slopes and trials depend on the rows without a label only through sums of their weights over
equal scores (and covariates). A data set in memory passes its rows as they are; one that is read in
parts passes each distinct score once. The formulas are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.diagnostics import label_choice_findings
from cje.diagnostics.selection import SelectionCheck
from cje.estimators.direct.cells import Cell, CellRows, Scores
from cje.estimators.direct.selection import check_labelling, order_findings
from cje.estimators.rows import draw_weights, require_scores
from cje.findings import Finding
from cje.inference.folded import FoldedClusters
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

if TYPE_CHECKING:
    from cje.data.streaming import StreamedRows

__all__ = ["MemorySample", "PromptCounts", "Sample", "sample_of"]


@dataclass(frozen=True)
class PromptCounts:
    """Prompts per policy that has rows, and those that every one of them has."""

    per_policy: IntArray
    shared: int


class Sample(Protocol):
    """The rows of one evaluation, in memory or read in parts."""

    @property
    def data(self) -> Dataset:
        """The rows that are kept, all labelled ones among them."""

    @property
    def units(self) -> Codes:
        """The cluster of each row of `data`, by its place in the influence matrix."""

    @property
    def policies(self) -> Codes:
        """The policy of each row of `data`; every policy that has rows is in the vocabulary."""

    @property
    def unit_names(self) -> Sequence[str] | None:
        """Names of the clusters; None where they are too many to keep."""

    @property
    def constant_score(self) -> bool:
        """Whether every row has the same judge score."""

    def cells(
        self, cells: Codes, x: FloatArray | None, offset: FloatArray | None
    ) -> list[CellRows]:
        """The rows of each cell, with covariates and an addition to each row's prediction."""

    def influence(
        self, cells: Sequence[Cell], by: Codes
    ) -> tuple[FloatArray, FoldedClusters | None]:
        """Influence (units, K) of the cells `by`, and the clusters that were folded into sums."""

    def check_labelling(self) -> tuple[Sample, Mapping[str, SelectionCheck]]:
        """Whether labels were selected; the sample with modelled propensities where they were."""

    def label_choice(self) -> list[Finding]:
        """Labelled rows with other scores than the stated way of choosing them gives."""

    def label_order(self, checks: Mapping[str, SelectionCheck]) -> list[Finding]:
        """Policies whose labels lie in one part of the file."""

    def scores_of(self, policy: str) -> tuple[FloatArray, FloatArray]:
        """The judge scores of a policy, and how many rows each stands for."""

    def check_mode(self, mode: str) -> None:
        """Raise NotStreamed where the calibration mode needs all rows in memory."""

    def prompt_counts(self) -> PromptCounts:
        """How far the policies share their prompts."""


class MemorySample:
    """The rows of a `Dataset` in memory."""

    def __init__(self, data: Dataset) -> None:
        require_scores(data, "direct")
        self.data = data
        self._last: tuple[Codes, list[tuple[IntArray, IntArray]]] | None = None

    @cached_property
    def units(self) -> Codes:
        return self.data.units.compact()

    @cached_property
    def policies(self) -> Codes:
        return self.data.policy.compact()

    @property
    def unit_names(self) -> Sequence[str]:
        return self.units.vocabulary

    @property
    def constant_score(self) -> bool:
        return float(np.ptp(self.data.judge_score)) == 0.0

    def cells(
        self, cells: Codes, x: FloatArray | None, offset: FloatArray | None
    ) -> list[CellRows]:
        weights = draw_weights(self.data, cells)

        def scores(rows: IntArray) -> Scores:
            at = (None if column is None else column[rows] for column in (x, offset))
            return Scores(self.data.judge_score[rows], *at)

        def cell(rows: IntArray, own: IntArray) -> CellRows:
            n = len(rows) + len(own)
            u, at_labels = (
                np.full(len(part), 1.0 / n) if weights is None else weights[part]
                for part in (rows, own)
            )
            return CellRows(scores(rows), u, u**2, scores(own), at_labels, n)

        return [cell(*rows) for rows in self._rows(cells)]

    def _rows(self, cells: Codes) -> list[tuple[IntArray, IntArray]]:
        """Rows without and with a label, of each cell; those of the last cells are kept."""
        if self._last is None or self._last[0] is not cells:
            labelled = self.data.is_labelled
            found = []
            for k in range(cells.n_names):
                rows = np.flatnonzero(cells.codes == k)
                has = labelled[rows]
                found.append((rows[~has], rows[has]))
            self._last = cells, found
        return self._last[1]

    def influence(
        self, cells: Sequence[Cell], by: Codes
    ) -> tuple[FloatArray, FoldedClusters | None]:
        units = self.units
        out = np.zeros((units.n_names, len(cells)))
        for k, ((rows, own), cell) in enumerate(zip(self._rows(by), cells, strict=True)):
            out[:, k] = cluster_sums(
                cell.rows.weight * cell.by_score, units.codes[rows], units.n_names
            )
            out[:, k] += cluster_sums(cell.at_labels, units.codes[own], units.n_names)
        return out, None

    def check_labelling(self) -> tuple[Sample, Mapping[str, SelectionCheck]]:
        data, checks = check_labelling(self.data)
        return (self if data is self.data else MemorySample(data)), checks

    def label_choice(self) -> list[Finding]:
        return label_choice_findings(self.data)

    def label_order(self, checks: Mapping[str, SelectionCheck]) -> list[Finding]:
        return order_findings(self.data, checks)

    def scores_of(self, policy: str) -> tuple[FloatArray, FloatArray]:
        found = self.data.judge_score[self.data.policy.mask(policy)]
        return found, np.ones(len(found))

    def check_mode(self, mode: str) -> None:
        """Every mode is possible."""

    def prompt_counts(self) -> PromptCounts:
        policy, prompt = self.data.policy, self.data.prompt_id
        seen = np.zeros((policy.n_names, prompt.n_names), dtype=bool)
        seen[policy.codes, prompt.codes] = True
        counts = seen.sum(axis=1)
        return PromptCounts(counts[counts > 0], int(seen[counts > 0].all(axis=0).sum()))


def sample_of(given: Dataset | StreamedRows, others: Sequence[Dataset]) -> Sample:
    """The sample of a `Dataset`, or of a file that is read in parts.

    Raises
    ------
    NotStreamed
        For a file read in parts with further labels, whose prompts may be any of its own.
    """
    if isinstance(given, Dataset):
        return MemorySample(given)
    from cje.data.streaming import NotStreamed
    from cje.estimators.direct.streamed_sample import StreamedSample

    if others:
        raise NotStreamed(
            "further labels cannot calibrate a file that is read in parts", value=len(others),
            hint="put the labels into the file",
        )  # fmt: skip
    return StreamedSample(given)
