"""A result as a tidy data frame."""

from __future__ import annotations

from typing import Any

from cje.results.result import EstimationResult

__all__ = ["result_frame"]

_ORDER = ("subgroup", "column", "group", "policy", "baseline")
_COMPARED = ("difference", "difference_low", "difference_high", "p_adjusted", "verdict")


def result_frame(result: EstimationResult) -> Any:
    """One row per policy and per policy within a subgroup level; pandas or polars."""
    import polars as pl

    table = [row for part in (result, *result.subgroups.values()) for row in _rows(part)]
    frame = pl.DataFrame(table, infer_schema_length=None)
    numbers = [name for name in (*_COMPARED[:-1], "estimate", "low", "high") if name in frame]
    frame = frame.with_columns(pl.col(numbers).cast(pl.Float64))
    frame = frame.select(*_ORDER, *(name for name in frame.columns if name not in _ORDER))
    if result.metadata.get("frame") != "pandas":
        return frame
    import pandas as pd

    return pd.DataFrame(frame.to_dict(as_series=False))


def _rows(part: EstimationResult) -> list[dict[str, Any]]:
    pairs = {pair.a: pair.to_dict() for pair in part.versus_baseline()}
    within = "adjusted_interval" if part.cells is not None else "interval"
    found = []
    for row in part.rows():
        pair = pairs.get(row.pop("name"), {})
        limits = pair.get(within) or {}
        column = row["column"]
        compared = (
            pair.get("difference"), limits.get("low"), limits.get("high"),
            pair.get("p_adjusted"), pair.get("verdict"),
        )  # fmt: skip
        found.append(
            {
                **row,
                "subgroup": None if column is None else f"{column}={row['group']}",
                "baseline": part.baseline,
                **dict(zip(_COMPARED, compared, strict=True)),
            }
        )
    return found
