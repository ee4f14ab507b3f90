"""Stage outputs as a `Dataset`: numbers and ids only, so a million rows stay small."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cje.data import Dataset
from cje.errors import CJEError
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig

__all__ = ["fresh_dataset", "logged_dataset", "oracle_scale", "require_rows", "slice_propensity"]

LOGGING_NAME = "logging"
TEXT_ROWS = 20_000  # the report of a larger run shows samples without text


def logged_dataset(rows: RowStream, config: PipelineConfig) -> Dataset:
    """The rows with log-probs, and with rewards once calibrated, ready for estimation."""
    rewards = ("reward",) if rows.stage == "calibration" else ()
    text = ("context", "response") if len(rows) <= TEXT_ROWS else ()
    frame = rows.columns(
        "prompt_id", "draw_idx", "judge_score", "judge_variance", "oracle_label",
        "label_propensity", "oracle_selected", "logp_logging", "logp_target_all", "error",
        *rewards, *text,
    )  # fmt: skip
    good = frame.filter(pl.col("error").is_null())
    require_rows(good, rows, config)
    names = [policy.name for policy in config.target_policies]
    matrix = np.stack(
        [good["logp_target_all"].list.get(k).to_numpy() for k in range(len(names))], axis=1
    )
    # Without an oracle the judge's score is the outcome; a finding reports it.
    labels = "judge_score" if config.oracle_config is None else "oracle_label"
    return Dataset.from_arrays(
        prompt_id=good["prompt_id"].to_list(),
        policy=logging_name(config),
        draw_idx=good["draw_idx"].to_numpy(),
        judge_score=_floats(good["judge_score"]),
        judge_variance=_floats(good["judge_variance"]),
        oracle_label=_floats(good[labels]),
        label_propensity=slice_propensity(good),
        rewards=_rewards(good),
        oracle_scale=oracle_scale(config),
        base_policy_logprob=good["logp_logging"].to_numpy(),
        target_policy_logprobs=matrix,
        target_policies=names,
        prompt=good["context"] if text else None,
        response=good["response"] if text else None,
    )


def fresh_dataset(draws: Mapping[str, RowStream], config: PipelineConfig) -> Dataset:
    """The target policies' own judged responses, all policies in one `Dataset`."""
    parts = []
    for name, rows in draws.items():
        frame = rows.columns("prompt_id", "draw_idx", "judge_score", "judge_variance", "error")
        good = frame.filter(pl.col("error").is_null())
        require_rows(good, rows, config)
        parts.append(good.with_columns(pl.lit(name).alias("policy")))
    fresh = pl.concat(parts)
    return Dataset.from_arrays(
        prompt_id=fresh["prompt_id"].to_list(),
        policy=fresh["policy"].to_list(),
        draw_idx=fresh["draw_idx"].to_numpy(),
        judge_score=_floats(fresh["judge_score"]),
        judge_variance=_floats(fresh["judge_variance"]),
        oracle_scale=oracle_scale(config),
    )


def logging_name(config: PipelineConfig) -> str:
    """Name of the logging policy in results."""
    return LOGGING_NAME if config.logging_policy is None else config.logging_policy.name


def require_rows(good: pl.DataFrame, rows: RowStream, config: PipelineConfig) -> None:
    """Raise if too many rows carry errors: the remaining rows would be a biased sample."""
    lost = len(rows) - len(good)
    if lost > config.max_error_share * len(rows):
        first = next(row["error"] for row in rows if row["error"] is not None)
        raise CJEError(
            f"{lost} of {len(rows)} rows carry an error, more than max_error_share "
            f"({config.max_error_share:g}) allows; the first says: {first}",
            hint="see `cje status` for the reasons, correct them and run the same command again: "
            "only the failed calls are made again",
        )


def oracle_scale(config: PipelineConfig) -> tuple[float, float]:
    """The labels' own range; a model's labels are on [0, 1]."""
    oracle = config.oracle_config
    return (0.0, 1.0) if oracle is None or oracle.source == "model" else oracle.scale


def _floats(column: pl.Series) -> NDArray[np.float64]:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _rewards(rows: pl.DataFrame) -> NDArray[np.float64] | None:
    """The rewards; None before calibration, and in a trial with too few labels for it."""
    if "reward" not in rows.columns or rows["reward"].null_count():
        return None
    return _floats(rows["reward"])


def slice_propensity(rows: pl.DataFrame) -> NDArray[np.float64] | None:
    """Each row's probability of a label, where the labelled rows are exactly the drawn slice.

    If a table lacks labels of some drawn rows, the drawn propensities are not those of its labels,
    and are left out.
    """
    drawn = rows["oracle_selected"].fill_null(False)
    if not drawn.any() or (drawn & rows["oracle_label"].is_null()).any():
        return None
    return rows["label_propensity"].to_numpy()
