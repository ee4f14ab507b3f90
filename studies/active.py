"""Active labelling against random labelling, replayed where every label is known.

Both designs take the same number of labels from the same judged rows; the direct estimator makes
the intervals. `saving` is the squared ratio of their widths, random over active: how many times
fewer labels give the same width. Coverage is of the fixed interval when the budget is used up, a
stop that looks at no label.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.estimators import DirectEstimator
from cje.kernels.arrays import FloatArray
from cje.label.active import ActiveDesign

__all__ = ["ARENA", "WORLDS", "World", "active_labels", "arena_world", "replay", "true_mean"]

World = Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray]]
ARENA = Path(__file__).parents[2] / "shared" / "data" / "arena"


def _normal(spread: Callable[[FloatArray], FloatArray]) -> World:
    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        score = rng.random(n)
        label = 0.2 + 0.6 * score + spread(score) * rng.standard_normal(n)
        return score, np.clip(label, 0.0, 1.0)

    return draw


def _binary(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    score = rng.beta(2.0, 0.6, n)
    chance = 1.0 / (1.0 + np.exp(-(8.0 * score - 4.5)))
    return score, (rng.random(n) < chance).astype(float)


WORLDS: dict[str, World] = {
    "errors grow with the score": _normal(lambda s: 0.02 + 0.3 * s**2),
    "errors in the middle": _normal(lambda s: 0.03 + 0.25 * np.exp(-((s - 0.5) ** 2) / 0.02)),
    "errors alike everywhere": _normal(lambda s: np.full(len(s), 0.15)),
    "binary labels, confident judge": _binary,
}


def arena_world(policy: str) -> tuple[World, float]:
    """Rows of the Arena sample drawn with replacement; the truth is their mean label."""
    folder = ARENA / ("fresh_draws" if policy == "base" else "probe_slice")
    lines = (folder / f"{policy}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    known = np.array(
        [(r["judge_score"], r["oracle_label"]) for r in rows if r["oracle_label"] is not None]
    )

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        taken = known[rng.integers(0, len(known), n)]
        return taken[:, 0], taken[:, 1]

    return draw, float(known[:, 1].mean())


def replay(
    world: World,
    truth: float,
    *,
    n_reps: int,
    n_rows: int = 1_000,
    budget: int = 150,
    seed: int = 0,
) -> dict[str, Any]:
    """Mean width, and coverage, of both designs over `n_reps` data sets.

    A refused value makes no claim: it counts in `refused`, not in width and coverage.
    """
    widths: dict[str, list[float]] = {"random": [], "active": []}
    covered: dict[str, list[bool]] = {"random": [], "active": []}
    informed = []
    for rep in range(n_reps):
        rng = np.random.default_rng([seed, rep])
        score, label = world(rng, n_rows)
        shown, propensity, design = active_labels(score, label, budget, seed=rep)
        informed.append(bool(design.informative))
        drawn = rng.permutation(n_rows)[: int(shown.sum())]
        mask = np.zeros(n_rows, dtype=bool)
        mask[drawn] = True
        for name, (where, chance) in {
            "random": (mask, np.full(n_rows, len(drawn) / n_rows)),
            "active": (shown, propensity),
        }.items():
            data = Dataset.from_arrays(
                prompt_id=np.arange(n_rows), policy="p", judge_score=score,
                oracle_label=np.where(where, label, np.nan), label_propensity=chance,
            )  # fmt: skip
            low, high = DirectEstimator(data, n_folds=5).fit_and_estimate().ci()[0]
            widths[name].append(high - low)
            covered[name].append(low <= truth <= high)
    kept = {name: np.isfinite(w) for name, w in widths.items()}
    both = kept["random"] & kept["active"]
    squares = {name: float(np.mean(np.square(w)[both])) for name, w in widths.items()}
    share = {name: float(np.mean(np.array(hits)[kept[name]])) for name, hits in covered.items()}
    return {
        "saving": squares["random"] / squares["active"],
        **share,
        "refused": float(1.0 - both.mean()),
        "informed": float(np.mean(informed)),
    }


def active_labels(
    score: FloatArray, label: FloatArray, budget: int, *, seed: int
) -> tuple[FloatArray, FloatArray, ActiveDesign]:
    """Run the design to its budget; shown rows, and each row's overall probability."""
    design = ActiveDesign(score, budget, seed=seed)
    shown = np.zeros(len(score), dtype=bool)
    propensity = np.full(len(score), np.nan)  # a row not visited has none
    while not design.finished:
        visit = design.visit()
        propensity[visit.unit] = visit.propensity
        if visit.shown:
            shown[visit.unit] = True
            design.learn(score[[visit.unit]], label[[visit.unit]])
    return shown, propensity * design.visited / len(score), design


def true_mean(world: World) -> float:
    return float(world(np.random.default_rng(99), 4_000_000)[1].mean())
