r"""What a mean weight away from one may do to a value that rests on the log alone.

Weights of right log-probs average one. Where they do not, the value is off by an amount d that the mean itself
estimates, with its standard error s: of `ips` by the factor, :math:`d = \hat V (\bar W - 1)/\bar W`; of a
self-normalised estimate, where the mean is below one, by at most the missing mass times the distance of the value from
the far end of the range, :math:`d = (1 - \bar W) \max(\hat V, 1 - \hat V)`. Since :math:`E[d^2] = bias^2 + s^2`, the
variance gains :math:`\max(0, d^2 - s^2)`: the bias that the mean weight shows beyond its own error. An interval of
1.96 such standard errors holds the truth at least 95% of the time, whatever the bias, where the self-normalised error
is normal and independent of the mean weight: :math:`P(|e + d| \le 1.96 \sqrt{1 + d^2}) \ge 0.95` for every d.
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from cje.estimators.offpolicy.logged import LoggedRows
from cje.inference import Component, InfluenceEstimate
from cje.kernels.arrays import FloatArray

__all__ = ["WEIGHTS", "factor_bias", "support_bias"]

WEIGHTS = "weights"
"""Bias that the mean of the unnormalised weights shows."""


def factor_bias(logged: LoggedRows, means: FloatArray) -> list[Component]:
    """Of means (K,) over unnormalised weights: a factor common to the weights moves them."""
    mean, se = _mean_weight(logged)
    normalised = means / mean
    d = normalised * (mean - 1.0)
    shown = np.sign(d) * np.sqrt(np.maximum(d**2 - (normalised * se) ** 2, 0.0))
    return _component(np.outer(shown, shown))


def support_bias(logged: LoggedRows, values: FloatArray) -> list[Component]:
    """Of self-normalised means (K,) on [0, 1]: responses that cannot have been logged."""
    mean, se = _mean_weight(logged)
    reach = np.maximum(values, 1.0 - values)
    missing = np.maximum(1.0 - mean, 0.0)
    return _component(np.diag(reach**2 * np.maximum(missing**2 - se**2, 0.0)))


def _component(covariance: FloatArray) -> list[Component]:
    return [Component(WEIGHTS, covariance=covariance)] if covariance.any() else []


def _mean_weight(logged: LoggedRows) -> tuple[FloatArray, FloatArray]:
    """Means of the unnormalised weights, and their standard errors over prompts."""
    mean = logged.raw.mean(axis=0)
    rows = (logged.raw - mean) / len(logged)
    by_prompt = logged.cluster_influence(rows, len(logged.cluster_names))
    names = logged.policies
    return mean, InfluenceEstimate.from_influence(names, mean, by_prompt).standard_errors()
