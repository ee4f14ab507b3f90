"""Checks of what SIMCal is given: weights, scores, and rewards or residuals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["read_outcome", "read_scores", "read_weights"]


def read_weights(weights: ArrayLike) -> tuple[FloatArray, bool]:
    """Weights as a matrix, and whether one column was given as a vector."""
    raw = float_array("weights", weights)
    single = raw.ndim == 1
    raw = raw[:, None] if single else raw
    if raw.ndim != 2 or raw.size == 0:
        raise CJEError("weights must be (n,) or (n, K), not empty", value=np.shape(weights))
    bad = ~(np.isfinite(raw) & (raw >= 0))
    if bad.any():
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(bad)), raw.shape))
        raise CJEError(
            "weights must be finite and not negative",
            where=f"row {row}, policy {column}",
            value=float(raw[row, column]),
        )
    empty = raw.max(axis=0) == 0
    if empty.any():
        raise CJEError(
            "All weights are zero: nothing to calibrate",
            where=f"policy {int(np.argmax(empty))}",
            hint="the target policy has no overlap with the logged rows; use fresh draws",
        )
    return raw, single


def read_scores(scores: ArrayLike, n: int) -> FloatArray:
    """One finite score per row."""
    x = float_array("scores", scores)
    if x.shape != (n,):
        raise CJEError(f"Length mismatch: weights={n}, scores={x.shape}")
    bad = ~np.isfinite(x)
    if bad.any():
        row = int(np.argmax(bad))
        raise CJEError("scores must be finite", where=f"row {row}", value=float(x[row]))
    return x


def read_outcome(
    rewards: ArrayLike | None, residuals: ArrayLike | None, shape: tuple[int, ...]
) -> FloatArray | None:
    """Rewards or residuals per row, for one policy or all; None where neither is given."""
    given = rewards if residuals is None else residuals
    if given is None:
        return None
    outcome = float_array("rewards and residuals", given)
    outcome = outcome[:, None] if outcome.ndim == 1 else outcome
    if outcome.ndim != 2 or len(outcome) != shape[0] or outcome.shape[1] not in (1, shape[1]):
        raise CJEError("rewards and residuals must have one value per row", value=outcome.shape)
    low, high = float(outcome.min()), float(outcome.max())  # a NaN passes through both
    if not (np.isfinite(low) and np.isfinite(high)):
        raise CJEError("rewards and residuals must be finite")
    if max(-low, high) > LARGEST:
        raise CJEError("rewards and residuals are too large", value=max(-low, high))
    return outcome
