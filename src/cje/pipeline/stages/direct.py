"""Direct estimation in a run: every policy answers, the judge scores, and a slice is labelled.

No log-probs are needed, so this works with any server that writes text. The policies are the
logging policy, where one is configured, and the targets; they answer the same prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cje.data import Dataset, read
from cje.data.label_store import attach_labels, read_label_store
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.findings import Finding
from cje.findings.running import ERROR_ROWS
from cje.pipeline.chunks import RowStream, parquet_bytes
from cje.pipeline.config import OracleConfig, PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.stages.columns import oracle_scale, require_rows, slice_propensity
from cje.pipeline.stages.estimation import PipelineResult, describe_run
from cje.pipeline.stages.judge_card import with_judge_card
from cje.pipeline.stages.oracle import missing_labels, read_labels
from cje.results.result import EstimationResult

__all__ = ["estimate_direct", "judged_file", "judged_rows", "write_rows_to_label"]

JUDGED = "judged.parquet"
_KEPT = (
    "prompt_id", "draw_idx", "judge_score", "judge_variance", "judge_scores", "error", "context",
    "response",
)  # fmt: skip
_LABELS = ("oracle_label", "label_propensity", "oracle_selected")


def judged_rows(judged: Mapping[str, RowStream], config: PipelineConfig) -> pl.DataFrame:
    """The usable rows of all policies as one table, policy by policy in the configured order.

    Raises
    ------
    CJEError
        If too many rows of one policy carry an error.
    """
    parts = []
    labelled = config.oracle_config is not None and not config.labels_from_file
    for name, rows in judged.items():
        frame = rows.columns(*_KEPT, *(_LABELS if labelled else ()))
        good = frame.filter(pl.col("error").is_null())
        require_rows(good, rows, config)
        propensity = slice_propensity(good) if labelled else None
        parts.append(
            good.select(
                pl.col("prompt_id"),
                pl.lit(name).alias("policy"),
                (pl.col("draw_idx") - pl.col("draw_idx").min().over("prompt_id")),
                pl.col("judge_score"),
                pl.col("judge_variance"),
                (pl.col("oracle_label") if labelled else pl.lit(None, pl.Float64)).alias(
                    "oracle_label"
                ),
                pl.lit(None, pl.Float64).alias("label_propensity")
                if propensity is None
                else pl.Series("label_propensity", propensity),
                pl.col("context").alias("prompt"),
                pl.col("response"),
                *_each_judge(config),
            )
        )
    return pl.concat(parts)


def _each_judge(config: PipelineConfig) -> list[pl.Expr]:
    """One column per judge, if there are several."""
    if len(config.judges) == 1:
        return []
    return [
        pl.col("judge_scores").list.get(i).alias(f"score_{judge.name}")
        for i, judge in enumerate(config.judges)
    ]


def judged_file(table: pl.DataFrame) -> bytes:
    """The table as a file that `cje analyze`, `cje doctor` and `cje label` read."""
    empty = [name for name in ("oracle_label", "label_propensity") if table[name].is_null().all()]
    return parquet_bytes(table.drop(empty))


def estimate_direct(
    judged: Mapping[str, RowStream], config: PipelineConfig, findings: Sequence[Finding] = ()
) -> PipelineResult:
    """The value of every policy and their paired differences."""
    table = judged_rows(judged, config)
    data = _with_labels(table, config) if config.labels_from_file else _dataset(table, config)
    found = list(findings)
    n_rows = sum(len(rows) for rows in judged.values())
    n_errors = n_rows - len(data)
    if n_errors:
        found.append(ERROR_ROWS.finding(n_errors=n_errors, n_rows=n_rows))
    results: dict[str, EstimationResult] = {}
    for name in config.estimation.estimators:
        options: dict[str, Any] = {"level": config.estimation.level}
        if name == "direct":
            options |= {"seed": config.seed, "mode": config.calibration.mode}
        answer = find_estimator(name).build(data, **options).fit_and_estimate()
        results[name] = with_judge_card(answer, data, config)
    return PipelineResult(
        results, [], tuple(found), n_rows, n_errors, describe_run(config),
        {JUDGED: judged_file(table)},
    )  # fmt: skip


def write_rows_to_label(
    judged: Mapping[str, RowStream], config: PipelineConfig, work_dir: Path
) -> None:
    """Write the judged rows as a file for labelling.

    Raises
    ------
    CJEError
        If the file of labels does not exist yet, with the way to make it.
    """
    oracle = config.oracle_config
    assert oracle is not None  # ensured by `labels_from_file`
    assert oracle.path is not None
    path = work_dir / "result" / JUDGED
    write_atomically(path, judged_file(judged_rows(judged, config)))
    if oracle.path.is_file():
        return
    way = {
        "page": f"cje label {path} --labels {oracle.path}",
        "csv": f"write the columns policy, {oracle.id_column}, {oracle.label_column}",
    }[oracle.source]
    raise missing_labels("judged rows", path, oracle.path, way)


def _with_labels(table: pl.DataFrame, config: PipelineConfig) -> Dataset:
    """The rows with the labels of a table, or of the labelling page with its own design."""
    oracle = config.oracle_config
    assert oracle is not None  # ensured by `labels_from_file`
    assert oracle.path is not None
    rows = table.drop("oracle_label", "label_propensity")
    rows = rows.drop([name for name in rows.columns if rows[name].is_null().all()])
    if oracle.source == "page":
        data = read(rows, judge_scale=(0.0, 1.0), text=True, min_rows=1)
        return attach_labels(data, read_label_store(oracle.path), str(oracle.path))
    return read(
        rows, labels=_label_table(oracle, oracle.path), on=["policy", "prompt_id"],
        judge_scale=(0.0, 1.0), oracle_scale=oracle.scale, text=True, min_rows=1,
    )  # fmt: skip


def _label_table(oracle: OracleConfig, path: Path) -> pl.DataFrame:
    """A table of labels under the names of the rows."""
    table = read_labels(path)
    names = {"policy": "policy", oracle.id_column: "prompt_id", oracle.label_column: "oracle_label"}
    for name in names:
        if name not in table.columns:
            raise CJEError(
                f"the label file has no column '{name}'", where=str(path),
                hint=f"its columns are {', '.join(table.columns)}",
            )  # fmt: skip
    return table.select(*names).rename(names)


def _dataset(table: pl.DataFrame, config: PipelineConfig) -> Dataset:
    def floats(name: str) -> NDArray[np.float64]:
        return table[name].fill_null(float("nan")).to_numpy()

    drawn = table["label_propensity"].is_not_null().all()
    if not len(table):
        raise CJEError("no row is left to estimate from")
    return Dataset.from_arrays(
        prompt_id=table["prompt_id"].to_list(),
        policy=table["policy"].to_list(),
        draw_idx=table["draw_idx"].to_numpy(),
        judge_score=floats("judge_score"),
        judge_variance=floats("judge_variance"),
        oracle_label=floats("oracle_label"),
        label_propensity=table["label_propensity"].to_numpy() if drawn else None,
        oracle_scale=oracle_scale(config),
        prompt=table["prompt"],
        response=table["response"],
    )
