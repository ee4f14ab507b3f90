"""Pairwise estimation in a run: win rates from comparisons of two policies' responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cje.data.comparison_reader import read_comparisons
from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.findings import Finding
from cje.findings.labels import NO_LABELS
from cje.findings.running import ERROR_ROWS
from cje.pipeline.chunks import RowStream, parquet_bytes
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.stages.columns import require_rows, slice_propensity
from cje.pipeline.stages.estimation import PipelineResult, describe_run
from cje.pipeline.stages.oracle import missing_labels, read_labels

__all__ = ["compared_rows", "estimate_pairwise", "write_comparisons_to_label"]

COMPARISONS = "comparisons.parquet"
_KEPT = ("prompt_id", "draw_idx", "context", "response", "other", "policy_a", "policy_b",
         "preferred_first", "preferred_second", "error")  # fmt: skip
_LABELS = ("oracle_label", "label_propensity", "oracle_selected")


def compared_rows(judged: Sequence[RowStream], config: PipelineConfig) -> pl.DataFrame:
    """All comparisons as a table that `cje analyze` reads, one row per order.

    An order that the judge was not asked has no ``judge_winner``. A label concerns the comparison,
    not an order: both rows have it, reversed in the second.
    """
    labelled = config.oracle_config is not None and config.oracle_config.source == "model"
    parts = []
    for rows in judged:
        frame = rows.columns(*_KEPT, *(_LABELS if labelled else ()))
        good = frame.filter(pl.col("error").is_null())
        require_rows(good, rows, config)
        propensity = slice_propensity(good) if labelled else None
        label = pl.col("oracle_label") if labelled else pl.lit(None, pl.Float64)
        chance = pl.lit(None, pl.Float64) if propensity is None else pl.Series("chance", propensity)
        shared = (
            pl.col("prompt_id"), pl.col("draw_idx").alias("turn"),
            pl.col("context").alias("prompt"), chance.alias("label_propensity"),
        )  # fmt: skip
        a = (pl.col("policy_a"), pl.col("response"))
        b = (pl.col("policy_b"), pl.col("other"))
        for first, second, judge, human in (
            (a, b, pl.col("preferred_first"), label),
            (b, a, 1.0 - pl.col("preferred_second"), 1.0 - label),
        ):
            parts.append(
                good.select(
                    *shared,
                    first[0].alias("model_a"), second[0].alias("model_b"),
                    first[1].alias("response_a"), second[1].alias("response_b"),
                    judge.alias("judge_winner"), human.alias("human_winner"),
                )
            )  # fmt: skip
    table = pl.concat(parts)
    return table.filter(pl.col("judge_winner").is_not_null() | pl.col("human_winner").is_not_null())


def write_comparisons_to_label(
    judged: Sequence[RowStream], config: PipelineConfig, work_dir: Path
) -> None:
    """Write the comparisons as a file for labelling.

    Raises
    ------
    CJEError
        If the table of labels does not exist yet, with the way to make it.
    """
    oracle = config.oracle_config
    if oracle is None or oracle.path is None:
        return
    path = work_dir / "result" / COMPARISONS
    write_atomically(path, parquet_bytes(_without_empty(compared_rows(judged, config))))
    if not oracle.path.is_file():
        way = f"write the columns {oracle.id_column}, model_a, model_b, human_winner"
        raise missing_labels("comparisons", path, oracle.path, way)


def estimate_pairwise(
    judged: Sequence[RowStream], config: PipelineConfig, findings: Sequence[Finding] = ()
) -> PipelineResult:
    """The win rate of every policy, of every pair, and their differences."""
    table = compared_rows(judged, config)
    if not len(table):
        raise CJEError("no comparison is left to estimate from")
    n_rows = sum(len(rows) for rows in judged)
    n_errors = sum(rows.errors for rows in judged)
    found = list(findings)
    if n_errors:
        found.append(ERROR_ROWS.finding(n_errors=n_errors, n_rows=n_rows))
    if config.oracle_config is None:
        found.append(NO_LABELS.finding())
    data = _comparisons(table, config)
    options: dict[str, Any] = {"level": config.estimation.level, "seed": config.seed}
    result = find_estimator("pairwise").build(data, **options).fit_and_estimate()
    return PipelineResult(
        {"pairwise": result}, [], tuple(found), n_rows, n_errors, _described(config),
        {COMPARISONS: parquet_bytes(_without_empty(table))},
    )  # fmt: skip


def _without_empty(table: pl.DataFrame) -> pl.DataFrame:
    """The table without columns that are empty or constant (such as a single draw per prompt)."""
    empty = [n for n in ("human_winner", "label_propensity") if table[n].is_null().all()]
    once = ["turn"] if table["turn"].n_unique() == 1 else []
    return table.drop(*empty, *once)


def _comparisons(table: pl.DataFrame, config: PipelineConfig) -> Comparisons:
    oracle = config.oracle_config
    if oracle is not None and oracle.source == "csv":
        assert oracle.path is not None  # ensured by OracleConfig
        return read_comparisons(
            _without_empty(table), labels=_label_table(oracle.path, oracle.id_column),
            on="prompt_id",
        )  # fmt: skip
    return Comparisons.from_arrays(
        prompt_id=table["prompt_id"].to_list(),
        first=table["model_a"].to_list(),
        second=table["model_b"].to_list(),
        judge=_numbers(table["judge_winner"]),
        human=_numbers(table["human_winner"]),
        item=table["turn"].to_numpy(),
        label_propensity=_numbers(table["label_propensity"]),
    )


def _label_table(path: Path, id_column: str) -> pl.DataFrame:
    table = read_labels(path)
    return table.rename({id_column: "prompt_id"}) if id_column in table.columns else table


def _numbers(column: pl.Series) -> Any:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _described(config: PipelineConfig) -> Mapping[str, str]:
    pairs = ", ".join(f"{b} against {a}" for a, b in config.pairs)
    order = {"both": "both orders", "random": "one order, at random"}[config.pairwise.order]
    return describe_run(config) | {"compared": f"{pairs}; {order}"}
