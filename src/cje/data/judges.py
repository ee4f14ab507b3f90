"""Several judges of one response: their mean is the score, and each is kept on its own.

The calibration gets the mean and the single judges (as covariates), so that the labels decide how
each is weighted; see `cje.analysis.judge_report` for how good each one is alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from cje.data.scale import UNIT, Scale
from cje.kernels.arrays import FloatArray

__all__ = ["JUDGE", "covariate_name", "joined_judges", "judge_of", "mean_of_judges"]

JUDGE = "judge:"  # prefix of the columns of single judges


def covariate_name(judge: str) -> str:
    """The covariate that holds one judge's scores."""
    return f"judge {judge}"


def judge_of(covariate: str) -> str:
    """The judge whose scores a covariate holds."""
    return covariate.removeprefix(covariate_name(""))


def mean_of_judges(
    scores: Sequence[FloatArray], scales: Sequence[Scale]
) -> tuple[FloatArray, Scale, list[FloatArray]]:
    """The mean of the judges, the scale it is on, and each judge on [0, 1].

    Judges on one scale keep it; on different scales each is brought to [0, 1] first. The mean is
    over the judges a row has; a judge without a score on a row gets that mean.
    """
    unit = np.stack([s.to_unit(x) for s, x in zip(scales, scores, strict=True)])
    known = ~np.isnan(unit)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, unit, 0.0).sum(axis=0) / np.where(count, count, np.nan)
    scale = scales[0] if len(set(scales)) == 1 else UNIT
    filled = [np.where(k, u, mean) for k, u in zip(known, unit, strict=True)]
    return scale.from_unit(mean), scale, filled


def joined_judges(
    frame: pl.DataFrame, judges: Sequence[str], mean: FloatArray, single: Sequence[FloatArray]
) -> pl.DataFrame:
    """The frame with the mean as its score and each judge as a covariate."""
    columns = [pl.Series("judge_score", mean).fill_nan(None)]
    columns += [
        pl.Series(f"covariate:{covariate_name(name)}", values).fill_nan(None)
        for name, values in zip(judges, single, strict=True)
    ]
    return frame.drop([f"{JUDGE}{name}" for name in judges]).with_columns(columns)
