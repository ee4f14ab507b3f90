"""Designs that are hard for `direct`: dependence, few labels, skewed and rare labels, selection.

Shared by ``python -m benchmarks.stress`` and the tests (short versions). A cell draws data whose
truth is known; `study` says how often intervals cover, how often a value is refused, and how wide
the intervals are against the t interval with the estimator's true standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import beta as beta_law
from scipy.stats import t as t_law

from cje.data import RaterLabels
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators import DirectEstimator
from cje.kernels.arrays import FloatArray
from cje.results import EstimationResult

__all__ = [
    "CELLS", "Cell", "Records", "Sample", "Study", "labels_alone", "records", "study", "summary",
]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One data set and the true value of each policy that is judged by it."""

    dataset: Dataset
    truth: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)
    watched: tuple[str, ...] = ()  # whose intervals count; all by default


@dataclass(frozen=True)
class Cell:
    """A design: `draw` makes a sample, `df` are the degrees of freedom its labels allow."""

    name: str
    draw: Callable[[np.random.Generator], Sample]
    df: float
    binary_labels: int = 0
    may_say: tuple[str, ...] = ()  # findings that excuse a miss
    peers: bool = True  # methods that know independent rows apply
    tied: bool = False  # all policies are equal: what counts is `falsely_worse`


@dataclass(frozen=True)
class Study:
    """Results of one cell; figures are of the values that were not refused."""

    coverage: float
    refused: float
    width: float
    sd: float
    bias: float
    to_oracle: float  # mean width / (2 t sd)
    to_exact: float  # binary labels: mean width / Clopper-Pearson's on the labels alone
    best_wrong: float
    warned: float
    silent: float  # share of all values that miss, not refused and without such a finding
    falsely_worse: float  # some policy called worse than the best that is not
    low_misses: float  # interval below the truth
    high_misses: float
    t_coverage: float  # of the t interval of the labels alone
    t_width: float


@dataclass
class Records:
    """What each data set of a cell gave; records of several ranges of seeds add up."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    best_wrong: list[bool] = field(default_factory=list)
    warned: list[bool] = field(default_factory=list)
    exact_width: list[float] = field(default_factory=list)
    falsely_worse: list[bool] = field(default_factory=list)

    def __add__(self, other: Records) -> Records:
        return Records(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def study(cell: Cell, repetitions: int, *, first_seed: int = 0) -> Study:
    """Repeat draw -> estimate."""
    return summary(cell, records(cell, range(first_seed, first_seed + repetitions)))


def records(cell: Cell, seeds: range) -> Records:
    """Draw and estimate once per seed."""
    found = Records()
    for seed in seeds:
        rng = np.random.default_rng([seed, 20])
        sample = cell.draw(rng)
        options = {"seed": seed, **sample.options}
        try:
            result = DirectEstimator(sample.dataset, **options).fit_and_estimate()
        except CJEError:  # refused as a whole
            found.rows += [(True, False, *[np.nan] * 6)] * len(sample.watched or sample.truth)
            found.best_wrong.append(False)
            continue
        _add(found, cell, sample, result)
    return found


def _add(found: Records, cell: Cell, sample: Sample, result: EstimationResult) -> None:
    refused = result.refused()
    explained = bool({f.code for f in result.findings} & set(cell.may_say))
    found.warned.append(explained)
    for name, interval in zip(result.policies, result.ci(), strict=True):
        if name not in (sample.watched or sample.truth):
            continue
        value = result.estimates[result.policies.index(name)]
        alone = labels_alone(sample, name)
        found.rows.append(
            (name in refused, explained, *interval, value, sample.truth[name], *alone)
        )
    if cell.binary_labels:
        found.exact_width.append(_exact_width(sample, list(sample.truth)))
    named, ties = result.best_policy().policy, result.best_policy().ties
    top = max(sample.truth.values())
    found.best_wrong.append(named is not None and sample.truth.get(named, top) < top)
    apart = {*sample.truth} - {named, *ties, *refused}
    found.falsely_worse.append(any(sample.truth[p] >= sample.truth.get(named, top) for p in apart))


def summary(cell: Cell, found: Records) -> Study:
    """Coverage, refusals, widths and errors of what was recorded."""
    refuse, explained, low, high, value, truth, t_low, t_high = np.array(found.rows, float).T
    use = refuse == 0
    best, warned = float(np.mean(found.best_wrong)), float(np.mean(found.warned or [False]))
    if not use.any():
        known = {"refused": 1.0, "best_wrong": best, "warned": warned, "silent": 0.0}
        return Study(**dict.fromkeys(Study.__annotations__, float("nan")) | known)
    error, width = (value - truth)[use], (high - low)[use]
    hit = (low <= truth) & (truth <= high)
    sd = float(error.std())
    exact = float(np.mean(found.exact_width)) if found.exact_width else float("nan")
    return Study(
        coverage=float(hit[use].mean()),
        refused=float(refuse.mean()),
        width=float(width.mean()),
        sd=sd,
        bias=float(error.mean()),
        to_oracle=float(width.mean() / (2.0 * t_law.ppf(0.975, cell.df) * sd)) if sd else np.nan,
        to_exact=float(width.mean()) / exact,
        best_wrong=best,
        warned=warned,
        silent=float((use & ~hit & (explained == 0)).mean()),
        falsely_worse=float(np.mean(found.falsely_worse)),
        low_misses=float((high < truth)[use].mean()),
        high_misses=float((low > truth)[use].mean()),
        t_coverage=float(((t_low <= truth) & (truth <= t_high))[use].mean()),
        t_width=float(np.nanmean((t_high - t_low)[use])),
    )


def labels_alone(sample: Sample, name: str) -> tuple[float, float]:
    """The t interval of the mean of a policy's labels."""
    y = sample.dataset.oracle_label[sample.dataset.policy.mask(name)]
    y = y[np.isfinite(y)]
    half = float(t_law.ppf(0.975, len(y) - 1) * y.std(ddof=1) / np.sqrt(len(y)))
    return float(y.mean()) - half, float(y.mean()) + half


def _exact_width(sample: Sample, names: list[str]) -> float:
    """Clopper-Pearson's width from each policy's labels alone."""
    widths = []
    for name in names:
        y = sample.dataset.oracle_label[sample.dataset.policy.mask(name)]
        y = y[np.isfinite(y)]
        k, n = float(y.sum()), len(y)
        low = beta_law.ppf(0.025, k, n - k + 1) if k > 0 else 0.0
        high = beta_law.ppf(0.975, k + 1, n - k) if k < n else 1.0
        widths.append(high - low)
    return float(np.mean(widths))


# ---- data ------------------------------------------------------------------------------------


def _dataset(
    policies: Mapping[str, Mapping[str, Any]], *, prompt: Any = None, **extra: Any
) -> Dataset:
    """Policies on shared prompts; each part gives score, label and labelled."""
    names = list(policies)
    n = len(policies[names[0]]["score"])
    prompt = np.arange(n) if prompt is None else prompt
    score = np.concatenate([p["score"] for p in policies.values()])
    label = np.concatenate([np.where(p["labelled"], p["label"], np.nan) for p in policies.values()])
    shared = {k: np.tile(v, len(names)) for k, v in extra.items() if v is not None}
    return Dataset.from_arrays(
        prompt_id=np.tile([f"p{i}" for i in prompt], len(names)),
        policy=np.repeat(names, n),
        judge_score=score,
        oracle_label=label,
        **shared,
    )


def _some(rng: np.random.Generator, n: int, labels: int) -> np.ndarray:
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.choice(n, labels, replace=False)] = True
    return chosen


def whole_prompts(rng: np.random.Generator, prompts: int, *, total: int = 60) -> Sample:
    """Ten draws of each prompt, all draws of `prompts` prompts labelled."""
    draws, parts = 10, {}
    prompt = np.repeat(np.arange(total), draws)
    chosen = _some(rng, total, prompts)[prompt]
    common = rng.normal(0, 0.06, total)
    for k, name in enumerate("ab"):
        quality = 0.5 + 0.05 * k + (common + rng.normal(0, 0.06, total))[prompt]
        label = quality + rng.uniform(-0.1, 0.1, len(prompt))
        score = np.clip(label + rng.normal(0, 0.1, len(prompt)), 0, 1)
        parts[name] = {"score": score, "label": np.clip(label, 0, 1), "labelled": chosen}
    return Sample(_dataset(parts, prompt=prompt), {"a": 0.5, "b": 0.55})


def users(
    rng: np.random.Generator, size: int, *, named: bool = True, labels: int = 100, total: int = 600
) -> Sample:
    """Rows of one user err alike (intraclass correlation one half); the user is the cluster."""
    user = np.arange(total) // size
    parts = {}
    for k, name in enumerate("ab"):
        score = rng.random(total)
        effect = rng.normal(0, 0.1, user.max() + 1)[user]
        label = 0.3 + 0.05 * k + 0.4 * score + effect + rng.normal(0, 0.1, total)
        parts[name] = {
            "score": score,
            "label": np.clip(label, 0, 1),
            "labelled": _some(rng, total, labels),
        }
    names = np.array([f"u{u}" for u in user])
    data = _dataset(parts, cluster=names if named else None)
    if not named:
        data = data.with_columns(user_id=np.tile(names, 2))
    return Sample(data, {"a": 0.5, "b": 0.55})


def inflated(rng: np.random.Generator, own: int, *, total: int = 400) -> Sample:
    """A bad policy that the judge scores above all others, with `own` labels."""
    parts = {}
    for k, name in enumerate(("good", "fair")):
        score = rng.beta(4, 3, total)
        label = np.clip(0.15 + 0.05 * (1 - k) + 0.7 * score + rng.normal(0, 0.1, total), 0, 1)
        parts[name] = {"score": score, "label": label, "labelled": _some(rng, total, 60)}
    score = rng.beta(12, 2, total)
    label = np.clip(0.1 + 0.25 * score + rng.normal(0, 0.1, total), 0, 1)
    parts["bad"] = {"score": score, "label": label, "labelled": _some(rng, total, own)}
    truth = {"good": 0.2 + 0.7 * 4 / 7, "fair": 0.15 + 0.7 * 4 / 7, "bad": 0.1 + 0.25 * 12 / 14}
    return Sample(_dataset(parts), truth, watched=("bad",))


def slightly_off(rng: np.random.Generator, own: int, offset: float, *, total: int = 400) -> Sample:
    """A policy on which the judge is off by `offset`, with `own` labels."""
    parts = {}
    for k, name in enumerate(("good", "fair", "new")):
        score = rng.beta(4, 3, total)
        mean = 0.15 + 0.05 * (k == 0) + 0.7 * score + (offset if name == "new" else 0.0)
        label = np.clip(mean + rng.normal(0, 0.12, total), 0, 1)
        n = own if name == "new" else 60
        parts[name] = {"score": score, "label": label, "labelled": _some(rng, total, n)}
    return Sample(_dataset(parts), {"new": 0.15 + 0.7 * 4 / 7 + offset})


def rare(
    rng: np.random.Generator, p: float, labels: int, informative: bool, *, total: int = 1000
) -> Sample:
    """Labels 0 or 1 with a rate within 25% of `p`, which averages the discreteness."""
    rate = p * rng.uniform(0.75, 1.25)
    parts, truth = {}, {}
    for name in "ab":
        risk = np.full(total, rate)
        score = rng.random(total)
        if informative:
            shape = np.where(score < 0.8, 0.25, 4.0)  # averages one
            risk = rate * shape
            risk = np.minimum(risk, 1.0)
        label = (rng.random(total) < risk).astype(float)
        parts[name] = {"score": score, "label": label, "labelled": _some(rng, total, labels)}
        truth[name] = rate
    return Sample(_dataset(parts), truth)


def noisy(
    rng: np.random.Generator, kind: str, labels: int, *, total: int = 500, policies: str = "ab"
) -> Sample:
    """Residuals with symmetric heavy tails, heteroscedastic, or normal."""
    parts, truth = {}, {}
    for k, name in enumerate(policies):
        score = rng.random(total)
        if kind == "heavy tails":
            noise = 0.05 * rng.standard_t(3, total)
        elif kind == "heteroscedastic":
            noise = rng.normal(0, 1, total) * 0.3 * np.abs(score - 0.5) ** 2 * 4
        else:
            noise = rng.normal(0, 0.1, total)
        noise = np.clip(noise, -0.3, 0.3)
        label = 0.3 + 0.05 * k + 0.3 * score + noise
        parts[name] = {"score": score, "label": label, "labelled": _some(rng, total, labels)}
        truth[name] = 0.45 + 0.05 * k
    return Sample(_dataset(parts), truth)


_LOGNORMAL = 40.0


def lognormal(rng: np.random.Generator, labels: int, *, total: int = 500) -> Sample:
    """Labels with a lognormal right tail."""
    parts, truth = {}, {}
    mean = _lognormal_mean()
    for name in "ab":
        z = rng.normal(size=(2, total))
        score = 1.0 / (1.0 + np.exp(-z[0]))
        label = np.minimum(np.exp(0.6 * z[0] + 0.8 * z[1]) / _LOGNORMAL, 1.0)
        parts[name] = {"score": score, "label": label, "labelled": _some(rng, total, labels)}
        truth[name] = mean
    return Sample(_dataset(parts), truth)


def _lognormal_mean() -> float:
    """E min(exp(Z)/c, 1) for a standard normal Z."""
    from scipy.stats import norm

    cut = np.log(_LOGNORMAL)
    return float(np.exp(0.5) / _LOGNORMAL * norm.cdf(cut - 1.0) + norm.sf(cut))


def first_rows(rng: np.random.Generator, *, timed: bool, total: int = 500) -> Sample:
    """The first 50 rows are labelled while the labels drift and the judge misses it."""
    time = np.arange(total) / total
    parts = {}
    for name in "ab":
        score = rng.random(total)
        label = 0.2 + 0.3 * score + 0.3 * time + rng.normal(0, 0.05, total)
        labelled = np.arange(total) < 50
        parts[name] = {"score": score, "label": np.clip(label, 0, 1), "labelled": labelled}
    data = _dataset(parts)
    if timed:
        data = data.with_columns(created_at=np.tile(time, 2))
    return Sample(data, {"a": 0.5, "b": 0.5})


def log_uniform(rng: np.random.Generator, least: float, *, total: int = 1000) -> Sample:
    """Rows labelled with recorded chances, log-uniform above `least`."""
    parts: dict[str, dict[str, FloatArray]] = {}
    chances = []
    for name in "ab":
        score = rng.random(total)
        chance = np.exp(rng.uniform(np.log(least), 0.0, total))
        label = 0.3 + 0.4 * score + rng.uniform(-0.2, 0.2, total)
        parts[name] = {"score": score, "label": label, "labelled": rng.random(total) < chance}
        chances.append(chance)
    data = _dataset(parts).with_columns(label_propensity=np.concatenate(chances))
    return Sample(data, {"a": 0.5, "b": 0.5})


def equal(rng: np.random.Generator, policies: int, labels: int = 30, *, total: int = 300) -> Sample:
    """Policies of one value: whichever leads, none is worse."""
    parts = {}
    for k in range(policies):
        score = rng.random(total)
        label = np.clip(0.35 + 0.3 * score + rng.normal(0, 0.1, total), 0, 1)
        parts[f"v{k:02d}"] = {
            "score": score, "label": label, "labelled": _some(rng, total, labels)
        }  # fmt: skip
    return Sample(_dataset(parts), dict.fromkeys(parts, 0.5))


def rated(
    rng: np.random.Generator, raters: int, effect: float, crossed: bool, *, total: int = 400
) -> Sample:
    """Raters with effects of their own, drawn anew; each row by one rater, or by all."""
    labels, shift = 60, rng.normal(0, effect, raters)
    names, values, scores, rows, who, single = "ab", [], [], [], [], []
    for k in range(2):
        score = rng.random(total)
        quality = 0.3 + 0.05 * k + 0.4 * score + rng.normal(0, 0.08, total)
        chosen = np.flatnonzero(_some(rng, total, labels))
        per_row = np.arange(raters)[None] if crossed else rng.integers(0, raters, (labels, 1))
        rater = np.broadcast_to(per_row, (labels, raters if crossed else 1))
        given = quality[chosen, None] + shift[rater] + rng.normal(0, 0.05, rater.shape)
        rows.append(np.repeat(chosen + k * total, rater.shape[1]))
        who.append(rater.ravel())
        single.append(np.clip(given, 0, 1).ravel())
        scores.append(np.clip(score, 0, 1))
        values.append(0.5 + 0.05 * k)
    data = Dataset.from_arrays(
        prompt_id=np.tile([f"p{i}" for i in range(total)], 2),
        policy=np.repeat(list(names), total),
        judge_score=np.concatenate(scores),
        rater_labels=RaterLabels.from_arrays(
            np.concatenate(rows), np.concatenate(single),
            [f"r{j}" for j in np.concatenate(who)],
        ),
    )  # fmt: skip
    return Sample(data, dict(zip(names, values, strict=True)))


def _cells() -> list[Cell]:
    cells = [
        Cell(f"{k} whole prompts of 10 draws labelled", partial(whole_prompts, prompts=k), k - 1.0)
        for k in (2, 3, 5, 10, 20)
    ]
    cells += [
        Cell(f"users of {size} rows, intraclass correlation 0.5", partial(users, size=size),
             df, peers=False)
        for size, df in ((5, 60.0), (20, 28.0))
    ]  # fmt: skip
    cells += [
        Cell("users of 20 rows, not named as clusters", partial(users, size=20, named=False),
             28.0, may_say=("cluster-not-used",))
    ]  # fmt: skip
    cells += [
        Cell(f"inflated judge, {own} labels of its own", partial(inflated, own=own), own - 1.0)
        for own in (3, 5, 6, 7, 8, 12)
    ]
    cells += [
        Cell(f"judge off by {off}, {own} labels of its own",
             partial(slightly_off, own=own, offset=off), own - 1.0)
        for own in (4, 7) for off in (0.0, 0.06, 0.12)
    ]  # fmt: skip
    cells += [
        Cell(f"binary labels at {p:.0%}, {n} labels, {'a' if told else 'no'} judge",
             partial(rare, p=p, labels=n, informative=told), n - 1.0, binary_labels=n)
        for p in (0.02, 0.1) for n in (25, 50, 100, 200) for told in (False, True)
    ]  # fmt: skip
    cells += [
        Cell(f"{kind}, {n} labels", partial(noisy, kind=kind, labels=n), n - 2.0)
        for kind in ("normal", "heavy tails", "heteroscedastic") for n in (12, 30, 50)
    ]  # fmt: skip
    cells += [
        Cell(f"lognormal, {n} labels", partial(lognormal, labels=n), n - 2.0,
             may_say=("few-labels", "skewed-labels"))
        for n in (12, 30, 100)
    ]  # fmt: skip
    cells += [
        Cell(f"log-uniform propensities {least}-1", partial(log_uniform, least=least), 100.0,
             peers=False)
        for least in (0.1, 0.03, 0.01)
    ]  # fmt: skip
    cells += [
        Cell(f"{n} raters, effects {effect}, {'all rate each row' if crossed else 'one per row'}",
             partial(rated, raters=n, effect=effect, crossed=crossed), n - 1.0, peers=False)
        for n in (3, 8) for effect, crossed in ((0.1, False), (0.1, True), (0.0, False))
    ]  # fmt: skip
    cells += [
        Cell(f"{k} equal policies, {n} labels each", partial(equal, policies=k, labels=n), n - 2.0,
             peers=False, tied=True)
        for k, n in ((5, 30), (20, 30), (30, 30), (40, 30), (30, 12))
    ]  # fmt: skip
    cells += [
        Cell("first 50 rows, drift, time recorded", partial(first_rows, timed=True), 48.0),
        Cell("first 50 rows, drift, no time", partial(first_rows, timed=False), 48.0,
             may_say=("first-rows-labelled",)),
    ]  # fmt: skip
    return cells


CELLS = _cells()
