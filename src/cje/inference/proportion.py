r"""Intervals of proportions whose binary labels were rectified by a prediction.

A rate near zero or one has a skewed, discrete estimator whose variance follows from its mean. Let V
be the variance of an estimate :math:`\hat\theta`; it is the variance of

.. math:: n^* = \frac{\hat\theta (1 - \hat\theta)}{V}

independent binary labels (the effective sample size of Korn & Graubard 1998), and the interval is
that of as many labels. With :math:`x = n^* \hat\theta`, its limits are quantiles of

.. math:: Beta(x + c,\; n^* - x + 1 - c) \quad\text{and}\quad Beta(x + 1 - c,\; n^* - x + c),

Clopper & Pearson's for c = 0, which cover too often, and Jeffreys' for c = 1/2, which cover the
nominal level on average over rates (Brown, Cai & DasGupta 2001) where the variance is known. The
variance is estimated, so c = 1/4: for rates of 2% to 30% and 25 to 200 labels, averaged over rates
within 25%, exact coverage is 95.4-98.6% at 0.89-0.98 of Clopper-Pearson's width. With c = 0 both
are larger (95.8-98.8% at 1), with c = 1/2 smaller (94.0-97.6% at 0.76-0.96).

References
----------
Korn & Graubard (1998), Survey Methodology 24, 193-201; Brown, Cai & DasGupta (2001), Statistical
Science 16, 101-133.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv

from cje.kernels.arrays import BoolArray, FloatArray

__all__ = ["Proportions", "proportion_limits", "proportion_tails"]

_SHIFT = 0.25  # c


class Proportions(NamedTuple):
    """The values of an estimate that are proportions of their range."""

    at: BoolArray  # which values
    share: FloatArray
    trials: FloatArray
    least: FloatArray  # lower bound, and width of the range
    span: FloatArray

    @classmethod
    def among(
        cls, values: FloatArray, trials: FloatArray | None, bounds: FloatArray
    ) -> Proportions | None:
        """Those with a number of trials, if any; `bounds` is (K, 2)."""
        if trials is None:
            return None
        at = np.isfinite(trials)
        lower, upper = bounds[at].T
        span = np.where(upper > lower, upper - lower, 1.0)
        return cls(at, (values[at] - lower) / span, trials[at], lower, span)

    def limits(
        self, low: FloatArray, high: FloatArray, tail: float
    ) -> tuple[FloatArray, FloatArray]:
        """The limits of all values, binomial ones in place of those of proportions."""
        below, above = proportion_limits(self.share, self.trials, tail)
        low, high = low.copy(), high.copy()
        low[self.at] = self.least + self.span * below
        high[self.at] = self.least + self.span * above
        return low, high

    def p_values(
        self,
        found: FloatArray,
        null: float,
        alternative: Literal["two-sided", "greater", "less"],
    ) -> FloatArray:
        """The p-values of all values, binomial ones in place of those of proportions."""
        against = (null - self.least) / self.span
        greater, less = proportion_tails(self.share, self.trials, against)
        two_sided = np.minimum(2.0 * np.minimum(greater, less), 1.0)
        found = found.copy()
        found[self.at] = {"greater": greater, "less": less}.get(alternative, two_sided)
        return found


def proportion_limits(
    share: FloatArray, trials: FloatArray, tail: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits, each missed with the probability `tail`.

    Examples
    --------
    >>> low, high = proportion_limits(np.array([0.1]), np.array([50.0]), 0.025)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.036], [0.212])
    """
    x, rest = _counts(share, trials)
    low = betaincinv(x + _SHIFT, rest + 1.0 - _SHIFT, tail)
    high = betaincinv(x + 1.0 - _SHIFT, rest + _SHIFT, 1.0 - tail)
    return np.where(x > 0, low, 0.0), np.where(rest > 0, high, 1.0)


def proportion_tails(
    share: FloatArray, trials: FloatArray, null: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """P-values against `null` of the claims that the rate is greater, and that it is less."""
    x, rest = _counts(share, trials)
    null = np.clip(null, 0.0, 1.0)
    greater = betainc(x + _SHIFT, rest + 1.0 - _SHIFT, null)
    less = 1.0 - betainc(x + 1.0 - _SHIFT, rest + _SHIFT, null)
    return np.where(x > 0, greater, 1.0), np.where(rest > 0, less, 1.0)


def _counts(share: FloatArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Labels of either kind among the trials."""
    p = np.clip(share, 0.0, 1.0)
    return np.asarray(trials * p), np.asarray(trials * (1.0 - p))
