"""Stage 5: judge scores become rewards on the oracle's scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig
from cje.pipeline.hashing import fingerprint
from cje.pipeline.stages.columns import scored_dataset

__all__ = ["calibrated_rewards", "calibration_fingerprint"]

VERSION = 1


def calibration_fingerprint(config: PipelineConfig, rows: RowStream) -> str:
    """Every row's reward depends on all labels, so on all input chunks."""
    settings: Mapping[str, Any] = {
        "calibration": config.calibration.model_dump(mode="json"),
        "seed": config.seed,
        "max_error_share": config.max_error_share,
    }
    return fingerprint("calibration", VERSION, settings, [c.sha256 for c in rows.chunks])


def calibrated_rewards(rows: RowStream, config: PipelineConfig) -> NDArray[np.float64]:
    """The reward of every row, NaN for error rows.

    With labels: `cje.calibration.calibrate_dataset`, cross-fitted by prompt. Without: the judge's
    score itself, which the estimation stage then reports as a finding.
    """
    from cje.calibration import calibrate_dataset  # brings scikit-learn: only when it is needed

    data, usable = scored_dataset(rows, config)
    rewards = np.full(len(rows), np.nan)
    if data.n_labelled == 0:
        rewards[usable] = data.judge_score
        return rewards
    _, fitted = calibrate_dataset(
        data,
        calibration_mode=config.calibration.mode,
        n_folds=config.calibration.n_folds,
        random_seed=config.seed,
    )
    rewards[usable] = fitted.calibrated_scores
    return rewards
