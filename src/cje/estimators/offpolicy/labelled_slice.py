r"""Is the labelled slice of a log what its propensities say it is?

With labelling probabilities :math:`\pi`, :math:`\sum_i (L_i/\pi_i - 1) h_i` has mean zero for every
h that was known before labelling. Two h are checked: the judge score, and each target's weight W.
The second also says how much of a target the labels speak for: :math:`r = \sum (L/\pi) W / \sum W`.
Sums are clustered by prompt; with n labelled prompts the ratio to its standard error is taken as t
with n - 1 degrees of freedom.
"""

from __future__ import annotations

import numpy as np

from cje.estimators.offpolicy.logged import LoggedRows
from cje.inference import Finding, Severity
from cje.inference.intervals import t_p_value
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums

__all__ = ["label_slice_findings"]


_ALPHA = 0.001
# Labels that speak for less than a half of a target, or for twice as much as there is.
_FAR = 0.5
_ACTION = (
    "give each row's chance of being labelled as label_propensity (use_mar=True estimates it from "
    "the score), or label a random slice"
)


def label_slice_findings(logged: LoggedRows) -> list[Finding]:
    """Findings where the labelled rows differ from what chance would choose."""
    excess = logged.labelled / logged.propensity - 1.0
    found = []
    spread = float(logged.scores.std())
    if spread > 0.0:
        gap, p = _balance(logged, excess, (logged.scores - logged.scores.mean()) / len(logged))
        if p < _ALPHA:
            found.append(
                Finding(
                    "labels-not-random",
                    f"labelled rows, weighted by their propensities, have judge scores {gap:+.3f} "
                    f"away from those of all logged rows (p = {p:.1g}): they do not look chosen as "
                    "stated, and the estimates assume they were",
                    Severity.WARNING,
                    _ACTION,
                    details={"gap": gap, "p_value": p},
                )
            )
    for k, name in enumerate(logged.policies):
        gap, p = _balance(logged, excess, logged.weights[:, k] / len(logged))
        if p < _ALPHA:
            found.append(_target(name, 1.0 + gap, p))
    return found


def _balance(logged: LoggedRows, excess: FloatArray, h: FloatArray) -> tuple[float, float]:
    """The sum of (L / pi - 1) h, and its two-sided p-value."""
    by_prompt = cluster_sums(excess * h, logged.clusters, len(logged.cluster_names))
    gap, error = float(by_prompt.sum()), float(np.sqrt(by_prompt @ by_prompt))
    prompts = len(np.unique(logged.clusters[logged.labelled]))
    if error <= 1e-12 or prompts < 2:
        return gap, 1.0
    return gap, float(t_p_value(gap / error, prompts - 1.0))


def _target(name: str, ratio: float, p: float) -> Finding:
    far = ratio < 1.0 - _FAR or ratio > 1.0 / _FAR
    return Finding(
        "labels-miss-target",
        f"labelled rows carry {ratio:.2f} times the weight of this policy that rows chosen as "
        f"stated would carry (p = {p:.1g}): the labels speak for another kind of response",
        Severity.REFUSE if far else Severity.WARNING,
        _ACTION,
        name,
        {"ratio": ratio, "p_value": p},
    )
