r"""A change in a series of estimates, found with a controlled rate of false alarms.

The true value before a change is unknown, so the evidence uses only what does not depend on it: the
differences between estimates. The evidence is an e-process, a mixture over the start and the size
of a change: it exceeds :math:`1/\alpha` *ever* with probability at most :math:`\alpha` if nothing
changed (Ville's inequality).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri, stdtr

from cje.checks import check_level, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["ChangeEvidence", "change_evidence", "innovations"]

_MOST = 8.0  # standard deviations, at most, that an innovation counts for
_MOST_DF = 1e8
_PRIOR_DF = 30.0  # degrees of freedom of the whole series' variance in each period's
# The sum of 1 / (s log(s + 1)^2) over s = 1, 2, ..., rounded up (the weights must not exceed one).
_WEIGHTS_SUM = 3.4
# Prior standard deviations of a change, in standard errors of one period.
_SIZES = (0.3, 1.0, 3.0)


@dataclass(frozen=True)
class ChangeEvidence:
    """Evidence of a change after each look.

    Attributes
    ----------
    log_evidence : array (K,)
        Natural logarithm of the e-process.
    alarm : int or None
        First look at which it reached ``1 / (1 - level)``.
    start : int or None
        Most likely first look of the changed value, as seen at the alarm.
    level : float
    """

    log_evidence: FloatArray
    alarm: int | None
    start: int | None
    level: float


def innovations(values: Any, standard_errors: Any, df: Any = np.inf) -> FloatArray:
    r"""Each estimate against the weighted mean of those before it, as a standard normal.

    .. math:: u_k = \frac{v_k - \bar v_{<k}}{\sqrt{se_k^2 + se(\bar v_{<k})^2}}, \qquad
              \bar v_{<k} = \frac{\sum_{j<k} v_j / se_j^2}{\sum_{j<k} 1 / se_j^2}

    mapped from the t distribution with `df` degrees of freedom. Shape (..., K); the first is zero.
    Brown, Durbin & Evans (1975), JRSS B 37, 149-192.
    """
    v, se = float_array("values", values), float_array("standard errors", standard_errors)
    if v.shape != se.shape or v.ndim < 1 or v.size == 0:
        raise CJEError("one standard error per value is needed", value=(v.shape, se.shape))
    if not (np.isfinite(v).all() and np.isfinite(se).all() and (se >= 0.0).all()):
        raise CJEError("values and standard errors must be finite, errors not negative")
    weight = _weights(v, se)
    before = np.cumsum(weight, axis=-1) - weight
    total = np.cumsum(weight * v, axis=-1) - weight * v
    safe = np.where(before > 0.0, before, 1.0)
    mean = total / safe
    u = (v - mean) / np.sqrt(1.0 / weight + 1.0 / safe)
    u[..., 0] = 0.0
    nu = np.clip(float_array("degrees of freedom", df), 1.0, _MOST_DF)
    tail = stdtr(np.broadcast_to(nu, u.shape), -np.abs(u))
    normal = -ndtri(np.maximum(tail, np.finfo(float).tiny))
    return np.asarray(np.sign(u) * np.minimum(normal, _MOST))


def change_evidence(
    values: Any,
    standard_errors: Any,
    df: Any = np.inf,
    *,
    counts: Any = 1.0,
    level: float = 0.95,
) -> ChangeEvidence:
    r"""The e-process of a change in a series of K independent estimates.

    For a change at look s the mean after it minus the mean before it is :math:`D`, with variance
    :math:`v` if nothing changed and :math:`v + \rho^2` under a change of prior size
    :math:`\rho`. All other differences carry no information, so the likelihood ratio is

    .. math:: E_{s,t} = \sqrt{\frac{v}{v + \rho^2}}
              \exp\frac{D^2 \rho^2}{2 v (v + \rho^2)}, \qquad
              M_t = \sum_{s \le t} w_s \bar E_{s,t} + \sum_{s > t} w_s

    with :math:`\bar E` the mean over three sizes (0.3, 1 and 3 standard errors of a period) and
    :math:`w_s \propto 1 / (s \log^2(s+1))`. With few degrees of freedom the series is
    first rebuilt from innovations mapped to the normal distribution.

    A standard error with few degrees of freedom is moderated towards that of the whole series
    (30 degrees of freedom of it): thirty labels of a 20% outcome are all equal in one period of
    eight hundred, and a weight of their own variance would treat that period's value as exact.

    Parameters
    ----------
    values, standard_errors : array (K,)
        One estimate per period.
    df : array (K,), optional
        Degrees of freedom of each standard error.
    counts : array (K,), optional
        Labels of each period, where they differ.
    level : float
        One minus the probability of ever giving a false alarm.

    Examples
    --------
    >>> found = change_evidence([0.0] * 10 + [1.0] * 5, [0.2] * 15)
    >>> found.alarm, found.start
    (11, 10)
    """
    u = innovations(values, standard_errors, df)
    if u.ndim != 1 or len(u) == 0:
        raise CJEError("change_evidence takes one series", value=u.shape)
    errors = _moderated(standard_errors, df, counts)
    u = innovations(values, errors, df)
    log_evidence, best = _mixture(u, _weights(values, errors))
    threshold = -np.log(1.0 - check_level(level))
    over = np.flatnonzero(log_evidence >= threshold)
    alarm = int(over[0]) if len(over) else None
    start = None if alarm is None else int(best[alarm])
    return ChangeEvidence(log_evidence, alarm, start, level)


def _moderated(standard_errors: Any, df: Any, counts: Any) -> FloatArray:
    """Standard errors whose variance is partly that of the whole series at their count."""
    se, n = float_array("standard errors", standard_errors), float_array("counts", counts)
    if n.ndim > 1 or n.size not in (1, se.size) or not (np.isfinite(n).all() and (n > 0.0).all()):
        raise CJEError("counts must be one positive number per value", value=n.shape)
    nu = np.broadcast_to(np.clip(float_array("degrees of freedom", df), 1.0, _MOST_DF), se.shape)
    variance = se**2
    if float(nu.min()) >= _MOST_DF:  # known, not estimated
        return se
    per_label = float(nu @ (variance * n)) / float(nu.sum())
    share = _PRIOR_DF / (nu + _PRIOR_DF)
    return np.asarray(np.sqrt((1.0 - share) * variance + share * per_label / n))


def _weights(values: Any, standard_errors: Any) -> FloatArray:
    """Inverse variances; an estimate without spread gets a millionth of the series' size."""
    v, se = float_array("values", values), float_array("standard errors", standard_errors)
    least = 1e-6 * max(float(np.abs(v).max(initial=0.0)), 1e-12)
    return np.asarray(1.0 / np.maximum(se, least) ** 2)


def _mixture(u: FloatArray, weight: FloatArray) -> tuple[FloatArray, Any]:
    """Log of the mixture after each look, and the start that has most evidence."""
    k = len(u)
    total = np.cumsum(weight)
    # The series with exactly these innovations: z_k = mean of those before + u_k * its spread.
    sums = np.zeros(k)
    for i in range(1, k):
        spread = np.sqrt(1.0 / weight[i] + 1.0 / total[i - 1])
        sums[i] = sums[i - 1] + weight[i] * (sums[i - 1] / total[i - 1] + u[i] * spread)
    starts = np.arange(1.0, k)  # the first estimate is before any change
    share = 1.0 / (starts * np.log(starts + 1.0) ** 2) / _WEIGHTS_SUM
    before = sums[:-1] / total[:-1]
    period = starts / total[:-1]  # variance of a typical period so far
    log_evidence, best = np.zeros(k), np.zeros(k, dtype=int)
    for t in range(1, k):
        after = total[t] - total[:t]
        d = (sums[t] - sums[:t]) / after - before[:t]
        v = 1.0 / after + 1.0 / total[:t]
        rho = np.array(_SIZES)[:, None] ** 2 * period[:t]
        each = 0.5 * d**2 * rho / (v * (v + rho)) + 0.5 * np.log(v / (v + rho))
        by_start = logsumexp(each, axis=0) - np.log(len(_SIZES))
        rest = max(1.0 - float(share[:t].sum()), 1e-300)
        log_evidence[t] = np.logaddexp(logsumexp(by_start + np.log(share[:t])), np.log(rest))
        best[t] = 1 + int(by_start.argmax())
    return log_evidence, best
