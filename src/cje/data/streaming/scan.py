"""One pass over a Parquet file in batches: rows into parts by a hash of the prompt.

Every batch goes through the conversions and checks that a file in memory goes through. What is kept
in memory are the labelled rows and a count per policy and distinct score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from cje.data.assemble import Assembly
from cje.data.codes import Codes
from cje.data.convert import path_expression
from cje.data.field_plan import Plan
from cje.data.problems import BadRows, Origin, Piece
from cje.data.tables import Loaded, ParquetTable
from cje.errors import CJEError
from cje.hints import by_interface
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["MOST_SCORES", "NotStreamed", "Scan", "scan_parquet"]

MOST_SCORES = 4_096
"""Distinct judge scores of a file that is read in parts: a count of each per policy is kept."""
_MOST_POLICIES = 100  # the differences of all pairs are kept as sums


class NotStreamed(CJEError):
    """The data, or the question, need all rows in memory."""


class _Batch(Assembly):
    """Some rows of the file, checked as the rows of any file are."""

    def checked(self) -> pl.DataFrame:
        self._check_names()
        self._check_finite(("judge_score",))
        return self.frame


@dataclass
class Scan:
    """Result of one pass, in the user's own units.

    Attributes
    ----------
    policies : list of str
        In order of first appearance.
    scores : float array (D,)
        Distinct scores, in order of discovery.
    counts, first : int array (K, D)
        Rows without a label, and the first of them.
    n_rows : int array (K,)
        Rows of each policy.
    labelled : list of DataFrame
        The labelled rows of each batch.
    """

    policies: list[str] = field(default_factory=list)
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    counts: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    first: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    n_rows: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    labelled: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, start: int) -> pl.DataFrame:
        """Add a batch that begins at a row of the file; return its rows in coded form."""
        policy = self._policy_codes(frame["policy"])
        scores = frame["judge_score"].to_numpy()
        score = self._score_codes(scores)
        row = start + np.arange(frame.height)
        label = (
            frame["oracle_label"]
            if "oracle_label" in frame.columns
            else pl.Series([None], dtype=pl.Float64).new_from_index(0, frame.height)
        )
        has = label.is_not_null()
        self._count(policy, score, row, ~has.to_numpy())
        coded = pl.DataFrame(
            {
                "prompt": frame["prompt_id"].cast(pl.String),
                "policy": pl.Series(policy).cast(pl.UInt16),
                "score": pl.Series(score).cast(pl.UInt16),
                "row": row,
                "place": self._places(policy),
                "labelled": has,
            }
        )
        if "draw_idx" in frame.columns:
            coded = coded.with_columns(frame["draw_idx"].alias("draw"))
        extra = coded.with_columns(label.alias("label"), frame["judge_score"].alias("value"))
        self.labelled.append(extra.filter(has))
        return coded

    def _policy_codes(self, names: pl.Series) -> IntArray:
        found = Codes.from_series(names)
        known = {name: code for code, name in enumerate(self.policies)}
        code = [known.setdefault(name, len(known)) for name in found.names]
        self.policies = list(known)
        if len(known) > _MOST_POLICIES:
            raise NotStreamed(
                f"more than {_MOST_POLICIES:,} policies cannot be analyzed in parts",
                hint="is this column the policy?",
            )
        return np.array(code, dtype=np.int64)[found.codes]

    def _score_codes(self, values: FloatArray) -> IntArray:
        """Positions among the distinct scores; new ones are added."""
        while True:
            order = np.argsort(self.scores)
            ordered = self.scores[order]
            at = np.minimum(np.searchsorted(ordered, values), max(len(ordered) - 1, 0))
            new = ordered[at] != values if len(ordered) else np.ones(len(values), dtype=bool)
            if not new.any():
                return order[at]
            self.scores = np.concatenate([self.scores, np.unique(values[new])])
            if len(self.scores) > MOST_SCORES:
                raise NotStreamed(
                    f"the judge scores have more than {MOST_SCORES:,} distinct values, too many "
                    "to count in parts",
                    hint="round them, or read the file in memory: "
                    + by_interface('engine="memory"', "--engine memory"),
                )

    def _count(self, policy: IntArray, score: IntArray, row: IntArray, plain: FloatArray) -> None:
        shape = len(self.policies), len(self.scores)
        grown = [(0, new - old) for new, old in zip(shape, self.counts.shape, strict=True)]
        self.counts = np.pad(self.counts, grown)
        self.first = np.pad(self.first, grown, constant_values=np.iinfo(np.int64).max)
        key = (policy * shape[1] + score)[plain]
        self.counts += np.bincount(key, minlength=shape[0] * shape[1]).reshape(shape)
        at = np.full(shape[0] * shape[1], np.iinfo(np.int64).max)
        at[key[::-1]] = row[plain][::-1]
        self.first = np.minimum(self.first, at.reshape(shape))

    def _places(self, policy: IntArray) -> IntArray:
        """Position of each row among the rows of its policy so far."""
        counts = np.bincount(policy, minlength=len(self.policies))
        before = np.pad(self.n_rows, (0, len(self.policies) - len(self.n_rows)))
        order = np.argsort(policy.astype(np.uint16), kind="stable")
        within = np.arange(len(policy)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = np.empty(len(policy), dtype=np.int64)
        place[order] = within + np.repeat(before, counts)
        self.n_rows = before + counts
        return place


def scan_parquet(
    table: ParquetTable, plan: Plan, folder: Path, *, n_parts: int, batch_rows: int
) -> Scan:
    """Read the file once, its rows into `n_parts` folders by a hash of their prompt.

    Raises
    ------
    CJEError
        A row that a file in memory would be refused for, with its place.
    NotStreamed
        Too many distinct scores or policies.
    """
    scan = Scan()
    for number in range(n_parts):
        (folder / str(number)).mkdir()
    start = 0
    for batch, raw in enumerate(_batches(table, plan, batch_rows)):
        coded = scan.add(_checked(raw, table, plan, start), start)
        start += raw.height
        at = (coded["prompt"].hash(seed=0) % n_parts).cast(pl.UInt32).alias("part")
        pieces = coded.with_columns(at).partition_by(
            "part", as_dict=True, include_key=False, maintain_order=True
        )
        for (part,), rows in pieces.items():
            rows.write_ipc(folder / str(part) / f"{batch:06d}.ipc", compression="lz4")
    return scan


def _batches(table: ParquetTable, plan: Plan, batch_rows: int) -> Iterator[pl.DataFrame]:
    """The plan's columns of the file, some rows at a time, in order."""
    query = pl.scan_parquet(table.path).select(
        path_expression(path).alias(column) for column, path in plan.columns.items()
    )
    with table.explained():
        yield from query.collect_batches(
            chunk_size=batch_rows, maintain_order=True, engine="streaming"
        )


def _checked(raw: pl.DataFrame, table: ParquetTable, plan: Plan, start: int) -> pl.DataFrame:
    def row_name(i: int) -> str:
        return f"row {start + i + 1}"

    bad = BadRows(skip=False)
    loaded = Loaded.from_frame(raw, plan, bad, table.name, row_name)
    origin = Origin([Piece(table.name, raw.height, row_name)])
    return _Batch(
        frame=loaded.frame, policy=None, origin=origin, bad=bad, paths=plan.columns
    ).checked()
