"""Do the intervals of the calibration metrics cover? Monte Carlo against known truths.

The truth of a metric is its value on a very large sample in which each row enters once with each
outcome, weighted by that outcome's probability: an expectation, not a draw. Both one-sided error
rates of the 95% interval are counted; each side must cover at least 93.5% (nominal: 97.5%), for a
perfect model and for miscalibrated ones. The percentile bootstrap stands beside, for contrast.

    python -m benchmarks.ece_coverage [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax

from cje import classification as c
from cje.classification.registry import ENTRIES
from cje.classification.rows import Rows, check_rows

LIMIT = 0.935
SLOPES = {"perfect": 1.0, "slightly over": 0.8, "over": 0.4, "under": 2.0}
SCORES: dict[str, Callable[[Any, int], Any]] = {
    "uniform": lambda rng, n: rng.random(n),
    "confident": lambda rng, n: 1.0 - 0.5 * rng.beta(1.0, 6.0, n),
    "extreme": lambda rng, n: 1.0 - rng.beta(0.3, 20.0, n),
}
BINARY: dict[str, tuple[Any, dict[str, Any]]] = {
    "ece": (c.expected_calibration_error, {}),
    "ece equal-mass": (c.expected_calibration_error, {"strategy": "quantile"}),
    "mce": (c.maximum_calibration_error, {"n_bins": 5}),
    "smooth ece": (c.smooth_ece, {}),
    "ks": (c.kolmogorov_smirnov_error, {}),
    "kuiper": (c.kuiper_error, {}),
    "brier": (c.brier_score, {}),
    "rms": (c.rms_calibration_error, {}),
    "corp miscalibration": (c.corp_miscalibration, {}),
    "corp discrimination": (c.corp_discrimination, {}),
}
MULTICLASS: dict[str, tuple[Any, dict[str, Any]]] = {
    "confidence ece": (c.confidence_ece, {}),
    "top-label ece": (c.top_label_ece, {}),
    "mean top-label ece": (c.mean_top_label_ece, {"n_bins": 5}),
    "class-wise ece": (c.class_wise_ece, {}),
    "top-label rms": (c.top_label_rms_error, {}),
    "class-wise rms": (c.class_wise_rms_error, {}),
    "brier of all classes": (c.multiclass_brier_score, {}),
    "log loss": (c.multiclass_log_loss, {}),
}
LARGE = 200_000
# Sums of absolute gaps: 2,000 repetitions, on a seed that chose nothing about their intervals.
ABSOLUTE = ("ece", "confidence ece", "top-label ece", "mean top-label ece", "class-wise ece")
SEED = 20_261_119


def _recalibrated(p: Any, slope: float) -> Any:
    return expit(slope * logit(np.clip(p, 1e-9, 1.0 - 1e-9)))


def _expectation(metric: Any, options: dict[str, Any], p: Any, chance: Any) -> float:
    """The metric with each row's outcome replaced by its distribution."""
    if p.ndim == 1:
        y = np.repeat([1, 0], len(p))
        weight = np.concatenate((chance, 1.0 - chance))
        return float(metric(y, np.tile(p, 2), sample_weight=weight, **options))
    k = p.shape[1]
    y = np.repeat(np.arange(k), len(p))
    weight = chance.T.ravel()
    return float(metric(y, np.tile(p, (k, 1)), sample_weight=weight, **options))


def _rows(metric: Any, y: Any, p: Any, groups: Any = None) -> Rows:
    names = None if p.ndim == 1 else np.arange(p.shape[1])
    return check_rows(ENTRIES[metric].kind, y, p, labels=names, groups=groups)


def _drawn(chance: Any, rng: Any) -> Any:
    return (chance.cumsum(axis=1) > rng.random(len(chance))[:, None]).argmax(axis=1)


def _count(
    name: str, metric: Any, options: dict[str, Any], draw: Callable[[Any], tuple[Any, Any, Any]],
    truth: float | None, n_reps: int, rng: Any,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Share of samples whose lower limit, and whose upper limit, is on the right side.

    Then the mean limits, and the mean width over that of an oracle's +-1.96 standard deviations.
    """
    below = above = 0
    width, values = [], []
    for _ in range(n_reps):
        y, p, chance = draw(rng)
        # Equal-mass bins, and the bins that hold a row, are the sample's own; so is their truth.
        target = _expectation(metric, options, p, chance) if truth is None else truth
        rows = _rows(metric, y, p)
        low, high = ENTRIES[metric].limits(rows, 0.95, **options)
        values.append(ENTRIES[metric].value(rows, **options))
        below += low <= target + 1e-9
        above += high >= target - 1e-9
        width.append((low, high))
    mean = np.mean(width, axis=0)
    ratio = float((mean[1] - mean[0]) / (3.92 * np.std(values)))
    return below / n_reps, above / n_reps, float(mean[0]), float(mean[1]), ratio


def binary_study(
    n: int, n_reps: int, metrics: list[str], seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Coverage of the binary metrics for every score distribution and miscalibration."""
    for score_name, scores in SCORES.items():
        for model, slope in SLOPES.items():
            large = scores(np.random.default_rng(99), LARGE)
            for name in metrics:
                metric, options = BINARY[name]
                truth = None
                if name not in ("ece equal-mass", "mce"):
                    truth = _expectation(metric, options, large, _recalibrated(large, slope))

                def draw(rng: Any, scores: Any = scores, slope: float = slope) -> Any:
                    p = scores(rng, n)
                    chance = _recalibrated(p, slope)
                    return (rng.random(n) < chance).astype(float), p, chance

                rng = np.random.default_rng(seed)
                result = _count(name, metric, options, draw, truth, n_reps, rng)
                yield _row(name, f"{score_name}, {model}, n={n}", result, truth)


def multiclass_study(
    n: int, n_reps: int, metrics: list[str], k: int = 4, seed: int = 1
) -> Iterator[dict[str, Any]]:
    """Coverage of the multiclass metrics, on Gaussian logits with one rare class."""
    shift = np.array([0.0] * (k - 1) + [-1.5])

    def logits(rng: Any, size: int) -> Any:
        return 1.5 * rng.standard_normal((size, k)) + shift

    for model, slope in SLOPES.items():
        large = logits(np.random.default_rng(99), LARGE // k)
        for name in metrics:
            metric, options = MULTICLASS[name]
            chance = softmax(slope * large, axis=1)
            truth = _expectation(metric, options, softmax(large, axis=1), chance)

            def draw(rng: Any, slope: float = slope) -> Any:
                score = logits(rng, n)
                chance = softmax(slope * score, axis=1)
                y = _drawn(chance, rng)
                return y, softmax(score, axis=1), chance

            rng = np.random.default_rng(seed)
            result = _count(name, metric, options, draw, truth, n_reps, rng)
            yield _row(name, f"{model}, n={n}, K={k}", result, truth)


def noisy_map_study(n: int, n_reps: int, k: int = 4, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Top-label ECE where each cell's gap is noise of the size that a fitted map leaves.

    The gap's standard deviation is that of a mean of as many rows as the cell holds, or twice it;
    normal, or always of that size with a random sign: the patterns whose noise hides most.
    """
    bins = 15
    for factor in (1.0, 2.0):
        for law in ("normal", "even"):

            def draw(rng: Any, factor: float = factor, law: str = law) -> Any:
                score = softmax(2.0 * rng.standard_normal((n, k)), axis=1)
                top, sure = score.argmax(axis=1), score.max(axis=1)
                cell = top * bins + np.minimum((sure * bins).astype(int), bins - 1)
                size = factor * np.sqrt(0.2 / np.maximum(np.bincount(cell, minlength=bins * k), 1))
                sign = rng.standard_normal(bins * k)
                gap = size * (sign if law == "normal" else np.sign(sign))
                right = np.clip(sure + gap[cell], 0.0, 1.0)
                score *= ((1.0 - right) / (1.0 - sure))[:, None]
                score[np.arange(n), top] = right  # the distribution of the label
                y, p = _drawn(score, rng), np.zeros((n, k))
                p[np.arange(n), top] = sure  # the prediction: the top class alone
                return y, p, score

            rng = np.random.default_rng(seed)
            result = _count("top-label ece", c.top_label_ece, {}, draw, None, n_reps, rng)
            case = f"a map's noise x {factor:g}, {law}, n={n}, K={k}"
            yield _row("top-label ece", case, result, None)


def _row(name: str, case: str, result: Any, truth: float | None) -> dict[str, Any]:
    below, above, low, high, ratio = result
    target = "the sample's own" if truth is None else f"{truth:.4f}"
    return {
        "bar": f"coverage of {name} ({case})",
        "value": min(below, above),
        "limit": LIMIT,
        "ok": min(below, above) >= LIMIT,
        "note": f"lower {below:.3f}, upper {above:.3f}; truth {target}, "
        f"mean interval [{low:.4f}, {high:.4f}], {ratio:.2f} x the oracle's width",
    }


def bootstrap_contrast(n: int = 1000, n_reps: int = 60) -> dict[str, Any]:
    """Coverage of the percentile bootstrap for a perfect model's ECE, whose truth is zero."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(n_reps):
        p = rng.random(n)
        y = (rng.random(n) < p).astype(float)
        rows = rng.integers(0, n, (100, n))
        draws = [c.expected_calibration_error(y[i], p[i]) for i in rows]
        covered += np.quantile(draws, 0.025) <= 0.0
    return {
        "bar": "coverage of the percentile bootstrap (ECE, perfect model): for contrast",
        "value": covered / n_reps,
        "limit": 0.0,
        "ok": True,
        "note": "the interval never holds the truth",
    }


def run(quick: bool) -> list[dict[str, Any]]:
    """All rows; the quick form has fewer repetitions and one sample size."""
    rows = [bootstrap_contrast()]
    fast = [name for name in BINARY if name not in ("smooth ece", "ece equal-mass", *ABSOLUTE)]
    for n, n_reps, many in ((500, 100, 100),) if quick else ((100, 250, 2000), (1000, 250, 2000)):
        rows += binary_study(n, many, [name for name in BINARY if name in ABSOLUTE], SEED)
        rows += multiclass_study(n, many, [k for k in MULTICLASS if k in ABSOLUTE], seed=SEED)
        rows += noisy_map_study(n, many)
        rows += binary_study(n, n_reps, fast)
        rows += binary_study(n, max(n_reps // 4, 50), ["ece equal-mass"])
        rows += binary_study(n, max(n_reps // 4, 40), ["smooth ece"])
        rows += multiclass_study(n, n_reps, [k for k in MULTICLASS if k not in ABSOLUTE])
    return rows


def main() -> None:
    """Print every row."""
    rows = run("--quick" in sys.argv)
    for row in rows:
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.3f} (>= {row['limit']}) {row['note']}")


if __name__ == "__main__":
    main()
