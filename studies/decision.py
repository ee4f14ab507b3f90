r"""How many labels until a correct decision to ship? Our methods, and the scoring of any.

A world (`studies.decision_worlds`) draws judged responses of a baseline and a candidate, all with
their labels; the study shows a method the first n pairs of labels (rows are drawn
independently, so the first n are a random sample). The candidate's true gain is set by adding a
constant to its labels, which moves every method's interval by that constant: `CASES` are four such
gains against one rule, ship if the candidate is better by more than 0.05. At the bar, where the
gain is exactly 0.05, every decision is wrong: that exposes intervals which are too short.

Shared by ``python -m benchmarks.decision`` and the tests (short versions).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from cje.analysis.anytime import TUNED_AT
from cje.data import Codes, Dataset
from cje.estimators import DirectEstimator, EstimationResult
from cje.inference import GateRule
from cje.inference.sequential import AnytimeRule, anytime_intervals
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.label.active import ActiveDesign
from studies.decision_worlds import PROMPTS, Samples

__all__ = [
    "CAP", "CASES", "LOOKS", "RULE", "SIZES", "Limits", "Outcome", "active_fixed",
    "active_sequential", "direct", "labels_only", "labels_to", "outcome", "wrong_at_each_look",
]  # fmt: skip

RULE = GateRule(min_gain=0.05)
CASES = {"gain": 0.10, "no gain": 0.0, "loss": -0.05, "at the bar": 0.05}
"""The candidate's true gain, by name."""
SIZES = (15, 30, 60, 120, 240, 480)
"""Pairs of labels of the fixed samples."""
LOOKS = tuple(round(15 * 2 ** (k / 3)) for k in range(16))
"""Pairs of labels at which a sequence is looked at; the sizes are among them."""
CAP = SIZES[-1]
"""Most pairs of labels that anybody takes."""
WANTED = 0.8
"""Share of repetitions with the correct decision that counts as enough."""

ANYTIME = {
    "mixture": AnytimeRule(TUNED_AT),
    "horizon": AnytimeRule(2 * CAP, method="spending"),
}


# ---- methods -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """A method's limits of candidate minus baseline, (repetition, look), and what a fit cost.

    `sizes` are the pairs of labels at each look. `sequential` limits hold at all looks at once.
    """

    sizes: IntArray
    low: FloatArray
    high: FloatArray
    seconds: float
    sequential: bool = False

    def at(self, sizes: Sequence[int]) -> Limits:
        """These looks only."""
        kept = np.isin(self.sizes, sizes)
        return replace(self, sizes=self.sizes[kept], low=self.low[:, kept], high=self.high[:, kept])


def labels_only(samples: Samples, sizes: Sequence[int] = SIZES) -> Limits:
    """The paired t interval (Welch's where the pairs are independent)."""
    start = time.process_time()
    limits = np.array([_t_limits(samples, n) for n in sizes])
    spent = (time.process_time() - start) / (len(samples) * len(sizes))
    return Limits(np.array(sizes), limits[:, 0].T, limits[:, 1].T, spent)


def _t_limits(samples: Samples, n: int) -> tuple[FloatArray, FloatArray]:
    base, candidate = samples.label[:, 0, :n], samples.label[:, 1, :n]
    gain = (candidate - base).mean(axis=1)
    if samples.paired:
        se, df = (candidate - base).std(axis=1, ddof=1) / np.sqrt(n), n - 1.0
    else:
        parts = np.stack([x.var(axis=1, ddof=1) / n for x in (base, candidate)])
        se = np.sqrt(parts.sum(axis=0))
        df = (n - 1.0) * parts.sum(axis=0) ** 2 / (parts**2).sum(axis=0)
    half = student.ppf(0.975, df) * se
    return gain - half, gain + half


def direct(
    samples: Samples,
    *,
    length: bool = False,
    judges: bool = False,
    sizes: Sequence[int] = LOOKS,
) -> dict[str, Limits]:
    """Ours with random labels: at each fixed size, and as both anytime sequences.

    `length` adds the response's length to the calibration. `judges` gives the mean of both judges
    as the score and the first as a covariate, as `analyze_dataset` does with several judges.
    """
    table, spent = _Table(samples, length, judges), 0.0
    found = np.full((len(samples), len(sizes), 1 + len(ANYTIME), 2), np.nan)
    for r in range(len(samples)):
        for k, n in enumerate(sizes):
            start = time.process_time()
            found[r, k] = _limits(table.fit(r, np.arange(PROMPTS) < n), 2 * n)
            spent += time.process_time() - start
    return _as_limits(sizes, found, spent)


def active_fixed(samples: Samples, sizes: Sequence[int] = SIZES) -> Limits:
    """Ours with active labels, a design of its own for every budget."""
    table, spent = _Table(samples), 0.0
    found = np.full((len(samples), len(sizes), 1 + len(ANYTIME), 2), np.nan)
    for r in range(len(samples)):
        for k, n in enumerate(sizes):
            start = time.process_time()
            for _, shown, chance in _visits(samples, r, n, (n,)):
                found[r, k] = _limits(table.fit(r, shown, chance), 2 * int(shown.sum()))
            spent += time.process_time() - start
    return _as_limits(sizes, found, spent)["fixed"]


def active_sequential(samples: Samples, sizes: Sequence[int] = LOOKS) -> dict[str, Limits]:
    """Ours with active labels, one design with the cap as its budget, looked at on the way."""
    table, spent = _Table(samples), 0.0
    found = np.full((len(samples), len(sizes), 1 + len(ANYTIME), 2), np.nan)
    for r in range(len(samples)):
        start = time.process_time()
        for k, shown, chance in _visits(samples, r, CAP, sizes):
            found[r, k] = _limits(table.fit(r, shown, chance), 2 * int(shown.sum()))
        spent += time.process_time() - start
    return _as_limits(sizes, found, spent)


def _visits(
    samples: Samples, r: int, budget: int, sizes: Sequence[int]
) -> Iterator[tuple[int, BoolArray, FloatArray]]:
    """Run the design; at each size reached: its place, the labelled pairs, all their chances."""
    score, label = samples.score[r], samples.label[r]
    design = ActiveDesign(score.T, budget, seed=r)
    shown = np.zeros(PROMPTS, dtype=bool)
    chance = np.full(PROMPTS, np.nan)  # a pair not visited has none
    place = {n: k for k, n in enumerate(sizes)}
    while not design.finished:
        visit = design.visit()
        chance[visit.unit] = visit.propensity
        if visit.shown:
            shown[visit.unit] = True
            design.learn(score[:, visit.unit], label[:, visit.unit])
            if design.shown in place:
                yield place[design.shown], shown, chance * design.visited / PROMPTS


class _Table:
    """A world's samples as data sets of the library."""

    def __init__(self, samples: Samples, length: bool = False, judges: bool = False) -> None:
        self.samples = samples
        n = PROMPTS if samples.paired else 2 * PROMPTS
        codes = np.tile(np.arange(PROMPTS), 2) if samples.paired else np.arange(n)
        self.prompt = Codes(codes, [f"q{i}" for i in range(n)])
        self.policy = Codes(np.repeat([0, 1], PROMPTS), ["base", "candidate"])
        self.all_rows = Codes(np.zeros(2 * PROMPTS, dtype=np.intp), ["all"])
        self.columns: dict[str, FloatArray] = {}
        self.score = samples.score
        if length:
            self.columns["length"] = samples.length
        if judges:
            if samples.second is None:
                raise ValueError("this world has one judge")
            self.score = 0.5 * (samples.score + samples.second)
            self.columns["first_judge"] = samples.score

    def fit(self, r: int, shown: BoolArray, chance: FloatArray | None = None) -> EstimationResult:
        """The values from repetition `r` with the labels of the shown pairs.

        `estimate_by` over a subgroup that is everything: the numbers of `fit_and_estimate` without
        its diagnostics, in 60% of the time.
        """
        data = Dataset.from_arrays(
            prompt_id=self.prompt, policy=self.policy, judge_score=self.score[r].ravel(),
            oracle_label=np.where(shown, self.samples.label[r], np.nan).ravel(),
            label_propensity=None if chance is None else np.tile(chance, 2),
            covariates={name: column[r].ravel() for name, column in self.columns.items()},
            groups={"rows": self.all_rows},
        )  # fmt: skip
        return DirectEstimator(data, covariates=tuple(self.columns)).estimate_by("rows")


def _limits(result: EstimationResult, n_labels: int) -> FloatArray:
    """(rule, 2): the fixed interval of the difference, then each anytime one; NaN if refused."""
    if result.refused():
        return np.full((1 + len(ANYTIME), 2), np.nan)
    base, candidate = result.influence.names
    gain = result.influence.difference(candidate, base)
    looks = [anytime_intervals(gain, n_labels, rule)[0] for rule in ANYTIME.values()]
    return np.array([list(looks[0].fixed), *(list(look.interval) for look in looks)])


def _as_limits(sizes: Sequence[int], found: FloatArray, spent: float) -> dict[str, Limits]:
    each = spent / (found.shape[0] * found.shape[1])
    return {
        name: Limits(np.array(sizes), found[:, :, k, 0], found[:, :, k, 1], each, k > 0)
        for k, name in enumerate(("fixed", *ANYTIME))
    }


# ---- scoring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a method did in one case.

    Parameters
    ----------
    enough : (value, low, high)
        Labels (both policies) with which the wanted share decides correctly, and its 95%
        bootstrap interval over repetitions; infinite where the cap does not suffice.
    mean, median : float
        Labels taken: at stopping, the cap where nothing was decided. A fixed sample takes `enough`.
    right, wrong, undecided : float
        Shares: of a sequence at the cap; of a fixed sample at the first size of at least `enough`,
        and at the bar the mean over its sizes.
    seconds : float
        Processor seconds per decision.
    """

    enough: tuple[float, float, float]
    mean: float
    median: float
    right: float
    wrong: float
    undecided: float
    seconds: float


def _decided(limits: Limits, gain: float, truth: float) -> tuple[BoolArray, BoolArray]:
    """Where `RULE` says PASS and FAIL, had the candidate this true gain."""
    move = gain - truth
    with np.errstate(invalid="ignore"):  # refused: NaN, undecided
        return limits.low + move > RULE.threshold, limits.high + move < RULE.threshold


def wrong_at_each_look(limits: Limits, truth: float) -> FloatArray:
    """Share of repetitions with a decision at each look, were the gain exactly at the bar."""
    passed, failed = _decided(limits, RULE.threshold, truth)
    return np.asarray((passed | failed).mean(axis=0))


def outcome(limits: Limits, case: str, truth: float) -> Outcome:
    """Score one method in one case."""
    passed, failed = _decided(limits, CASES[case], truth)
    at_the_bar = CASES[case] == RULE.threshold
    right, wrong = (passed, failed) if CASES[case] > RULE.threshold else (failed, passed)
    if at_the_bar:
        right, wrong = np.zeros_like(passed), passed | failed
    if limits.sequential:
        return _sequential(limits, right, wrong)
    enough = labels_to(limits.sizes, right)
    taken = min(enough[0], 2.0 * limits.sizes[-1])
    at = slice(None) if at_the_bar else int(np.searchsorted(2 * limits.sizes, taken - 1e-9))
    share = float(right[:, at].mean()), float(wrong[:, at].mean())
    return Outcome(enough, taken, taken, *share, 1.0 - sum(share), limits.seconds)


def _sequential(limits: Limits, right: BoolArray, wrong: BoolArray) -> Outcome:
    """Stop at the first look that decides."""
    done = right | wrong
    ended = done.any(axis=1)
    first = np.where(ended, done.argmax(axis=1), done.shape[1] - 1)
    rows = np.arange(len(done))
    good, bad = ended & right[rows, first], ended & wrong[rows, first]
    by_now = good[:, None] & (np.arange(done.shape[1]) >= first[:, None])
    taken = 2.0 * limits.sizes[first]
    return Outcome(
        labels_to(limits.sizes, by_now), float(taken.mean()), float(np.median(taken)),
        float(good.mean()), float(bad.mean()), float(1.0 - ended.mean()),
        float(limits.seconds * (first + 1.0).mean()),
    )  # fmt: skip


def labels_to(
    sizes: IntArray, right: BoolArray, *, draws: int = 400, seed: int = 0
) -> tuple[float, float, float]:
    r"""Labels with which a share `WANTED` of the repetitions is right, and a bootstrap interval.

    Between two sizes the normal quantile of the share is taken as linear in :math:`\sqrt n`, as it
    is for a z test. Infinite where the largest size does not suffice; the smallest size where it
    already does.
    """
    reps = len(right)
    weights = np.random.default_rng(seed).multinomial(reps, np.full(reps, 1.0 / reps), draws) / reps
    values = [_crossing(sizes, share) for share in weights @ right.astype(float)]
    low, high = np.quantile(values, (0.025, 0.975), method="inverted_cdf")
    return 2.0 * _crossing(sizes, right.mean(axis=0)), 2.0 * float(low), 2.0 * float(high)


def _crossing(sizes: IntArray, share: FloatArray) -> float:
    enough = share >= WANTED
    if not enough.any():
        return float("inf")
    k = int(enough.argmax())
    if k == 0:
        return float(sizes[0])
    a, b = ndtri(np.clip(share[k - 1 : k + 1], 1e-4, 1.0 - 1e-4))
    part = (ndtri(WANTED) - a) / (b - a)
    x, y = np.sqrt(sizes[k - 1]), np.sqrt(sizes[k])
    return float((x + part * (y - x)) ** 2)
