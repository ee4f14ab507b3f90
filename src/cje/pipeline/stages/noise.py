"""Noise of the server: rows scored twice, and the noise level for the estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.findings.running import KNOWN_NOISE, REPLICATE_NOISE
from cje.pipeline.chunks import RowStream
from cje.results.result import EstimationResult

__all__ = ["measured_noise", "scored_twice", "with_noise"]


def scored_twice(rows: RowStream) -> NDArray[np.float64]:
    """(n, 2) log-probs of the logged responses that were scored twice; error rows left out."""
    frame = rows.columns("logp_logging", "logp_replicate", "error").filter(
        pl.col("error").is_null() & pl.col("logp_replicate").is_not_null()
    )
    return np.stack([frame["logp_logging"].to_numpy(), frame["logp_replicate"].to_numpy()], 1)


def measured_noise(rows: RowStream) -> float:
    """Standard deviation of one log-prob between scorings, for `logprob_noise`; 0 if unmeasured.

    Noise too large for a correction is also 0 here: the canary `replicate-noise` refuses it.
    """
    pairs = scored_twice(rows)
    if not len(pairs):
        return 0.0
    sd = float(np.sqrt(pairs.var(axis=1, ddof=1).mean()))
    return sd if sd <= REPLICATE_NOISE["refuse_sd"] else 0.0


def with_noise(
    result: EstimationResult, estimator: OffPolicyEstimator, n_pairs: int
) -> EstimationResult:
    """Add a note on the measured noise that corrected the weights."""
    sd = estimator.logprob_noise
    if not sd:
        return result
    factor = math.exp(sd**2)
    note: dict[str, Any] = {"sd": sd, "factor": factor, "n_scored_twice": n_pairs}
    found = []
    if factor - 1.0 > KNOWN_NOISE["factor"]:
        found.append(KNOWN_NOISE.finding(sd=sd, factor=factor, n=n_pairs))
    return result.with_(metadata={"logprob_noise": note}, findings=found)
