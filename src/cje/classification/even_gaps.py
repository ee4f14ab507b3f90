r"""An upper limit for a sum of absolute gaps that are not more even than two patterns.

Noise adds more to :math:`T = \sum_b |d_b|` where the gaps are less clear, so the largest target
with a given :math:`E\,T` spreads evenly over the cells. Without any restriction that is
:math:`|D_b| \propto s_b`: a gap which grows as a cell gets smaller, with a sign of its own in every
cell. The limit here allows two patterns: gaps of one size in every cell, and gaps of the size of
the outcome's standard deviation :math:`\sqrt{\pi_b(1-\pi_b)}` (what a wrong slope makes of scores
near 0 or 1), each with any signs. For a pattern with the target :math:`\theta`,

.. math:: E\,T = \theta + \sum_b s_b\, e(D_b/s_b),\qquad
   \operatorname{Var} T = \sum_b s_b^2\,\big(1 + \delta_b^2 - h(\delta_b)^2\big) + \tfrac1n
   \Big(\sum_b D_b^2/\pi_b - \theta^2\Big)

(`cje.classification.folded` has the notation; the last term is the random number of rows per cell).
The limit is the largest :math:`\theta` that is not rejected because T is too small. As in a score
interval, the variance of a cell whose gap is not clear is taken at the outcome's mean under the
pattern, on its noisier side: a cell without a failure is not taken for noiseless. A total more than
one standard deviation below that of a calibrated model counts as one that is so. Patterns that are
less even (a few bad cells) have a smaller target at the same :math:`E\,T`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from cje.classification.bins import BinSums
from cje.classification.folded import HALF_NORMAL_VARIANCE, Dependence, excess
from cje.kernels.arrays import FloatArray

__all__ = ["even_gap_limit"]

_PSEUDO_ROWS = 2.0  # at the mean score, so that outcomes which agree do not look noiseless
_LEAST_VARIANCE = 1e-6  # of one outcome
_CLEAR = 2.0  # standard errors
_LARGEST = 1.5  # no sum of absolute gaps is above 1


def even_gap_limit(
    cells: BinSums, share: FloatArray, error: float, dependence: Dependence | None = None
) -> float:
    """Upper limit, `error` outside, for ``sum share * |gap|`` of the population."""
    n = cells.effective
    middle = (n * cells.mean_y + _PSEUDO_ROWS * cells.mean_p) / (n + _PSEUDO_ROWS)
    variance = np.maximum(middle * (1.0 - middle), _LEAST_VARIANCE)
    noise = share * np.sqrt(variance / n)
    clear = np.abs(share * cells.gap) > _CLEAR * noise
    known = Dependence(1.0, 1.0) if dependence is None else dependence
    rows = float(cells.weight.sum() ** 2 / cells.squared.sum())
    z = -float(ndtri(error))

    def moments(target: float, pattern: FloatArray) -> tuple[float, float]:
        """Mean and standard deviation of the estimate."""
        size = target * pattern
        delta = size / noise
        above = excess(delta)
        part = 1.0 + delta**2 - (delta + above) ** 2  # of a folded normal's variance
        spread = np.where(clear, noise, np.maximum(_noisier(cells, share, size), noise))
        at_zero = HALF_NORMAL_VARIANCE * float(spread @ spread)
        rest = max(float(spread**2 @ part) - at_zero, 0.0)
        moving = max(float(size**2 @ (1.0 / share)) - target**2, 0.0) / rows
        variance = at_zero * known.squared + rest * known.signed + moving
        return target + float(noise @ above), float(np.sqrt(variance))

    mean, sd = moments(0.0, share)
    # A value smaller than a calibrated model's noise has no more information than that noise.
    total = max(float(np.abs(share * cells.gap).sum()), mean - sd)

    def shortfall(target: float, pattern: FloatArray) -> float:
        mean, sd = moments(target, pattern)
        return mean - z * sd - total

    limits = [_root(shortfall, share / share.sum()), _root(shortfall, _bernoulli(share, variance))]
    return min(max(limits), 1.0)


def _bernoulli(share: FloatArray, variance: FloatArray) -> FloatArray:
    size = share * np.sqrt(variance)
    return np.asarray(size / size.sum())


def _noisier(cells: BinSums, share: FloatArray, size: FloatArray) -> FloatArray:
    """Standard errors with the outcome's mean moved by its gap towards one half."""
    score, gap = cells.mean_p, size / share
    mean = np.where(
        score >= 0.5, np.maximum(score - gap, 0.5), np.minimum(score + gap, 0.5)
    )  # fmt: skip
    return np.asarray(share * np.sqrt(mean * (1.0 - mean) / cells.effective))


def _root(shortfall: Callable[[float, FloatArray], float], pattern: FloatArray) -> float:
    def at(target: float) -> float:
        return shortfall(target, pattern)

    if at(0.0) >= 0.0:
        return 0.0
    return _LARGEST if at(_LARGEST) < 0.0 else float(brentq(at, 0.0, _LARGEST))
