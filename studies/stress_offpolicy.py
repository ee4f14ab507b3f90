"""Adversarial data for the off-policy estimators: generators, truth, and what each cell must show.

A response has a visible quality x, which the judge scores, and a hidden one h, which it does not; both are N(0, 1)
under the logging policy and N(shift, 1) and N(hidden, 1) under the target, so that the exact log-ratio is known. The
label's mean is Phi(a x' + b h) with x' the judge's latent score, and every true value is in closed form. The recorded
log-probs may then be made wrong. `CELLS` is read by the benchmark, and in short form by the tests.
"""  # noqa: E501

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from cje import PrecomputedSampler
from cje.data import Dataset
from cje.estimators import EstimationResult, find_estimator
from cje.estimators.offpolicy.doubly_robust import DRCPOEstimator

FloatArray = NDArray[np.float64]
LOGGED = ("ips", "snips", "calibrated-ips")
BOTH = ("dr-cpo", "mrdr", "tmle", "tr-cpo", "stacked-dr")
ALL = LOGGED + BOTH
_NOISE, _PROMPT = 0.6, 0.5
_NORM = float(np.sqrt(1.0 + _NOISE**2 + _PROMPT**2))


@dataclass(frozen=True)
class World:
    """One data-generating process; the defaults are an honest log with an overlap of 0.61."""

    n: int = 1500
    n_labels: int = 250
    shift: float = 0.7  # of x under the target
    hidden: float = 0.0  # of h under the target
    slope: float = 0.9  # of the label in the judge's latent score
    hidden_slope: float = 0.0  # of the label in h
    binary: bool = False
    noise: float = 0.0  # sd of each recorded log-prob between scorings
    stated_noise: bool = False  # and it is declared
    per_length: float = 0.0  # error of the log-ratio per sd of length, which follows h
    length_noise: float = 0.0  # sd of the error at mean length; its variance grows with length
    truncated: float | None = None  # the logging policy never answers above this quantile of x
    offset: float = 0.0  # constant error of the log-ratio
    heavy: bool = False  # x of the target has a larger spread: the weights have a heavy tail
    draws: int = 1  # logged rows per prompt
    by_weight: bool = False  # labels chosen by the target's weight, probabilities recorded
    lengths: bool = False  # both files have the column length

    def truth(self) -> float:
        """The target's value."""
        spread = 1.3**2 if self.heavy else 1.0
        seen = self.slope**2 * (spread + _NOISE**2 + _PROMPT**2) / _NORM**2
        variance = seen + self.hidden_slope**2
        mean = self.slope * self.shift / _NORM + self.hidden_slope * self.hidden
        return float(ndtr(mean / np.sqrt(1.0 + variance)))


@dataclass(frozen=True)
class Logs:
    """One log and the target's own draws."""

    logged: Dataset
    fresh: Dataset


def draw(world: World, rng: np.random.Generator) -> Logs:
    """One log of `world`."""
    prompts = world.n // world.draws
    effect = rng.standard_normal(prompts)
    prompt = np.repeat(np.arange(prompts), world.draws)
    n = len(prompt)
    x = rng.standard_normal(n)
    if world.truncated is not None:
        x = ndtri(rng.random(n) * world.truncated)
    h = rng.standard_normal(n)
    score, latent = _judge(x, effect[prompt], rng)
    label = _label(world, latent, h, rng)
    length = _length(h, rng)
    ratio = _log_ratio(world, x, h) + _error(world, length, rng)
    pi = _propensity(world, np.exp(ratio))
    chosen = rng.random(n) < pi
    if not world.by_weight:
        chosen = np.zeros(n, dtype=bool)
        chosen[rng.choice(n, world.n_labels, replace=False)] = True
    base = -30.0 - 5.0 * rng.standard_exponential(n)
    ids = np.array([f"p{i}" for i in range(prompts)])
    logged = Dataset.from_arrays(
        prompt_id=ids[prompt],
        policy="base",
        draw_idx=np.tile(np.arange(world.draws), prompts),
        judge_score=score,
        oracle_label=np.where(chosen, label, np.nan),
        label_propensity=pi if world.by_weight else None,
        base_policy_logprob=base,
        target_policy_logprobs={"t": base + ratio},
        covariates={"length": length} if world.lengths else None,
    )
    scale = 1.3 if world.heavy else 1.0
    target_x = world.shift + scale * rng.standard_normal(prompts)
    target_length = _length(world.hidden + rng.standard_normal(prompts), rng)
    fresh = Dataset.from_arrays(
        prompt_id=ids,
        policy="t",
        judge_score=_judge(target_x, effect, rng)[0],
        oracle_label=np.full(prompts, np.nan),
        covariates={"length": target_length} if world.lengths else None,
    )
    return Logs(logged, fresh)


def _judge(
    x: FloatArray, effect: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    latent = (x + _NOISE * rng.standard_normal(len(x)) + _PROMPT * effect) / _NORM
    return np.asarray(ndtr(latent)), latent


def _label(world: World, latent: FloatArray, h: FloatArray, rng: np.random.Generator) -> FloatArray:
    mean = np.clip(ndtr(world.slope * latent + world.hidden_slope * h), 1e-6, 1.0 - 1e-6)
    if world.binary:
        return (rng.random(len(mean)) < mean).astype(np.float64)
    return rng.beta(8.0 * mean, 8.0 * (1.0 - mean))


def _log_ratio(world: World, x: FloatArray, h: FloatArray) -> FloatArray:
    scale = 1.3 if world.heavy else 1.0
    visible = -0.5 * ((x - world.shift) / scale) ** 2 - np.log(scale) + 0.5 * x**2
    return np.asarray(visible + world.hidden * h - 0.5 * world.hidden**2)


def _length(h: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Standardised length of a response, which follows its hidden quality."""
    return np.asarray(0.7 * h + np.sqrt(1.0 - 0.7**2) * rng.standard_normal(len(h)))


def _error(world: World, length: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Error of the recorded log-ratio: that of two log-probs."""
    spread = np.sqrt(2.0) * world.noise + world.length_noise * np.exp(0.25 * length)
    noise = spread * rng.standard_normal(len(length))
    return np.asarray(noise + world.per_length * length + world.offset)


def _propensity(world: World, weight: FloatArray) -> FloatArray:
    share = world.n_labels / len(weight)
    if not world.by_weight:
        return np.full(len(weight), share)
    return np.clip(share * (0.3 + 0.7 * weight / weight.mean()), 0.01, 1.0)


@dataclass(frozen=True)
class Cell:
    """A world, the estimators tried in it, and what must hold.

    Attributes
    ----------
    rule : {"cover", "cover or refuse", "cannot be seen"}
        ``cover``: 93.5-96.5% of the intervals that are not refused, and most are not.
        ``cover or refuse``: at least 93.5% of those not refused, where more than 2% are not.
    """

    name: str
    world: World
    rule: str = "cover"
    estimators: tuple[str, ...] = ALL
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One estimate: its error, its interval, and whether it was refused."""

    error: float
    covered: bool
    width: float
    refused: bool


def estimates(cell: Cell, logs: Logs) -> Iterator[tuple[str, EstimationResult]]:
    """Every estimator of the cell on one log, with the preparation shared."""
    options = dict(cell.options)
    if cell.world.stated_noise:
        options["logprob_noise"] = cell.world.noise
    sampler = PrecomputedSampler(logs.logged)
    problem = DRCPOEstimator(sampler, logs.fresh, **options).prepare()
    for name in cell.estimators:
        make = find_estimator(name).load()
        yield name, make(sampler, logs.fresh, **options).estimate(problem)


def records(cell: Cell, repetitions: int, seed: int) -> dict[str, list[Record]]:
    """Repetitions of one cell, by estimator."""
    rng = np.random.default_rng([seed, sum(map(ord, cell.name))])
    truth = cell.world.truth()
    found: dict[str, list[Record]] = {name: [] for name in cell.estimators}
    for _ in range(repetitions):
        for name, result in estimates(cell, draw(cell.world, rng)):
            (low, high), refused = result.ci()[0], result.refused()
            value = float(result.estimates[0])
            found[name].append(
                Record(value - truth, bool(low <= truth <= high), high - low, "t" in refused)
            )
    return found


@dataclass(frozen=True)
class Summary:
    """Coverage among the estimates not refused; silent: share of all that missed unrefused."""

    cell: str
    estimator: str
    repetitions: int
    used: int
    coverage: float
    refused: float
    silent: float
    bias: float
    sd: float
    width: float

    @property
    def width_ratio(self) -> float:
        """Mean width over 2 x 1.96 x the true standard deviation of the estimator."""
        return self.width / (2.0 * 1.96 * self.sd) if self.sd > 0 else np.inf


def summary(cell: Cell, name: str, found: Sequence[Record]) -> Summary:
    used = [r for r in found if not r.refused]
    judged = used or list(found)
    errors = np.array([r.error for r in judged])
    silent = [r for r in used if not r.covered]
    return Summary(
        cell.name,
        name,
        len(found),
        len(used),
        float(np.mean([r.covered for r in judged])),
        1.0 - len(used) / len(found),
        len(silent) / len(found),
        float(errors.mean()),
        float(errors.std()),
        float(np.mean([r.width for r in judged])),
    )


def _hidden(slope: float, **more: Any) -> World:
    """The label follows a quality that the judge does not see and the target has more of."""
    return World(shift=0.5, hidden=0.5, hidden_slope=slope, **more)


_LENGTH = World(per_length=0.3, hidden_slope=0.4)
_EITHER = "cover or refuse"
CELLS: tuple[Cell, ...] = (
    Cell("honest log", World()),
    Cell("honest log, 0/1 labels", World(binary=True)),
    Cell("honest log, 80 labels", World(n_labels=80)),
    Cell("honest log, 5 rows per prompt", World(draws=5)),
    Cell("honest log, heavier tail", World(heavy=True, shift=0.4)),
    Cell("honest log, labels chosen by weight", World(by_weight=True)),
    *(Cell(f"hidden quality, slope {s}", _hidden(s)) for s in (0.05, 0.1, 0.2, 0.5)),
    Cell("hidden quality, 80 labels", _hidden(0.5, n_labels=80), _EITHER),
    Cell("hidden quality, 0/1 labels", _hidden(0.5, binary=True)),
    Cell("log-prob noise .3", World(noise=0.3), _EITHER),
    Cell("log-prob noise .3, stated", World(noise=0.3, stated_noise=True), _EITHER),
    Cell("log-prob noise .5", World(noise=0.5), _EITHER),
    Cell("log-prob noise .5, stated", World(noise=0.5, stated_noise=True), _EITHER),
    Cell("log-prob noise by length", World(length_noise=0.5, hidden_slope=0.4), _EITHER),
    Cell("log-probs wrong by length", replace(_LENGTH, lengths=True), _EITHER, BOTH),
    Cell("log-probs weakly wrong by length",
         replace(_LENGTH, per_length=0.1, lengths=True), _EITHER, BOTH),
    Cell("log-probs off by a constant", World(offset=0.4), _EITHER),
    *(Cell(f"truncated support, {q:.0%}", World(truncated=q), _EITHER) for q in (0.98, 0.9, 0.7)),
    # What no check can see: lengths that were not recorded. Its figures go into the docs.
    Cell("log-probs wrong by an unrecorded length", _LENGTH, "cannot be seen"),
)  # fmt: skip


def line(s: Summary) -> str:
    """One line of figures."""
    return (
        f"{s.cell:40s} {s.estimator:15s} cov {s.coverage:.3f} refused {s.refused:.2f} silent "
        f"{s.silent:.3f} bias {s.bias:+.4f} sd {s.sd:.4f} width/ {s.width_ratio:.2f}"
    )


def main(repetitions: int = 300, seed: int = 1, only: str = "") -> None:
    """Print one line per cell and estimator."""
    for cell in CELLS:
        if only in cell.name:
            for name, found in records(cell, repetitions, seed).items():
                print(line(summary(cell, name, found)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
