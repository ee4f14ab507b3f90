"""Labels selected by score, length or time: does `direct` hold the truth, or refuse?

Shared by ``python -m benchmarks.gate`` and the tests (short versions).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cje import analyze_dataset
from cje.estimators import EstimationResult

__all__ = ["DRIVERS", "STRENGTHS", "TRUTH", "analysed", "held_or_refused", "selected_rows"]

TRUTH = 3.4
DRIVERS = ("score", "length", "time")
STRENGTHS = (0.4, 0.8, 1.5)


def selected_rows(seed: int, how: str, strength: float, n: int = 500) -> list[dict[str, Any]]:
    """One version whose labels depend on length and time beyond the score, selected by `how`."""
    rng = np.random.default_rng(seed)
    quality = TRUTH + rng.normal(0, 0.6, n)
    log_length = 4.0 + rng.normal(0, 0.6, n) + 0.3 * (quality - TRUTH)
    time = np.arange(n)
    label = quality + 0.6 * (time / n - 0.5 + 0.5 / n) + rng.normal(0, 0.3, n)
    score = np.round(quality + 0.5 + rng.normal(0, 0.5, n) + 0.25 * (log_length - 4.0))
    driver = {
        "nothing": np.zeros(n),
        "score": (score - 3.9) / 0.9,
        "length": (log_length - 4.0) / 0.6,
        "time": (time / n - 0.5) * 3.4,
    }[how]
    chosen = rng.random(n) < 1.0 / (1.0 + np.exp(1.4 - strength * driver))
    if how == "score" and strength < 0:
        chosen = (score <= 3) & (rng.random(n) < 0.7)  # low-rated answers only
    return [
        {"prompt_id": i, "policy": "cand", "judge_score": score[i], "timestamp": int(time[i]),
         "response_length": float(np.exp(log_length[i])),
         "oracle_label": label[i] if chosen[i] else None}
        for i in range(n)
    ]  # fmt: skip


def analysed(seed: int, how: str, strength: float) -> EstimationResult:
    """The result of one repetition."""
    rows = selected_rows(seed, how, strength)
    return analyze_dataset(rows, judge_scale="-2-10", oracle_scale="-2-10")


def held_or_refused(how: str, strength: float, reps: int, seed: int = 0) -> tuple[float, float]:
    """Shares of repetitions that hold the truth or are refused, and that are refused."""
    held = refused = 0
    for k in range(reps):
        result = analysed(seed + k, how, strength)
        low, high = result.ci()["cand"]
        refused += bool(result.refused())
        held += bool(result.refused()) or low <= TRUTH <= high
    return held / reps, refused / reps
