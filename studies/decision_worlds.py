"""Worlds of the study of labels to a decision: judged responses with every label known.

A *world* draws judged responses of a baseline and a candidate, all with the label a person would
give, and knows the candidate's true gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from cje.kernels.arrays import FloatArray

__all__ = ["PROMPTS", "WORLDS", "Samples", "World", "resampled"]

PROMPTS = 2_000


@dataclass(frozen=True)
class Samples:
    """Repetitions of one world: arrays (repetition, policy, prompt), the baseline first.

    `second` is another judge's score, or None; `paired` says whether both responses answer one
    prompt.
    """

    score: FloatArray
    label: FloatArray
    length: FloatArray
    truth: float
    second: FloatArray | None = None
    paired: bool = True

    def __len__(self) -> int:
        return len(self.score)

    def head(self, reps: int) -> Samples:
        """The first repetitions."""
        second = None if self.second is None else self.second[:reps]
        return replace(self, score=self.score[:reps], label=self.label[:reps],
                       length=self.length[:reps], second=second)  # fmt: skip


World = Callable[[np.random.Generator, int], Samples]

_SD, _NOISE, _SHIFT = 0.2, 0.07, 0.25  # of the quality, of a person's rating; the candidate's gain
_CUTS = np.array([0.125, 0.375, 0.625, 0.875])  # five ratings from 0 to 1


def _qualities(rng: np.random.Generator, reps: int) -> FloatArray:
    """Standard normal, half of the variance shared by the responses to a prompt."""
    common = rng.standard_normal((reps, 1, PROMPTS))
    quality = np.sqrt(0.5) * (common + rng.standard_normal((reps, 2, PROMPTS)))
    quality[:, 1] += _SHIFT
    return np.asarray(quality)


def _ratings(rng: np.random.Generator, quality: FloatArray) -> FloatArray:
    """What people say, in five steps."""
    heard = 0.5 + _SD * quality + _NOISE * rng.standard_normal(quality.shape)
    return np.asarray(np.searchsorted(_CUTS, heard) / 4.0)


def _true_gain() -> float:
    """Exact: each rating's mean is the sum over the cuts of the chance to exceed them, over 4."""
    spread = np.hypot(_SD, _NOISE)
    base, moved = (ndtr((0.5 + _SD * by - _CUTS) / spread).sum() / 4.0 for by in (0.0, _SHIFT))
    return float(moved - base)


def _score(x: FloatArray) -> FloatArray:
    """A judge's scale: 21 scores from 0 to 1."""
    return np.round(20.0 * np.clip(x, 0.0, 1.0)) / 20.0


def _judge(noise: float, bias: float = 0.0) -> World:
    """A judge that errs by `noise` and likes length by `bias`; the candidate writes longer."""

    def draw(rng: np.random.Generator, reps: int) -> Samples:
        quality = _qualities(rng, reps)
        label = _ratings(rng, quality)
        size = rng.standard_normal(quality.shape)
        size[:, 1] += 0.8
        error = noise * rng.standard_normal(quality.shape) + bias * size
        return Samples(_score(0.5 + _SD * quality + error), label, 5.0 + size, _true_gain())

    return draw


def _two_judges(rng: np.random.Generator, reps: int) -> Samples:
    """Quality has two sides, and each judge sees one of them."""
    one, two = _qualities(rng, reps), _qualities(rng, reps)
    shift = np.array([0.0, _SHIFT])[None, :, None]
    quality = np.sqrt(0.5) * (one + two - 2.0 * shift) + shift
    scores = [_score(0.5 + _SD * x + 0.06 * rng.standard_normal(x.shape)) for x in (one, two)]
    size = rng.standard_normal(quality.shape)
    return Samples(scores[0], _ratings(rng, quality), 5.0 + size, _true_gain(), scores[1])


def _useless(rng: np.random.Generator, reps: int) -> Samples:
    made = _judge(0.1)(rng, reps)
    return Samples(_score(rng.random(made.score.shape)), made.label, made.length, made.truth)


WORLDS: dict[str, World] = {
    "good judge": _judge(0.06),
    "mediocre judge": _judge(0.25),
    "judge that likes length": _judge(0.05, bias=0.15),
    "two judges, each sees one side": _two_judges,
    "useless judge": _useless,
}


def resampled(base: FloatArray, candidate: FloatArray) -> World:
    """Rows (score, label, length) of two real policies, drawn with replacement.

    The truth is the difference of their mean labels. The two responses of a pair are independent.
    """
    truth = float(candidate[:, 1].mean() - base[:, 1].mean())

    def draw(rng: np.random.Generator, reps: int) -> Samples:
        rows = np.stack(
            [part[rng.integers(0, len(part), (reps, PROMPTS))] for part in (base, candidate)],
            axis=1,
        )
        return Samples(rows[..., 0], rows[..., 1], rows[..., 2], truth, paired=False)

    return draw
