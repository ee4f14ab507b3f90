"""The rows of a file that is read in parts of whole prompts.

`first_pass` takes what needs no prediction. The second pass over the parts turns the fitted values
of the distinct scores into the influence of every prompt. Between the passes the computation is
that of a data set in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from cje.data.codes import Codes, Strings
from cje.data.dataset import Dataset
from cje.data.streaming import NotStreamed, StreamedRows
from cje.diagnostics.label_choice import random_gap, score_gap_findings
from cje.diagnostics.labelling import LabellingTest, mid_rank, rank_test
from cje.diagnostics.selection import SelectionCheck, can_check, dependences
from cje.estimators.direct.cells import Cell, CellRows, Scores
from cje.estimators.direct.first_pass import Totals, first_pass
from cje.estimators.direct.sample import PromptCounts, Sample
from cje.estimators.direct.selection import place_findings
from cje.findings import Finding
from cje.findings.labels import LABELS_MODELLED, LABELS_NOT_RANDOM
from cje.hints import by_interface
from cje.inference.folded import FoldedClusters
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["StreamedSample"]

_MOST_KEPT = 16_000_000
"""Entries of an influence matrix that is kept whole (128 MB); beyond, prompts without labels are
folded into the sums that intervals need."""
_FOLDED_AT_ONCE = 4_000_000
"""Entries of the differences of all policies that are folded at a time (32 MB)."""


class StreamedSample:
    """See `Sample`; `data` holds the labelled rows."""

    def __init__(self, rows: StreamedRows, *, most_kept: int = _MOST_KEPT) -> None:
        self.rows = rows
        self.data: Dataset = rows.labelled
        self._most_kept = most_kept

    @property
    def policies(self) -> Codes:
        return self.data.policy

    @property
    def constant_score(self) -> bool:
        return bool(np.count_nonzero(self.rows.counts.sum(axis=0)) == 1)

    @property
    def _shape(self) -> tuple[int, int]:
        k, d = self.rows.counts.shape
        return int(k), int(d)

    @cached_property
    def _totals(self) -> Totals:
        return first_pass(self.rows, self._most_kept)

    # ---- clusters -------------------------------------------------------------------------------

    @property
    def _whole(self) -> bool:
        """Whether the influence of every prompt is kept."""
        return self._totals.names is not None

    @cached_property
    def _order(self) -> IntArray:
        """Prompts in order of first appearance in the file."""
        return np.argsort(self._totals.first_rows)

    @cached_property
    def units(self) -> Codes:
        """The labelled rows' prompts: among all in order of appearance, or among the labelled."""
        if self._totals.names is None:
            return self.data.prompt_id
        place = np.empty(len(self._order), dtype=np.int64)
        place[self._order] = np.arange(len(place))
        names = Strings(self._totals.names.gather(self._order))
        return Codes(place[self._totals.label_prompt], names)

    @property
    def unit_names(self) -> Sequence[str] | None:
        return self.units.vocabulary if self._whole else None

    # ---- cells and influence --------------------------------------------------------------------

    def cells(
        self, cells: Codes, x: FloatArray | None, offset: FloatArray | None
    ) -> list[CellRows]:
        found, totals = [], self._totals
        for k, n in enumerate(totals.prompts.tolist()):
            entry = np.flatnonzero(totals.share[k])
            own = np.flatnonzero(self.policies.codes == k)
            found.append(
                CellRows(
                    Scores(self.rows.scores[entry]),
                    totals.share[k, entry] / n,
                    totals.square[k, entry] / n**2,
                    Scores(self.data.judge_score[own]),
                    totals.label_share[own] / n,
                    int(self.rows.counts[k].sum()),
                )
            )
        return found

    def influence(
        self, cells: Sequence[Cell], by: Codes
    ) -> tuple[FloatArray, FoldedClusters | None]:
        totals = self._totals
        g, k = int(totals.starts[-1]), len(cells)
        if not self._whole:
            return self._folded_influence(cells)
        out = np.empty((g, k))
        for number, part in self._parts_influence(cells):
            out[totals.starts[number] : totals.starts[number + 1]] = part
        return out[self._order], None

    def _folded_influence(self, cells: Sequence[Cell]) -> tuple[FloatArray, FoldedClusters]:
        """Influence of the prompts with labels; the others folded into sums."""
        totals, codes = self._totals, self.data.prompt_id
        out = np.zeros((codes.n_names, len(cells)))
        folded = FoldedClusters.of(np.zeros((0, len(cells))))
        for number, part in self._parts_influence(cells):
            at = self._labels_of(number)
            local = totals.label_prompt[at] - totals.starts[number]
            out[codes.codes[at]] = part[local]
            rest = np.ones(len(part), dtype=bool)
            rest[local] = False
            free, step = part[rest], max(_FOLDED_AT_ONCE // len(folded.rows), 1)
            for start in range(0, len(free), step):
                folded = folded + FoldedClusters.of(free[start : start + step])
        return out, folded

    def _labels_of(self, number: int) -> IntArray:
        """Labelled rows whose prompts lie in a part."""
        start, stop = self._totals.starts[number : number + 2]
        prompt = self._totals.label_prompt
        return np.flatnonzero((prompt >= start) & (prompt < stop))

    def _parts_influence(self, cells: Sequence[Cell]) -> Iterator[tuple[int, FloatArray]]:
        """Number of each part, and the influence (prompts of the part, K)."""
        (k, d), totals = self._shape, self._totals
        by_share, at_labels = np.zeros((k, d)), np.zeros(len(self.data))
        for code, cell in enumerate(cells):
            entry = np.flatnonzero(totals.share[code])
            by_share[code, entry] = cell.by_score / totals.prompts[code]
            at_labels[self.policies.codes == code] = cell.at_labels
        policy_of = np.repeat(np.arange(k), d)
        for number in range(self.rows.n_parts):
            g = int(totals.starts[number + 1] - totals.starts[number])
            if not g:
                continue
            prompt, key, count = np.load(self.rows.scratch(number, "npy"))
            place = prompt.astype(np.int64) * k + policy_of[key]
            sums: FloatArray = np.zeros(g * k)
            sums += np.bincount(place, by_share.ravel()[key] / count, g * k)
            at = self._labels_of(number)
            local = (totals.label_prompt[at] - totals.starts[number]) * k
            sums += np.bincount(local + self.policies.codes[at], at_labels[at], g * k)
            yield number, sums.reshape(g, k)

    # ---- what the labels are checked against ----------------------------------------------------

    def check_labelling(self) -> tuple[Sample, Mapping[str, SelectionCheck]]:
        checks = {}
        for k, policy in enumerate(self.rows.policies):
            n, own = int(self.rows.counts[k].sum()), np.flatnonzero(self.policies.codes == k)
            if not len(own):
                continue
            if not can_check(len(own), n):
                checks[policy] = SelectionCheck(())
                continue
            tests = self._score_tests(k, own, n)
            if dependences(tests, LABELS_MODELLED):
                raise NotStreamed(
                    "labelling depends on the judge score, and modelling that needs all rows in "
                    "memory",
                    value=policy,
                    hint="read the file in memory: "
                    + by_interface('engine="memory"', "--engine memory"),
                )
            place = self._totals.gaps[k]["place"].chance_gap()
            checks[policy] = SelectionCheck(("judge score",), tests, position=place)
        return self, checks

    def _score_tests(self, k: int, own: IntArray, n: int) -> tuple[LabellingTest, ...]:
        """The test of the labels of policy k against the judge score, where that varies."""
        counts = self.rows.counts[k]
        if np.count_nonzero(counts) < 2:
            return ()
        rank = mid_rank(counts)[np.searchsorted(self.rows.scores, self.data.judge_score[own])]
        gap = self._totals.gaps[k]["rank"].chance_gap()
        effect, p = rank_test(gap, float(rank.mean()), n, len(own))
        return (LabellingTest("judge score", effect, p, p),)

    def label_choice(self) -> list[Finding]:
        found: list[Finding] = []
        for k, policy in enumerate(self.rows.policies):
            counts, labels = self.rows.counts[k], int(np.count_nonzero(self.policies.codes == k))
            n, varies = int(counts.sum()), np.count_nonzero(counts) > 1
            if LABELS_NOT_RANDOM["labels_needed"] <= labels < n and varies:
                gap, p = random_gap(self._totals.gaps[k]["score"].chance_gap())
                found += score_gap_findings(
                    policy, self.rows.judge_scale.width * gap, p, n_rows=n, how="at random"
                )
        return found

    def label_order(self, checks: Mapping[str, SelectionCheck]) -> list[Finding]:
        found: list[Finding] = []
        for k, policy in enumerate(self.rows.policies):
            check = checks.get(policy)
            if check is not None and check.position is not None:
                position = float(self._totals.label_place[self.policies.codes == k].mean())
                found += place_findings(policy, check.position, position)
        return found

    def scores_of(self, policy: str) -> tuple[FloatArray, FloatArray]:
        counts = self.rows.counts[self.policies.code_of(policy)]
        entry = np.flatnonzero(counts)
        return self.rows.scores[entry], counts[entry].astype(np.float64)

    def check_mode(self, mode: str) -> None:
        if mode == "monotone":
            raise NotStreamed(
                "the monotone mode ranks all scores, which needs them in memory",
                hint="leave mode out, or read the file in memory: "
                + by_interface('engine="memory"', "--engine memory"),
            )

    def prompt_counts(self) -> PromptCounts:
        return PromptCounts(self._totals.prompts, self._totals.shared)
