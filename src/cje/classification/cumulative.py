r"""Calibration errors of cumulative sums: Kolmogorov-Smirnov and Kuiper, with tests.

With rows sorted by score, :math:`C_k = \frac1W \sum_{i \le k} w_i (y_i - p_i)`, read at the last
row of each distinct score. Kolmogorov-Smirnov is :math:`\max |C|`, Kuiper :math:`\max C - \min C`
with :math:`C_0 = 0`. Under calibration :math:`C` is close to Brownian motion run to time
:math:`\sum w_i^2 p_i (1-p_i) / W^2`, and the p-values are those of its largest absolute value and
of its range. No bins, no bandwidth.

References
----------
Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), "Metrics of calibration for probabilistic
predictions", JMLR 23. Feller (1951), "The asymptotic distribution of the range".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from cje.classification._arrays import check_binary, check_groups, row_shares
from cje.classification.clusters import cluster_sums, path_sd
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "CalibrationTest",
    "kolmogorov_smirnov_error",
    "kolmogorov_smirnov_test",
    "kuiper_error",
    "kuiper_test",
    "spiegelhalter_test",
    "spiegelhalter_z",
]


class CalibrationTest(NamedTuple):
    """A test statistic and its p-value under perfect calibration."""

    statistic: float
    p_value: float


def _path_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], FloatArray]:
    """The cumulative gap after each distinct score, from zero, as a function of the residuals."""
    order = np.argsort(p)
    score = p[order]
    last = np.append(score[1:] != score[:-1], True)
    weight = None if w is None else w[order] / w.sum()

    def path(residual: FloatArray) -> FloatArray:
        gap = residual[order] / len(p) if weight is None else weight * residual[order]
        return np.concatenate(([0.0], np.cumsum(gap)[last]))

    return path


def _height(path: FloatArray) -> float:
    return float(np.abs(path).max())


def _range(path: FloatArray) -> float:
    return float(np.ptp(path))


def kolmogorov_smirnov_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """The Kolmogorov-Smirnov error as a function of the residuals."""
    path = _path_of(p, w)
    return lambda residual: _height(path(residual))


def kuiper_of(p: FloatArray, w: FloatArray | None) -> Callable[[FloatArray], float]:
    """The Kuiper error as a function of the residuals."""
    path = _path_of(p, w)
    return lambda residual: _range(path(residual))


def _null_sd(p: FloatArray, w: FloatArray | None) -> float:
    if w is None:
        return float(np.sqrt(p @ (1.0 - p)) / len(p))
    return float(np.sqrt((w * w) @ (p * (1.0 - p))) / w.sum())


def sup_survival(x: float) -> float:
    """P(max |B| > x) for Brownian motion B on [0, 1]."""
    if x < 0.15:  # the probability of a smaller maximum is below the last bit
        return 1.0
    k = np.arange(50)
    if x > 1.0:  # by reflection: the other series needs more terms the larger x is
        return float(4.0 * ((-1.0) ** k * ndtr(-(2 * k + 1) * x)).sum())
    terms = (-1.0) ** k / (2 * k + 1) * np.exp(-(((2 * k + 1) * np.pi / x) ** 2) / 8.0)
    return float(np.clip(1.0 - 4.0 / np.pi * terms.sum(), 0.0, 1.0))


def range_survival(x: float) -> float:
    """P(max B - min B > x) for Brownian motion B on [0, 1]; integrated from Feller's density."""
    if x < 0.4:  # the probability of a smaller range is below 1e-12
        return 1.0
    k = np.arange(1, 200)
    return float(np.clip(8.0 * ((-1.0) ** (k - 1) * k * ndtr(-k * x)).sum(), 0.0, 1.0))


def kolmogorov_smirnov_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Largest absolute cumulative gap. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> kolmogorov_smirnov_error([0, 1], [0.5, 0.5])
    0.0
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return kolmogorov_smirnov_of(p, w)(y - p)


def kuiper_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """Range of the cumulative gap. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> kuiper_error([0, 1], [0.25, 0.75])
    0.125
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return kuiper_of(p, w)(y - p)


def _test(statistic: float, sd: float, survival: Callable[[float], float]) -> CalibrationTest:
    if sd == 0.0:  # every score is 0 or 1: calibrated exactly if every outcome agrees
        return CalibrationTest(statistic, 1.0 if statistic == 0.0 else 0.0)
    return CalibrationTest(statistic, survival(statistic / sd))


def kolmogorov_smirnov_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
) -> CalibrationTest:
    """Kolmogorov-Smirnov error with its asymptotic p-value. Parameters as in `smooth_ece`.

    Examples
    --------
    >>> kolmogorov_smirnov_test([0, 1], [0.5, 0.5]).p_value
    1.0
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    sd = _path_null_sd(y, p, w, check_groups(groups, len(p)))
    return _test(kolmogorov_smirnov_of(p, w)(y - p), sd, sup_survival)


def kuiper_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
) -> CalibrationTest:
    """Kuiper error with its asymptotic p-value. Parameters as in `smooth_ece`."""
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    sd = _path_null_sd(y, p, w, check_groups(groups, len(p)))
    return _test(kuiper_of(p, w)(y - p), sd, range_survival)


def _path_null_sd(
    y: FloatArray, p: FloatArray, w: FloatArray | None, groups: IntArray | None
) -> float:
    """Standard deviation of the path's end under calibration, or its largest with clusters."""
    if groups is None:
        return _null_sd(p, w)
    order = np.argsort(p, kind="stable")
    terms = (row_shares(len(p), w) * (y - p))[order]
    # The variance that calibration implies is a floor: clusters cannot lower it.
    return max(path_sd(terms, groups[order]), _null_sd(p, w))


def kolmogorov_smirnov_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    """Limits for the population's largest absolute cumulative gap."""
    value = kolmogorov_smirnov_of(p, w)(y - p)
    return _path_limits(value, y, p, w, level, sup_survival, groups)


def kuiper_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    """Limits for the range of the population's cumulative gap."""
    return _path_limits(kuiper_of(p, w)(y - p), y, p, w, level, range_survival, groups)


def _path_limits(
    value: float,
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    survival: Callable[[float], float],
    groups: IntArray | None,
) -> tuple[float, float]:
    """Limits for an excursion of the cumulative gap.

    Below: the statistic less the quantile of the noise's own excursion, a simultaneous band
    projected. Above: the excursion is the value at one place (or the difference of two), so a
    pointwise band is enough.
    """
    share = row_shares(len(p), w)
    squares = float(share @ share)
    # The variance of two added pseudo-rows: outcomes that all agree still have noise.
    sd = float(np.sqrt((share**2) @ (y - p) ** 2 + 2.0 * squares**2))
    if groups is not None:
        order = np.argsort(p, kind="stable")
        sd = max(sd, path_sd((share * (y - p))[order], groups[order]))
    error = (1.0 - level) / 2.0
    quantile = brentq(lambda x: survival(x) - error, 0.5, 20.0)
    # The path moves by at most one in all.
    return max(value - quantile * sd, 0.0), min(value - float(ndtri(error)) * sd, 1.0)


def _spiegelhalter(
    p: FloatArray, w: FloatArray | None, groups: IntArray | None, residual: FloatArray | None
) -> tuple[FloatArray, float]:
    """Factor of each residual in Spiegelhalter's sum, and the sum's sd under calibration.

    With clusters the standard deviation is that of the clusters' sums of the observed residuals.
    """
    weight = np.ones(len(p)) if w is None else w
    slope = weight * (1.0 - 2.0 * p)
    sd = float(np.sqrt((slope**2) @ (p * (1.0 - p))))
    if groups is not None and residual is not None:
        moved = cluster_sums(slope * residual, groups)
        sd = max(sd, float(np.sqrt(moved @ moved)))
    if sd == 0.0:
        raise CJEError(
            "Spiegelhalter's z is undefined: every y_prob is 0, 1/2 or 1",
            hint="use kolmogorov_smirnov_test",
        )
    return slope, sd


def spiegelhalter_of(
    p: FloatArray,
    w: FloatArray | None,
    groups: IntArray | None = None,
    residual: FloatArray | None = None,
) -> Callable[[FloatArray], float]:
    """Spiegelhalter's z as a function of the residuals; `residual` scales it with clusters."""
    slope, sd = _spiegelhalter(p, w, groups, residual)
    return lambda e: float(slope @ e) / sd


def spiegelhalter_z(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Spiegelhalter's :math:`z = \sum (1-2p)(y-p) / \sqrt{\sum (1-2p)^2 p(1-p)}`.

    The Brier score less its expectation under calibration, in standard deviations: standard normal
    for a calibrated model, positive for an overconfident one. Parameters as in `smooth_ece`.

    References
    ----------
    Spiegelhalter (1986), "Probabilistic prediction in patient management and clinical trials".

    Examples
    --------
    >>> spiegelhalter_z([0, 1, 1, 0], [0.1, 0.9, 0.9, 0.1]) < 0
    True
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return spiegelhalter_of(p, w, check_groups(groups, len(p)), y - p)(y - p)


def spiegelhalter_test(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
) -> CalibrationTest:
    """Spiegelhalter's z with its two-sided p-value. Parameters as in `smooth_ece`."""
    z = spiegelhalter_z(
        y_true, y_prob, sample_weight=sample_weight, groups=groups, pos_label=pos_label
    )
    return CalibrationTest(z, float(2.0 * ndtr(-abs(z))))


def spiegelhalter_limits(
    y: FloatArray,
    p: FloatArray,
    w: FloatArray | None,
    level: float,
    groups: IntArray | None = None,
) -> tuple[float, float]:
    """Limits for the population's mean term, in units of the null standard deviation of the sum."""
    slope, sd = _spiegelhalter(p, w, groups, y - p)
    terms = slope * (y - p)
    sums = cluster_sums(terms - terms.mean(), groups)
    reach = -float(ndtri((1.0 - level) / 2.0)) * float(np.sqrt(sums @ sums)) / sd
    z = float(terms.sum() / sd)
    return z - reach, z + reach
