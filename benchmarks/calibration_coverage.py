"""Do the paired, clustered, subgroup and multiclass intervals of `cje.classification` cover?

Each study draws samples whose true value is known (see `benchmarks.ece_coverage`) and counts on
which side of the 95% interval it lies. Nominal: 97.5% per side, or 95% of both sides together for
paired differences and for all subgroups at once; every share must be at least 93.5%.

    python -m benchmarks.calibration_coverage [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax

from benchmarks import ece_coverage as study
from cje import classification as c
from cje.classification.registry import ENTRIES
from cje.classification.rows import check_rows

LEVEL = 0.95
SEED = 20_261_118
CLASSES = 3
CHOSEN_BINARY = ("rms", "corp miscalibration", "corp discrimination")
CHOSEN_MULTICLASS = ("top-label rms", "class-wise rms", "brier of all classes", "log loss")
CLUSTERED: tuple[Any, ...] = (
    c.expected_calibration_error, c.top_label_ece, c.class_wise_ece, c.brier_score,
    c.rms_calibration_error, c.top_label_rms_error, c.class_wise_rms_error,
    c.corp_miscalibration, c.multiclass_brier_score, c.multiclass_log_loss,
)  # fmt: skip
PAIRED: tuple[Any, ...] = (
    c.expected_calibration_error, c.confidence_ece, c.top_label_ece, c.brier_score,
    c.multiclass_log_loss,
)  # fmt: skip
# Inverse sharpness of the two models: the score is the true logit divided by it.
PAIRS = ((0.4, 1.0), (0.4, 0.6), (0.8, 1.0), (1.25, 1.0))


def _binary(metric: Any) -> bool:
    return bool(ENTRIES[metric].kind == "binary")


def _scores(metric: Any, n: int, rng: Any) -> Any:
    """True chances of each row's outcome, as logits or as log-probabilities."""
    return logit(rng.random(n)) if _binary(metric) else 1.5 * rng.standard_normal((n, CLASSES))


def _link(metric: Any, score: Any) -> Any:
    return expit(score) if _binary(metric) else softmax(score, axis=1)


def _outcomes(chance: Any, rng: Any) -> Any:
    if chance.ndim == 1:
        return (rng.random(len(chance)) < chance).astype(int)
    return study._drawn(chance, rng)


def _labels(metric: Any) -> Any:
    return None if _binary(metric) else np.arange(CLASSES)


@cache
def _truth(metric: Any, slope: float) -> float:
    """The metric of score(true logit / slope) in the population."""
    score = _scores(metric, study.LARGE, np.random.default_rng(SEED + 1))
    return study._expectation(metric, {}, _link(metric, score / slope), _link(metric, score))


def paired(metric: Any, first: float, second: float, n: int, n_reps: int) -> dict[str, Any]:
    """Coverage of the paired interval of the difference of two models on the same rows."""
    rng = np.random.default_rng(SEED)
    target = _truth(metric, first) - _truth(metric, second)
    low, high = np.empty(n_reps), np.empty(n_reps)
    for rep in range(n_reps):
        score = _scores(metric, n, rng)
        y = _outcomes(_link(metric, score), rng)
        both = {"a": _link(metric, score / first), "b": _link(metric, score / second)}
        result = c.compare_calibration(metric, y, both, labels=_labels(metric))
        low[rep], high[rep] = result.difference("a", "b").intervals(LEVEL)[0]
    covered = float(np.mean((low <= target + 1e-9) & (high >= target - 1e-9)))
    case = f"slopes {first:g} and {second:g}, n={n}"
    return _row(f"paired difference of {metric.__name__} ({case})", covered, target, low, high)


def clustered(metric: Any, slope: float, n: int, n_reps: int) -> dict[str, Any]:
    """Coverage per side with pairs of rows that share a score and, half of the time, an outcome."""
    rng, half = np.random.default_rng(SEED), n // 2
    target = _truth(metric, slope)
    low, high = np.empty(n_reps), np.empty(n_reps)
    groups = np.tile(np.arange(half), 2)
    for rep in range(n_reps):
        score = _scores(metric, half, rng)
        chance = _link(metric, score)
        one, other = _outcomes(chance, rng), _outcomes(chance, rng)
        y = np.concatenate((one, np.where(rng.random(half) < 0.5, one, other)))
        p = np.concatenate((_link(metric, score / slope),) * 2)
        rows = check_rows(ENTRIES[metric].kind, y, p, labels=_labels(metric), groups=groups)
        low[rep], high[rep] = ENTRIES[metric].limits(rows, LEVEL)
    side = min(float(np.mean(low <= target + 1e-9)), float(np.mean(high >= target - 1e-9)))
    case = f"slope {slope:g}, {half} clusters of 2"
    return _row(f"clustered interval of {metric.__name__} ({case})", side, target, low, high)


def subgroups(metric: Any, slope: float, n: int, n_reps: int) -> dict[str, Any]:
    """How often the intervals of four subgroups hold all at once."""
    rng = np.random.default_rng(SEED)
    target = _truth(metric, slope)
    by = np.arange(n) % 4
    low, high = np.empty((n_reps, 4)), np.empty((n_reps, 4))
    for rep in range(n_reps):
        score = _scores(metric, n, rng)
        y = _outcomes(_link(metric, score), rng)
        found = c.assess_subgroups(
            metric, y, _link(metric, score / slope), by, n_draws=1, labels=_labels(metric)
        )
        for k, part in enumerate(found.values()):
            low[rep, k], high[rep, k] = part.interval
    covered = float(((low <= target + 1e-9) & (high >= target - 1e-9)).all(axis=1).mean())
    case = f"4 subgroups, slope {slope:g}, n={n}"
    return _row(f"all intervals of {metric.__name__} ({case})", covered, target, low, high)


def _row(bar: str, value: float, target: float, low: Any, high: Any) -> dict[str, Any]:
    return {
        "bar": f"coverage of the {bar}",
        "value": value,
        "limit": study.LIMIT,
        "ok": value >= study.LIMIT,
        "note": f"{len(low)} repetitions; truth {target:.4f}, too high {np.mean(low > target):.3f}"
        f", too low {np.mean(high < target):.3f}; mean interval [{low.mean():.4f}, "
        f"{high.mean():.4f}]",
    }


def rows_of(n: int, n_reps: int) -> Iterator[dict[str, Any]]:
    """Every row, the paired differences first."""
    for metric in PAIRED:
        for first, second in PAIRS:
            yield paired(metric, first, second, n, n_reps)
    for metric in CLUSTERED:
        for slope in (1.0, 0.6):
            yield clustered(metric, slope, n, n_reps)
    for metric in (c.expected_calibration_error, c.top_label_ece):
        for slope in (1.0, 0.6):
            yield subgroups(metric, slope, n, n_reps)
    yield from study.multiclass_study(n, n_reps, list(CHOSEN_MULTICLASS), seed=SEED)
    yield from study.binary_study(n, n_reps, list(CHOSEN_BINARY), seed=SEED)


def run(quick: bool) -> list[dict[str, Any]]:
    """All rows: 2,000 repetitions at n = 500; 100 in the quick form."""
    rows = []
    for row in rows_of(500, 100 if quick else 2000):
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.4f} {row['note']}", flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    run("--quick" in sys.argv)
