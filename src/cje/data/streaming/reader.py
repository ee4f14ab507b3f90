"""`read_streamed`: a Parquet file larger than memory as `StreamedRows`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from cje.data.assemble import Assembly, ValueOptions
from cje.data.codes import Codes
from cje.data.convert import path_expression
from cje.data.dataset import Dataset
from cje.data.field_names import may_be_cluster, may_be_length, may_be_time
from cje.data.field_plan import Plan, Request
from cje.data.fields import Leaf
from cje.data.opening import open_file
from cje.data.pair_layout import looks_pairwise
from cje.data.parquet_footer import unpacked_size
from cje.data.problems import BadRows, Origin, Piece
from cje.data.reader import for_source, merged_notes, plan_source, without_policy
from cje.data.scale import Scale
from cje.data.sources import Opened, Source
from cje.data.streaming.rows import StreamedRows
from cje.data.streaming.scan import NotStreamed, Scan, scan_parquet
from cje.data.tables import ParquetTable
from cje.data.wide import spread
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["STREAM_FROM", "NotStreamed", "announced_rows", "read_streamed"]

STREAM_FROM = 20_000_000
"""Rows from which a Parquet file is read in parts by default; in memory these take 2.5 GB."""
_PART_ROWS = 2_500_000
_BATCH_ROWS = 1_000_000
_REPRESENTED = 5  # rows of a policy with one score; no check of scales asks for more
_ROLES = frozenset({"prompt_id", "policy", "judge_score", "oracle_label", "draw_idx"})


def announced_rows(opened: Any) -> int:
    """Rows that the footer of a single Parquet file announces; zero of any other source."""
    if not isinstance(opened, Opened) or len(opened.sources) != 1:
        return 0
    table = opened.sources[0].table
    if not isinstance(table, ParquetTable):
        return 0
    with open_file(table.path) as stream:
        return unpacked_size(stream, table.name)[0]


def read_streamed(
    opened: Opened,
    *,
    fields: Mapping[str, Any] | None = None,
    judge_scale: Any = None,
    oracle_scale: Any = None,
    repeats: str = "error",
    n_parts: int | None = None,
    batch_rows: int = _BATCH_ROWS,
) -> StreamedRows:
    """Read a Parquet file once, into parts of whole prompts in a temporary folder.

    Parameters
    ----------
    opened : Opened
        One Parquet file, from `open_sources`.
    fields, judge_scale, oracle_scale, repeats
        As in `cje.data.read`.
    n_parts, batch_rows : int, optional
        Parts, 2.5 million rows each by default, and rows read at a time.

    Raises
    ------
    NotStreamed
        The file has something that needs all rows in memory.
    CJEError
        As in `cje.data.read`.
    """
    source, table = _single(opened)
    leaves = table.leaves()
    request = Request(fields=without_policy(fields, None))
    if looks_pairwise({leaf.path[0] for leaf in leaves}, fields):
        raise NotStreamed("comparisons of two responses are not read in parts", where=table.name)
    if spread(source, request, None, _peek(table)) != [source]:
        raise NotStreamed("versions side by side are not read in parts", where=table.name)
    plan = plan_source(leaves, for_source(request, source), table.name, _peek(table))
    _check_plan(plan, leaves, table)
    options = ValueOptions(
        judge_scale=None if judge_scale is None else Scale.parse(judge_scale),
        oracle_scale=None if oracle_scale is None else Scale.parse(oracle_scale),
        number_repeats=repeats == "draws",
    )
    n_parts = n_parts or -(-max(announced_rows(opened), 1) // _PART_ROWS)
    folder = TemporaryDirectory(prefix="cje-", ignore_cleanup_errors=True)
    try:
        scan = scan_parquet(table, plan, Path(folder.name), n_parts=n_parts, batch_rows=batch_rows)
        notes = [*opened.notes, *merged_notes([source], [plan])]
        notes.append(f"read in {n_parts} parts of whole prompts, not all rows in memory")
        return _finished(scan, plan, table, options, notes, folder, n_parts)
    except BaseException:
        folder.cleanup()
        raise


class _LargeTable(ParquetTable):
    """A Parquet file that need not fit into memory."""

    def leaves(self) -> list[Leaf]:
        return self.unchecked_leaves()


def _single(opened: Opened) -> tuple[Source, _LargeTable]:
    """The one Parquet file that was opened."""
    if len(opened.sources) != 1 or not isinstance(opened.sources[0].table, ParquetTable):
        raise NotStreamed(
            "only a single Parquet file can be read in parts",
            value=[source.table.name for source in opened.sources][:3],
            hint="write the rows to one Parquet file",
        )
    given = opened.sources[0]
    assert isinstance(given.table, ParquetTable)
    table = _LargeTable(given.table.path, given.table.name)
    return Source(table, given.policy, explicit=given.explicit), table


def _check_plan(plan: Plan, leaves: list[Leaf], table: ParquetTable) -> None:
    """Raise NotStreamed where a column needs all rows in memory."""
    further = [column for column in plan.columns if column not in _ROLES]
    if further or plan.prompt_from_text:
        raise NotStreamed(
            "these columns cannot be used in parts",
            where=table.name,
            value=further or ["prompts known by their text"],
            hint="write a file with policy, prompt_id, judge_score and oracle_label alone",
        )
    if not {"policy", "oracle_label"} <= set(plan.columns):
        raise NotStreamed(
            "a file read in parts needs a column of policies and one of labels",
            where=table.name,
            value=sorted(plan.columns),
        )
    by_path = {leaf.path: leaf for leaf in leaves}
    text = [
        column
        for column in ("judge_score", "oracle_label", "draw_idx")
        if column in plan.columns and not by_path[plan.columns[column]].only("number", "null")
    ]
    if text:
        raise NotStreamed(
            "these columns must be numbers to be read in parts", where=table.name, value=text,
            hint="write them as numbers",
        )  # fmt: skip
    watched = [
        leaf.display
        for leaf in leaves
        if may_be_cluster(leaf.display) or may_be_length(leaf.display) or may_be_time(leaf.display)
    ]
    if watched:
        raise NotStreamed(
            "labels and errors are checked against these columns, which needs all rows in memory",
            where=table.name,
            value=watched[:5],
            hint="write a file without them",
        )


def _peek(table: ParquetTable) -> Any:
    """Counts of the texts in a column, taken by polars' streaming engine."""

    def peek(leaf: Leaf, *, whole: bool = False) -> Mapping[str, int]:
        with table.explained():
            counts = (
                pl.scan_parquet(table.path)
                .select(path_expression(leaf.path).cast(pl.String).alias("text"))
                .drop_nulls()
                .group_by("text")
                .len()
                .collect(engine="streaming")
            )
        return {str(text): int(n) for text, n in counts.iter_rows()}

    return peek


class _Representatives(Assembly):
    """Each labelled row, and a few rows for each policy and score, standing for all."""

    def scales(self, options: ValueOptions) -> tuple[Scale, Scale]:
        judge = self._scale("judge_score", options.judge_scale)
        self._check_one_scale("judge_score", judge, options.judge_scale)
        oracle = self._scale("oracle_label", options.oracle_scale)
        self._check_one_scale("oracle_label", oracle, options.oracle_scale)
        assert self.policy is not None
        self._check_policies(self.policy, options.min_rows)
        return judge, oracle


def _finished(
    scan: Scan,
    plan: Plan,
    table: ParquetTable,
    options: ValueOptions,
    notes: list[str],
    folder: TemporaryDirectory[str],
    n_parts: int,
) -> StreamedRows:
    """Scales, checks of them, and the labelled rows as a data set."""
    labelled = pl.concat(scan.labelled) if scan.labelled else None
    if labelled is None or not int(scan.n_rows.sum()):
        raise CJEError("the file has no rows", where=table.name)
    scan.labelled = []
    if not labelled.height:
        raise NotStreamed("a file without labels cannot be analyzed in parts", where=table.name)
    if len(scan.policies) < 2:
        raise NotStreamed(
            "a file of one policy cannot be read in parts: whether another column names the "
            "versions is not known without all rows",
            where=table.name,
            value=scan.policies,
        )
    chosen = _represented(scan, plan, table, labelled, notes)
    judge, oracle = chosen.scales(options)
    order = np.argsort(scan.scores)
    counts = scan.counts[:, order]
    rank = np.argsort(order)
    own = labelled["score"].to_numpy()
    np.add.at(counts, (labelled["policy"].to_numpy(), rank[own]), 1)
    draws = labelled["draw"].to_numpy() if "draw" in labelled.columns else None
    data = Dataset.from_arrays(
        prompt_id=Codes.from_series(labelled["prompt"]),
        policy=Codes(labelled["policy"].to_numpy(), tuple(scan.policies)),
        draw_idx=draws,
        judge_score=judge.to_unit(labelled["value"].to_numpy()),
        oracle_label=oracle.to_unit(labelled["label"].to_numpy()),
        judge_scale=judge,
        oracle_scale=oracle,
        metadata={
            "reading": tuple(chosen.notes),
            "columns": {name: ".".join(path) for name, path in plan.columns.items()},
            "sources": {table.name: int(scan.n_rows.sum())},
            "findings": tuple(chosen.findings),
            "unused": tuple(plan.unused),
        },
    )
    return StreamedRows(
        labelled=data,
        labelled_rows=labelled["row"].to_numpy(),
        scores=judge.to_unit(scan.scores[order]),
        counts=counts,
        folder=folder,
        n_parts=n_parts,
        name=table.name,
        repeats_allowed=options.number_repeats,
        row_name=lambda row: f"row {row + 1}",
        policy_path=plan.columns.get("policy"),
        score_rank=rank,
    )


def _represented(
    scan: Scan, plan: Plan, table: ParquetTable, labelled: pl.DataFrame, notes: list[str]
) -> _Representatives:
    """Rows that have every score, label and policy of the file, and how many each stands for."""
    policy, score = np.nonzero(scan.counts)
    counts = scan.counts[policy, score]
    repeat = np.minimum(counts, _REPRESENTED)
    last = np.cumsum(repeat) - 1
    stands_for = np.ones(int(repeat.sum()), dtype=np.int64)
    stands_for[last] = counts - repeat + 1

    def both(own: str, other: IntArray | FloatArray) -> Any:
        return np.concatenate([labelled[own].to_numpy(), np.repeat(other, repeat)])

    row = both("row", scan.first[policy, score])
    n = len(stands_for)
    frame = pl.DataFrame(
        {
            "judge_score": both("value", scan.scores[score]),
            "oracle_label": pl.concat(
                [labelled["label"], pl.Series([None], dtype=pl.Float64).new_from_index(0, n)]
            ),
        }
    )
    origin = Origin([Piece(table.name, int(scan.n_rows.sum()), lambda i: f"row {i + 1}")])
    origin.take(row)
    return _Representatives(
        frame=frame,
        policy=Codes(both("policy", policy), tuple(scan.policies)),
        origin=origin,
        bad=BadRows(skip=False),
        notes=notes,
        paths=plan.columns,
        stands_for=np.concatenate([np.ones(labelled.height, dtype=np.int64), stands_for]),
    )
