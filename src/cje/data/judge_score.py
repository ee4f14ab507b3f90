"""`JudgeScore`: a judge's rating with its variance; `JudgeScores`: many of them, in two arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["MAX_VARIANCE", "JudgeScore", "JudgeScores"]

# No distribution on [0, 1] has a larger variance (Popoviciu: width squared over four).
MAX_VARIANCE = 0.25


@dataclass(frozen=True)
class JudgeScore:
    """A judge's score of one response: mean and variance on [0, 1].

    A deterministic judge has variance 0. No distribution on [0, 1] has a variance above 1/4
    (Popoviciu's inequality), so a larger one is an error of the caller.

    Examples
    --------
    >>> JudgeScore(mean=0.75, variance=0.03).std
    0.17320508075688773
    """

    mean: float
    variance: float = 0.0

    def __post_init__(self) -> None:
        _check_one(self.mean, self.variance)

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)


class JudgeScores(Sequence[JudgeScore]):
    """A batch of judge scores as two read-only arrays; indexing makes a `JudgeScore` on demand.

    Examples
    --------
    >>> scores = JudgeScores([0.2, 0.8], 0.01)
    >>> len(scores), scores[1]
    (2, JudgeScore(mean=0.8, variance=0.01))
    """

    __slots__ = ("mean", "variance")

    mean: FloatArray
    variance: FloatArray

    def __init__(self, mean: ArrayLike, variance: ArrayLike = 0.0) -> None:
        means = np.array(float_array("judge score means", mean), ndmin=1)
        if means.ndim != 1:
            raise CJEError("judge score means must be one-dimensional", value=means.shape)
        variances = float_array("judge score variances", variance)
        if variances.shape not in ((), means.shape):
            raise CJEError(
                "judge score variances must be one number or one per mean", value=variances.shape
            )
        variances = np.array(np.broadcast_to(variances, means.shape))
        _check_batch(means, variances)
        means.setflags(write=False)
        variances.setflags(write=False)
        self.mean, self.variance = means, variances

    @classmethod
    def from_scores(cls, scores: Iterable[JudgeScore]) -> JudgeScores:
        """Gather single scores into a batch."""
        pairs = np.array([(s.mean, s.variance) for s in scores], dtype=np.float64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    @property
    def std(self) -> FloatArray:
        return np.sqrt(self.variance)

    def __len__(self) -> int:
        return len(self.mean)

    @overload
    def __getitem__(self, index: int) -> JudgeScore: ...
    @overload
    def __getitem__(self, index: slice) -> JudgeScores: ...
    def __getitem__(self, index: int | slice) -> JudgeScore | JudgeScores:
        if isinstance(index, slice):
            return JudgeScores(self.mean[index], self.variance[index])
        return JudgeScore(float(self.mean[index]), float(self.variance[index]))

    def __iter__(self) -> Iterator[JudgeScore]:
        for mean, variance in zip(self.mean.tolist(), self.variance.tolist(), strict=True):
            yield JudgeScore(mean, variance)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JudgeScores):
            return NotImplemented
        return np.array_equal(self.mean, other.mean) and np.array_equal(
            self.variance, other.variance
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JudgeScores({len(self)} scores)"


def _check_one(mean: float, variance: float, where: str | None = None) -> None:
    for name, value in (("mean", mean), ("variance", variance)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise CJEError(f"judge score {name} must be a number", where=where, value=value)
    if not 0.0 <= mean <= 1.0:
        raise CJEError(
            "judge score mean must be in [0, 1]",
            where=where,
            value=mean,
            hint="map the judge's scale first: Scale(low, high).to_unit(score)",
        )
    if variance < 0.0:
        raise CJEError("judge score variance cannot be negative", where=where, value=variance)
    if not variance <= MAX_VARIANCE:  # written so that NaN fails too
        raise CJEError(
            "judge score variance is too large: on [0, 1] it is at most 0.25",
            where=where,
            value=variance,
            hint="a variance on a scale of width w must be divided by w squared",
        )


def _check_batch(mean: FloatArray, variance: FloatArray) -> None:
    good = (mean >= 0.0) & (mean <= 1.0) & (variance >= 0.0) & (variance <= MAX_VARIANCE)
    if not good.all():
        row = int(np.argmin(good))
        _check_one(float(mean[row]), float(variance[row]), where=f"row {row}")
