r"""Bias that a mean weight other than one implies for a value that rests on the log alone.

Weights of right log-probs average one. Where they do not, the value is off by an amount d that the mean itself
estimates, with its standard error s: of `ips` by the factor, :math:`d = \hat V (\bar W - 1)/\bar W`; of a
self-normalised estimate, where the mean is below one, by the missing mass times how far the missing responses are from
the others, for which one standard deviation of the labels is taken, :math:`d = (1 - \bar W)\, \sigma_Y`. Since
:math:`E[d^2] = bias^2 + s^2`, the variance gains :math:`\max(0, d^2 - s^2)`: the bias that the mean
weight shows beyond its own error. An interval of 1.96 such standard errors contains the truth at
least 95% of the time, whatever the bias, where the self-normalised error is normal and independent
of the mean weight: :math:`P(|e + d| \le 1.96 \sqrt{1 + d^2}) \ge 0.95` for every d.

One standard deviation is a choice: logs that end at the 90 or 98% quantile of quality miss responses about 1.2 of it
away. Half of it covers such logs too rarely where the gate on the mean weight does not refuse them; twice widens the
intervals of honest logs by about 8% instead of 2% (normal errors, s sigma_Y = 0.4 standard errors).
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


def support_bias(logged: LoggedRows) -> list[Component]:
    """Of self-normalised means: responses that cannot have been logged."""
    mean, se = _mean_weight(logged)
    reach = _label_spread(logged)
    missing = np.maximum(1.0 - mean, 0.0)
    return _component(np.diag(reach**2 * np.maximum(missing**2 - se**2, 0.0)))


def _component(covariance: FloatArray) -> list[Component]:
    return [Component(WEIGHTS, covariance=covariance)] if covariance.any() else []


def _label_spread(logged: LoggedRows) -> FloatArray:
    """(K,) standard deviation of the labels under each target."""
    rows = logged.labelled
    labels = logged.labels[rows][:, None]
    weight = logged.weights[rows] / logged.propensity[rows][:, None]
    share = weight / np.maximum(weight.sum(axis=0), 1e-300)
    mean = (share * labels).sum(axis=0)
    return np.asarray(np.sqrt((share * (labels - mean) ** 2).sum(axis=0)))


def _mean_weight(logged: LoggedRows) -> tuple[FloatArray, FloatArray]:
    """Means of the unnormalised weights, and their standard errors over prompts."""
    mean = logged.raw.mean(axis=0)
    rows = (logged.raw - mean) / len(logged)
    by_prompt = logged.cluster_influence(rows, len(logged.cluster_names))
    names = logged.policies
    return mean, InfluenceEstimate.from_influence(names, mean, by_prompt).standard_errors()
