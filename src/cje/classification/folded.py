r"""Confidence limits for a sum of absolute values, which noise can only raise.

The estimate is :math:`T = \sum_b |d_b|` with :math:`d_b \approx N(D_b, s_b^2)` and the target
:math:`\theta = \sum_b |D_b|`. Near zero, :math:`T` sits above :math:`\theta` by about
:math:`\sqrt{2/\pi}\sum s_b` in every sample, so no resampling of :math:`T` can cover
:math:`\theta`. The limits here invert tests of :math:`\theta` at the :math:`D` that is hardest to
reject, in closed form. With :math:`h(\delta) = E|N(\delta, 1)|` and :math:`e(\delta) = h(\delta) -
|\delta|` (its excess):

*Upper.* The least of two limits. :math:`T` is the largest of the linear functions
:math:`\sum \pm d_b`, of standard deviation at most :math:`\sigma`, so that it falls below its
centre by :math:`z\sigma` with probability at most :math:`\Phi(-z)`. Among all :math:`D` with
:math:`E_D T \le c = T + z\sigma`, the largest :math:`\theta` has :math:`D_b = \delta s_b` for one
:math:`\delta` (the mean is convex in :math:`D`), which gives :math:`S\,h^{-1}(c / S)` with
:math:`S = \sum s_b`. Here the :math:`s_b` must not be too large, or miscalibration would be taken
for noise. And by Cauchy and Schwarz :math:`\theta^2 \le S \sum D_b^2/s_b`, a sum of squares whose
noise can be subtracted (`squares`): the shorter one near zero with many terms. Both limits have the
full error rate: where both are close to the target they move together. `even_gaps` has a third, for
sums over cells, that is shorter still.

*Lower.* The greatest of two limits. (1) :math:`E_D T \le \theta + \sum_b s_b\, e(D_b/s_b)`. A
simultaneous box, at a fifth of the error rate, bounds each :math:`|D_b|` from below and so its
excess from above; terms with a clear gap add no width. :math:`\theta_0` is rejected if
:math:`T` exceeds this mean by the quantile of its noise, whose variance is at most
:math:`(1 - 2/\pi)\sum s_b^2` plus a term that grows with :math:`\theta_0`; at zero the quantile is
that of a sum of half-normals. (2) For an odd function :math:`g` with :math:`|g| \le 1`, Stein's
identity makes :math:`\sum_b d_b\,g(d_b/s_b) - s_b\,g'(d_b/s_b)` an unbiased estimate of
:math:`\sum_b D_b\,E\,g(d_b/s_b) \le \theta`; with :math:`g(x) = 2\Phi(ax) - 1` it is close to
:math:`\theta` where most gaps are clear, and normal.

What cannot be reached: with :math:`C` terms of equal noise no test distinguishes zero from gaps of
random signs with :math:`\sum \delta_b^2 < z\sqrt{2C}`, :math:`\delta = D/s`. An upper limit that
holds for all of them is at zero at least about :math:`(z\sqrt2)^{1/2}\, C^{1/4} \sigma`, and the
estimate's own standard deviation is :math:`0.6 \sigma`: no interval that covers everywhere is there
shorter than :math:`0.70\, C^{1/4}` times :math:`\pm 1.96` such deviations, 1.4 at 15 terms, 2.5 at
150.

Where a row enters several cells or rows come in clusters the terms are dependent; `dependence`
measures by how much that raises the two variances.

References
----------
Cai and Low (2011), "Testing composite hypotheses, Hermite polynomials and optimal estimation of a
nonsmooth functional", Annals of Statistics 39. Stein (1981), Annals of Statistics 9, 1135-1151.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from cje.classification.bins import BinSums
from cje.classification.squares import skewed_quantile, squares_limits
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "HALF_NORMAL_VARIANCE",
    "Dependence",
    "Noise",
    "cell_noise",
    "excess",
    "inverted_limits",
    "least_errors",
    "lower_limit",
    "merged_noise",
    "standard_errors",
    "upper_limit",
]

_HALF_NORMAL_MEAN = float(np.sqrt(2.0 / np.pi))
HALF_NORMAL_VARIANCE = 1.0 - 2.0 / np.pi
_HALF_NORMAL_SKEWNESS = 0.9952717464311565
# Steepest chord of the variance of |N(delta, 1)| from its value at zero (at delta = 1.49).
_VARIANCE_CHORD = 0.3052
_BOX_SHARE = 0.2  # of the lower limit's error rate
_STEEPNESS = 1.5  # of Stein's g: steeper is closer to the absolute value, and noisier


def excess(delta: FloatArray) -> FloatArray:
    """`E|N(delta, 1)| - |delta|`: from 0.798 at zero to nothing."""
    size = np.abs(delta)
    return np.asarray(2.0 * (_density(size) - size * ndtr(-size)))


def _density(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi))


def _inverse_mean(value: float) -> float:
    """The `delta >= 0` with `E|N(delta, 1)| = value`; zero where the value is below its minimum."""
    if value <= _HALF_NORMAL_MEAN:
        return 0.0
    low, high = 0.0, value
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle + float(excess(np.asarray(middle))) < value:
            low = middle
        else:
            high = middle
    return high


class Dependence(NamedTuple):
    """How much the dependence of the terms raises variances, each at least 1.

    Attributes
    ----------
    signed : float
        For the sum of the terms with their signs.
    squared : float
        For the sum of squares at zero.
    """

    signed: float
    squared: float


class Noise(NamedTuple):
    """Bounds on the noise in a sum of absolute values.

    Attributes
    ----------
    se : array (C,)
        Standard error of each term, biased upwards: for bounds on what noise can add.
    least_se : array (C,)
        The same, biased downwards: for bounds on what noise must have added.
    floor : array (C,)
        Lower bound on each term's target, jointly valid at the box's share of the error rate.
    variance : float
        Bound on the variance of any signed sum of the terms.
    null_variance, null_skewness : float
        Bounds on variance and skewness of the total when every target is zero.
    variance_slope : float
        How fast the bound on the variance grows with the target total.
    squared : float
        How much dependence raises the variance of the sum of squares.
    """

    se: FloatArray
    least_se: FloatArray
    floor: FloatArray
    variance: float
    null_variance: float
    null_skewness: float
    variance_slope: float
    squared: float = 1.0


def standard_errors(cells: BinSums, share: FloatArray) -> FloatArray:
    r"""Standard error of ``share * gap`` of each cell.

    The outcome's variance is taken at the Agresti-Coull proportion (two successes and two failures
    added), so that a cell whose outcomes all agree is not taken for noiseless. The squared gap is
    added because the number of rows in a cell is random too: the target is the population's value.
    """
    n = cells.effective
    middle = (n * cells.mean_y + 2.0) / (n + 4.0)
    outcome = (1.0 + 4.0 / n) * middle * (1.0 - middle)
    per_row = outcome + cells.gap**2 * np.maximum(1.0 - share, 0.0)
    return np.asarray(share * np.sqrt(per_row / n))


def least_errors(cells: BinSums, share: FloatArray) -> FloatArray:
    """The same from the observed proportion itself: zero where the outcomes of a cell agree."""
    return np.asarray(share * np.sqrt(cells.mean_y * (1.0 - cells.mean_y) / cells.effective))


def cell_noise(
    cells: BinSums, share: FloatArray, level: float, dependence: Dependence | None = None
) -> Noise:
    """Noise of ``share * gap`` of the cells; they are independent unless `dependence` is given."""
    return _noise_of(
        share * cells.gap, standard_errors(cells, share), least_errors(cells, share), level,
        dependence,
    )  # fmt: skip


def _noise_of(
    terms: FloatArray, se: FloatArray, plain: FloatArray, level: float,
    dependence: Dependence | None,
) -> Noise:  # fmt: skip
    error = (1.0 - level) / 2.0 * _BOX_SHARE
    reach = -float(ndtri(error / (2.0 * len(se))))
    squares = float((se**2).sum())
    known = Dependence(1.0, 1.0) if dependence is None else dependence
    skewness = _HALF_NORMAL_SKEWNESS
    if dependence is None:
        skewness *= float((se**3).sum() / (se**2).sum() ** 1.5)
    return Noise(
        se=se,
        least_se=np.minimum(plain, se),
        floor=np.maximum(np.abs(terms) - reach * se, 0.0),
        variance=squares * known.signed,
        null_variance=HALF_NORMAL_VARIANCE * squares * known.squared,
        null_skewness=skewness,
        variance_slope=_VARIANCE_CHORD * known.signed * float(se.max()),
        squared=known.squared,
    )


def merged_noise(
    terms: FloatArray, noise: Noise, into: IntArray, level: float
) -> tuple[FloatArray, Noise]:
    """Terms added up within the groups `into`, and their noise; terms must not be dependent."""
    code = np.unique(into, return_inverse=True)[1]
    columns = (terms, noise.se**2, noise.least_se**2)
    total, se, least = (np.bincount(code, weights=c).astype(np.float64) for c in columns)
    se, least = np.sqrt(se), np.sqrt(least)
    return total, _noise_of(total, se, least, level, None)


def inverted_limits(total: float, noise: Noise, level: float) -> tuple[float, float]:
    """The first lower and upper limit alone, for terms too dependent for sums over them."""
    return _lower(total, noise, level), _upper(total, noise, level)


def lower_limit(terms: FloatArray, noise: Noise, level: float) -> float:
    """Lower limit for the sum of the absolute targets, at half the error rate of `level`."""
    total, error = float(np.abs(terms).sum()), (1.0 - level) / 2.0
    return max(_lower(total, noise, level), _stein_lower(terms, noise, error))


def upper_limit(terms: FloatArray, noise: Noise, level: float) -> float:
    """Upper limit for the sum of the absolute targets, at half the error rate of `level`."""
    total, error = float(np.abs(terms).sum()), (1.0 - level) / 2.0
    return min(_upper(total, noise, level), _squares_upper(terms, noise, error))


def _squares_upper(terms: FloatArray, noise: Noise, error: float) -> float:
    """Cauchy and Schwarz's bound on the sum, from the upper limit of a weighted sum of squares."""
    positive = noise.se > 0.0
    se, least = noise.se[positive], noise.least_se[positive]
    square = squares_limits(
        terms[positive], se, 1.0 / se, error, least=least, dependence=noise.squared
    )[1]
    return float(np.sqrt(se.sum() * square))


def _stein_lower(terms: FloatArray, noise: Noise, error: float) -> float:
    """Lower limit from the unbiased estimate of ``sum D g(d / s)``."""
    se = noise.se[noise.se > 0.0]
    x = terms[noise.se > 0.0] / se
    g, slope = 2.0 * ndtr(_STEEPNESS * x) - 1.0, 2.0 * _STEEPNESS * _density(_STEEPNESS * x)
    estimate = float(se @ (x * g - slope))
    # By Poincare's inequality the variance is at most the mean of this derivative's square.
    derivative = g + x * slope * (1.0 + _STEEPNESS**2)
    return estimate + float(ndtri(error)) * float(
        np.sqrt(noise.variance / (se @ se) * ((se * (derivative)) @ (se * derivative)))
    )


def _upper(total: float, noise: Noise, level: float) -> float:
    z = -float(ndtri((1.0 - level) / 2.0))
    most = total + z * float(np.sqrt(noise.variance))
    scale = float(noise.least_se.sum())
    return most if scale == 0.0 else scale * _inverse_mean(most / scale)


def _lower(total: float, noise: Noise, level: float) -> float:
    error = (1.0 - level) / 2.0 * (1.0 - _BOX_SHARE)
    z = -float(ndtri(error))
    positive = noise.se > 0.0
    se, floor = noise.se[positive], noise.floor[positive]
    mean_excess = float((se * excess(floor / se)).sum())
    null_reach = np.sqrt(noise.null_variance) * skewed_quantile(error, noise.null_skewness)

    def accepted(theta: float) -> bool:
        variance = min(noise.variance, noise.null_variance + noise.variance_slope * theta)
        reach = max(null_reach, z * np.sqrt(variance))
        return bool(theta + mean_excess + reach >= total)

    sure = float(noise.floor.sum())
    if accepted(sure):
        return sure
    low, high = sure, max(total, sure)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if accepted(middle):
            high = middle
        else:
            low = middle
    return low
