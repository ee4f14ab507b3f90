r"""Intervals of statistics that leave out one prompt at a time.

A statistic :math:`\theta = h(\sum_g s_g)` of sums by prompt is computed without prompt g from the
sums alone: :math:`h(\sum s - s_g)`. The jackknife variance of :math:`t(\theta)`, on a scale t where
it is closer to normal, gives a t interval that is mapped back.

References
----------
Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 11; Korn & Graubard (1998),
"Confidence intervals for proportions with small expected number of positive counts", Survey
Methodology 24, 193-201.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cje.inference import jackknife_influence
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["Clustered", "LeftOut"]

Scale = Literal["plain", "fisher", "share", "unexplained"]
_CLOSE = 1e-12  # to the end of the scale


@dataclass(frozen=True)
class LeftOut:
    """A statistic, and its values with each prompt left out."""

    value: float
    without: FloatArray

    def interval(
        self, scale: Scale, level: float, *, wider: float = 1.0
    ) -> tuple[float, float] | None:
        """Limits, or None where leaving out one prompt leaves nothing to compute.

        `wider` multiplies the standard error, for a fit that the jackknife does not repeat.

        ``plain``: the t interval. ``fisher``: on the scale of atanh, for correlations and
        agreement. ``share``: Clopper and Pearson's limits at the effective number of prompts.
        ``unexplained``: on the log scale of one minus the statistic, for R2.
        """
        n = len(self.without)
        if n < 2 or not (np.isfinite(self.value) and np.isfinite(self.without).all()):
            return None
        if scale == "share":
            return _share_limits(self.value, self._standard_error("plain"), n, level)
        at_the_end = scale == "fisher" and abs(self.value) > 1.0 - _CLOSE
        if at_the_end or (scale == "unexplained" and self.value > 1.0 - _CLOSE):
            missing = _not_excluded(n, level)  # this share of the prompts may agree by chance
            return (1.0 - missing, 1.0) if self.value > 0 else (-1.0, missing - 1.0)
        centre, half = float(_to(scale, self.value)), wider * self._half(scale, level)
        low, high = float(_back(scale, centre - half)), float(_back(scale, centre + half))
        return (low, high) if low <= high else (high, low)

    def p_value(self) -> float:
        """Two-sided p-value of the t test that the statistic is zero."""
        from scipy.special import stdtr

        se = self._standard_error("plain")
        if se == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * stdtr(len(self.without) - 1.0, -abs(self.value) / se))

    def _standard_error(self, scale: Scale) -> float:
        influence = jackknife_influence(_to(scale, self.without)[:, None])
        return float(np.sqrt((influence**2).sum()))

    def _half(self, scale: Scale, level: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(len(self.without) - 1.0, 0.5 + level / 2.0)) * self._standard_error(
            scale
        )


@dataclass(frozen=True, eq=False)
class Clustered:
    """Rows that belong to prompts, numbered 0, 1, ... without gaps."""

    prompt: IntArray
    n_prompts: int

    @classmethod
    def of(cls, prompt: IntArray) -> Clustered:
        """Rows by any prompt numbers."""
        names, index = np.unique(prompt, return_inverse=True)
        return cls(index, len(names))

    def function(
        self, columns: FloatArray, function: Callable[[FloatArray], FloatArray]
    ) -> LeftOut:
        """A function of the columns' totals."""
        sums = cluster_sums(columns, self.prompt, self.n_prompts)
        total = sums.sum(axis=0)
        return LeftOut(float(function(total)), np.asarray(function(total - sums)))

    def influenced(self, value: float, influence: FloatArray) -> LeftOut:
        """A statistic with the influence of every row."""
        moved = cluster_sums(influence, self.prompt, self.n_prompts)
        n = self.n_prompts
        return LeftOut(value, value - moved * n / max(n - 1.0, 1.0))


def _to(scale: Scale, value: float | FloatArray) -> FloatArray:
    if scale == "fisher":
        return np.asarray(np.arctanh(np.clip(value, -1.0 + _CLOSE, 1.0 - _CLOSE)))
    if scale == "unexplained":
        return np.asarray(np.log(np.maximum(1.0 - np.asarray(value), _CLOSE)))
    return np.asarray(value, dtype=np.float64)


def _back(scale: Scale, value: float) -> float:
    if scale == "fisher":
        return float(np.tanh(value))
    return 1.0 - float(np.exp(min(value, 50.0))) if scale == "unexplained" else value


def _not_excluded(n: int, level: float) -> float:
    """The largest share of prompts that can differ although none of n does."""
    return float(1.0 - (0.5 - level / 2.0) ** (1.0 / n))


def _share_limits(p: float, se: float, n: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's limits at the effective number of independent rows."""
    from scipy.special import betaincinv, stdtrit

    effective = float(n)
    if se > 0.0 and 0.0 < p < 1.0:
        wider = stdtrit(n - 1.0, 0.5 + level / 2.0) / stdtrit(1e8, 0.5 + level / 2.0)
        effective = p * (1.0 - p) / (se * wider) ** 2
    tail, hits = 0.5 - level / 2.0, p * effective
    low = 0.0 if hits <= 0.0 else float(betaincinv(hits, effective - hits + 1.0, tail))
    misses = effective - hits
    high = 1.0 if misses <= 0.0 else float(betaincinv(hits + 1.0, misses, 1.0 - tail))
    return low, high
