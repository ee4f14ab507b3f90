"""Does `direct` cover, or refuse, when labels are drawn with very unequal probabilities?

Shared by ``python -m benchmarks.propensities`` and the tests (short versions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cje.data.dataset import Dataset
from cje.estimators import DirectEstimator
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = ["DESIGNS", "GOOD", "Coverage", "Design", "coverage_study", "world"]

N_ROWS = 1_000
_RARE = 0.1  # share of the rows that form the rare stratum
_SHIFT = 0.25  # how far labels of the rare stratum lie below what the score says
TRUTH = 0.5 - _RARE * _SHIFT


@dataclass(frozen=True)
class World:
    """Judged rows with their labels, and the stratum that the judge does not see."""

    score: FloatArray
    label: FloatArray
    rare: BoolArray


# Score of every row and rare stratum -> the probability recorded, and that of the coin.
Design = Callable[[World, np.random.Generator], tuple[FloatArray, FloatArray]]


def world(rng: np.random.Generator, n: int = N_ROWS) -> World:
    """Labels follow the score; in a tenth of the rows they are 0.25 lower."""
    score = rng.random(n)
    rare = np.arange(n) < _RARE * n
    label = 0.3 + 0.4 * score - _SHIFT * rare + rng.uniform(-0.05, 0.05, n)
    return World(score, label, rare)


def _stratified(p: float, rest: float = 0.2, share: float = 1.0) -> Design:
    def chances(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        thin = w.rare & (np.arange(len(w.rare)) < share * np.count_nonzero(w.rare))
        chance = np.where(thin, p, rest)
        return chance, chance

    return chances


def _log_uniform_from(least: float) -> Design:
    def chances(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        chance = np.exp(rng.uniform(np.log(least), 0.0, len(w.score)))
        return chance, chance

    return chances


def _uniform(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    chance = rng.uniform(0.05, 0.5, len(w.score))
    return chance, chance


def _by_score(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    chance = 0.05 + 0.45 * w.score
    return chance, chance


def _score_strata(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    chance = np.where(w.score > 0.8, 0.5, 0.05)
    return chance, chance


def _never_in_rare(p: float) -> Design:
    def chances(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        recorded = np.where(w.rare, p, 0.2)
        return recorded, np.where(w.rare, 0.0, recorded)

    return chances


def _contradictory(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    coin = np.full(len(w.score), 0.2)
    return np.where(rng.random(len(coin)) < 0.02, 1e-12, coin), coin


def _swapped(w: World, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    coin = np.where(w.rare, 0.5, 0.1)
    return np.where(w.rare, 0.1, 0.5), coin


GOOD: dict[str, Design] = {
    "two strata, p = .05 and .5": _stratified(0.05, 0.5),
    "two strata, p = .2 and .2": _stratified(0.2, 0.2),
    "two strata, p = .1 and .3": _stratified(0.1, 0.3),
    "uniform p in .05-.5": _uniform,
    "p rises with the score, .05-.5": _by_score,
    "p = .5 above score .8, .05 below": _score_strata,
}
DESIGNS: dict[str, Design] = {
    "rare stratum p = .002": _stratified(0.002),
    "rare stratum p = .01": _stratified(0.01),
    "rare stratum p = .02": _stratified(0.02),
    "rare stratum p = .05": _stratified(0.05),
    "rare stratum p = .2": _stratified(0.2, 0.5),
    "rare stratum of 3%, p = .05, others .5": _stratified(0.05, 0.5, 0.3),
    "rare stratum of 5%, p = .1, others .5": _stratified(0.1, 0.5, 0.5),
    "log-uniform p in .03-1": _log_uniform_from(0.03),
    "log-uniform p in .01-1": _log_uniform_from(0.01),
    "no label in the rare stratum, p = .002": _never_in_rare(0.002),
    "no label in the rare stratum, p = .02": _never_in_rare(0.02),
    "no label in the rare stratum, p = .15": _never_in_rare(0.15),
    "p = 1e-12 recorded on 2% of the rows": _contradictory,
    "p of the strata exchanged": _swapped,
    **GOOD,
}


@dataclass(frozen=True)
class Coverage:
    """Of `n_reps` data sets: share refused, share of the others covered, mean width of those."""

    n_reps: int
    refused: float
    covered: float  # NaN where all are refused
    width: float


def coverage_study(
    design: Design, n_reps: int, *, seed: int, n: int = N_ROWS, labelled_only: bool = False
) -> Coverage:
    """Coverage of the intervals of `direct` that are not refused.

    With `labelled_only` the propensities of unlabelled rows are unknown.
    """
    widths, covered, refused = [], [], 0
    for rep in range(n_reps):
        data = _draw(design, np.random.default_rng([seed, rep]), n, labelled_only)
        result = DirectEstimator(data, n_folds=5).fit_and_estimate()
        if result.refused():
            refused += 1
            continue
        low, high = result.ci()[0]
        widths.append(high - low)
        covered.append(low <= TRUTH <= high)
    if not covered:
        return Coverage(n_reps, 1.0, float("nan"), float("nan"))
    return Coverage(n_reps, refused / n_reps, float(np.mean(covered)), float(np.mean(widths)))


def _draw(design: Design, rng: np.random.Generator, n: int, labelled_only: bool) -> Dataset:
    made = world(rng, n)
    recorded, coin = design(made, rng)
    shown = rng.random(n) < coin
    return Dataset.from_arrays(
        prompt_id=np.arange(n), policy="p", judge_score=made.score,
        oracle_label=np.where(shown, made.label, np.nan),
        label_propensity=np.where(shown | (not labelled_only), recorded, np.nan),
    )  # fmt: skip
