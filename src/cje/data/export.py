"""The canonical table of a `Dataset`: one row per response, on the user's own scales."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cje.data.dataset import Dataset
from cje.errors import CJEError

__all__ = ["canonical_table", "write_table"]


def canonical_table(data: Dataset) -> pl.DataFrame:
    """Columns by the names that `cje.data.read` recognises; missing values are null.

    A label is the mean over its raters; ``rater:NAME`` columns are not kept apart.
    """
    columns: dict[str, pl.Series] = {
        "prompt_id": pl.Series(data.prompt_id.decode(), dtype=pl.String),
        "policy": pl.Series(data.policy.decode(), dtype=pl.String),
        "draw_idx": pl.Series(np.asarray(data.draw_idx)),
        "judge_score": pl.Series(data.judge_scale.from_unit(data.judge_score)),
        "oracle_label": pl.Series(data.oracle_scale.from_unit(data.oracle_label)),
    }
    if data.cluster is not None:
        columns["cluster"] = pl.Series(data.cluster.decode(), dtype=pl.String)
    if data.judge_variance is not None:
        variance = data.judge_variance * data.judge_scale.width**2
        columns["judge_variance"] = pl.Series(variance)
    for name in ("label_propensity", "base_policy_logprob"):
        values = getattr(data, name)
        if values is not None:
            columns[name] = pl.Series(values)
    if data.target_policy_logprobs is not None:
        for k, name in enumerate(data.target_policies):
            columns[f"target_policy_logprobs.{name}"] = pl.Series(data.target_policy_logprobs[:, k])
    columns |= {name: pl.Series(values) for name, values in data.covariates.items()}
    columns |= {name: pl.Series(codes.decode()) for name, codes in data.groups.items()}
    for name in ("prompt", "response"):
        text = getattr(data, name)
        if text is not None:
            columns[name] = text.to_series()
    frame = pl.DataFrame([series.alias(name) for name, series in columns.items()])
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def write_table(data: Dataset, path: Path) -> None:
    """Write the canonical table as Parquet, CSV, JSON Lines or Arrow, by the file's extension.

    Raises
    ------
    CJEError
        Another extension, or a file that cannot be written.
    """
    frame = canonical_table(data)
    writers: dict[str, Callable[[Any], Any]] = {
        ".parquet": frame.write_parquet,
        ".csv": frame.write_csv,
        ".jsonl": frame.write_ndjson,
        ".arrow": frame.write_ipc,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise CJEError(
            "unknown extension", where=str(path), value=path.suffix,
            hint=f"write to one of {', '.join(writers)}",
        )  # fmt: skip
    try:
        with path.open("wb") as stream:  # an opened file: polars interprets paths
            writer(stream)
    except OSError as error:
        raise CJEError(f"cannot be written: {error.strerror}", where=str(path)) from error
