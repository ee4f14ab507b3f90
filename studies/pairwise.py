"""Do the intervals of `pairwise` cover with 100 human verdicts?

Shared by ``python -m benchmarks.pairwise`` and the tests (short versions). Policies have Bradley-
Terry strengths; humans and the judge favour the response shown first, the judge also the longer
one, which is the worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, ndtr

from cje.data.comparisons import Comparisons
from cje.estimators.registry import find_estimator
from cje.kernels.arrays import FloatArray

__all__ = ["WORLDS", "Coverage", "World", "coverage_study", "simulate"]

HUMAN_POSITION, JUDGE_POSITION = 0.05, 0.12
_TIES = 0.2
_CERTAINTY = 1.0  # of a comparison: the smaller, the more humans agree about it


@dataclass(frozen=True)
class World:
    """What is compared, and how.

    Parameters
    ----------
    strengths : tuple of float
        Log-odds, of mean zero: the truth.
    n_prompts, pairs_per_prompt, n_labels : int
    both_orders : bool
        Judge every pair in both orders.
    first_share : float
        Share of the comparisons in which the earlier policy is shown first.
    by_score : bool
        Labelling probabilities that depend on the judge's verdict, recorded.
    """

    strengths: tuple[float, ...]
    n_prompts: int = 600
    pairs_per_prompt: int = 1
    n_labels: int = 100
    both_orders: bool = False
    first_share: float = 0.5
    by_score: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"m{k}" for k in range(len(self.strengths)))

    def win_probability(self, a: int, b: int) -> float:
        """That a human prefers `a` to `b`, the order not counting."""
        return float(expit(self.strengths[a] - self.strengths[b]))

    def win_rate(self, a: int) -> float:
        """Against the other policies, each weighed alike."""
        others = [b for b in range(len(self.strengths)) if b != a]
        return float(np.mean([self.win_probability(a, b) for b in others]))


_FOUR = (0.45, 0.1, -0.1, -0.45)
WORLDS: dict[str, World] = {
    "two policies, one order": World((0.2, -0.2)),
    "two policies, both orders": World((0.2, -0.2), both_orders=True),
    "two policies, 80% in one order": World((0.2, -0.2), first_share=0.8),
    "two policies, labelled by the verdict": World((0.2, -0.2), by_score=True),
    "four policies, two pairs per prompt": World(_FOUR, 400, 2),
    "four policies, all pairs, both orders": World(_FOUR, 150, 6, both_orders=True),
}


def simulate(world: World, rng: np.random.Generator) -> Comparisons:
    """Comparisons of one draw of the world."""
    k, n = len(world.strengths), world.n_prompts
    pairs = np.array([(a, b) for a in range(k) for b in range(a + 1, k)])
    chosen = np.argsort(rng.random((n, len(pairs))), axis=1)[:, : world.pairs_per_prompt]
    prompt = np.repeat(np.arange(n), world.pairs_per_prompt)
    a, b = pairs[chosen.ravel()].T
    strength = np.array(world.strengths)
    taste = rng.normal(size=(n, k))  # a prompt suits some policies better
    luck = rng.normal(size=len(prompt))
    rank = ndtr(np.sqrt(0.25) * (taste[prompt, a] - taste[prompt, b]) + np.sqrt(0.5) * luck)
    mean = expit(strength[a] - strength[b])
    chance = np.clip(betaincinv(mean * _CERTAINTY, (1.0 - mean) * _CERTAINTY, rank), 0.0, 1.0)
    side = np.where(rng.random(len(prompt)) < world.first_share, 1.0, -1.0)
    length = -strength + 0.3 * rng.normal(size=(n, k))
    longer = length[prompt, a] - length[prompt, b]
    quality = chance + 0.2 * np.tanh(longer) + rng.normal(0.0, 0.15, len(prompt))

    def judged(order: FloatArray) -> FloatArray:
        seen = quality + JUDGE_POSITION * order + rng.normal(0.0, 0.05, len(prompt))
        return np.where(seen > 0.6, 1.0, np.where(seen < 0.4, 0.0, 0.5))

    room = 4.0 * chance * (1.0 - chance)  # nobody is swayed where one response is plainly better
    human = _verdicts(chance + HUMAN_POSITION * side * room, _TIES * room, rng)
    judge = judged(side)
    share = np.full(len(prompt), world.n_labels / len(prompt))
    if world.by_score:
        share = np.where(judge == 1.0, 0.5, 1.5) * share
        share *= world.n_labels / share.sum()
        labelled = rng.random(len(prompt)) < share
    else:
        labelled = np.zeros(len(prompt), dtype=bool)
        labelled[rng.permutation(len(prompt))[: world.n_labels]] = True
    human[~labelled] = np.nan
    names = np.array(world.names)
    first, second = np.where(side > 0, a, b), np.where(side > 0, b, a)
    turned = side < 0
    rows = [(first, second, np.where(turned, 1 - judge, judge), np.where(turned, 1 - human, human))]
    if world.both_orders:
        back = judged(-side)
        rows.append((second, first, np.where(turned, back, 1 - back), np.full(len(prompt), np.nan)))
    columns = [np.concatenate(part) for part in zip(*rows, strict=True)]
    return Comparisons.from_arrays(
        prompt_id=np.tile(prompt, len(rows)),
        first=names[columns[0]].tolist(),
        second=names[columns[1]].tolist(),
        judge=columns[2],
        human=columns[3],
        label_propensity=np.tile(share, len(rows)) if world.by_score else None,
    )


def _verdicts(mean: FloatArray, tie: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Win, tie or loss with the given mean and share of ties."""
    draw = rng.random(len(mean))
    win = mean - tie / 2.0
    return np.where(draw < win, 1.0, np.where(draw < win + tie, 0.5, 0.0))


@dataclass(frozen=True)
class Coverage:
    """Shares of covering intervals, mean widths of win rates, and how often there was a ranking.

    `label_width` is the width that a plain mean of the same human verdicts would have.
    """

    win_rate: float
    strength: float
    probability: float
    width: float
    label_width: float
    given: float


def _plain_width(data: Comparisons) -> float:
    """Mean width of normal intervals from the human verdicts alone."""
    rows = np.flatnonzero(data.is_labelled)
    first, second = data.first.codes[rows], data.second.codes[rows]
    widths = []
    for k in range(len(data.policies)):
        mine = np.concatenate([data.human[rows][first == k], 1 - data.human[rows][second == k]])
        widths.append(2.0 * 1.96 * mine.std(ddof=1) / np.sqrt(len(mine)))
    return float(np.mean(widths))


def coverage_study(world: World, n_reps: int, seed: int) -> Coverage:
    """Coverage of win rates, strengths and win probabilities over all policies and pairs."""
    k = len(world.strengths)
    centred = np.array(world.strengths) - np.mean(world.strengths)
    truth = np.array([world.win_rate(a) for a in range(k)])
    entry = find_estimator("pairwise")
    hits: list[tuple[float, ...]] = []
    for r in range(n_reps):
        data = simulate(world, np.random.default_rng([seed, r]))
        estimator = entry.build(data)
        result = estimator.fit_and_estimate()
        order = [result.policies.index(name) for name in world.names]
        limits = np.array([tuple(i) for i in result.influence.intervals()])[order]
        ranking = estimator.ranking_
        row = [
            float(np.mean((limits[:, 0] <= truth) & (truth <= limits[:, 1]))),
            np.nan, np.nan, float(np.mean(limits[:, 1] - limits[:, 0])), _plain_width(data),
            float(ranking is not None),
        ]  # fmt: skip
        if ranking is not None:
            s = ranking.strengths.select(world.names)
            low, high = np.array([tuple(i) for i in s.intervals()]).T
            row[1] = float(np.mean((low <= centred) & (centred <= high)))
            low, high = np.array([tuple(i) for i in s.all_pairs().intervals()]).T
            gaps = np.array([centred[b] - centred[a] for a in range(k) for b in range(a + 1, k)])
            row[2] = float(np.mean((low <= gaps) & (gaps <= high)))
        hits.append(tuple(row))
    return Coverage(*np.nanmean(np.array(hits), axis=0).tolist())
