r"""A policy with few labels of its own: between the borrowed calibration and its own labels.

Let R be the mean rectified by the policy's own labels, B the mean reward of the borrowed
calibration, and :math:`\delta = R - B` the offset that its labels show, with variance
:math:`s^2`. Under :math:`\delta \sim N(0, \tau^2)` the best value is :math:`B + w \delta` with
:math:`w = \tau^2 / (\tau^2 + s^2)` (empirical Bayes; Efron & Morris 1972). The spread of the
offsets is what the policy's labels show, but at least a twentieth of the label's range:
:math:`\tau = \max(|\delta|, 0.05)`. The weight of the prior ends where the policy has labels
enough: :math:`s^2` is multiplied by :math:`1 - n / n_0`, so nothing jumps at :math:`n_0`.

The interval is that of R: any offset is covered, and the prior only lowers the error.
"""

from __future__ import annotations

import numpy as np

from cje.estimators.direct.rectifier import LabelledCell, Rectified
from cje.findings.labels import TRANSPORT_FAIL
from cje.inference.moderation import PRIOR_LABELS
from cje.kernels.arrays import FloatArray

__all__ = ["ENTER_FROM", "moderated", "towards_borrowed"]

# Labelled clusters from which a policy's own labels enter and audit its calibration: with two, an
# offset is known to one degree of freedom and every interval is useless; with six, a bad policy
# with five labels would keep the judge's value.
ENTER_FROM = int(TRANSPORT_FAIL["labels_needed"])

# A twentieth of the label's range: offsets that small are common between versions. With half of it
# the bias at an offset of 0.12 and four labels is 0.0189 instead of 0.0185, with twice 0.0153.
_LEAST_SPREAD = 0.05


def towards_borrowed(own: Rectified, borrowed: float, cell: LabelledCell, enough: int) -> float:
    """The value B + w (R - B)."""
    offset = own.value - borrowed
    pieces = cell.by_cluster(own.labels)
    share = max(1.0 - cell.n_clusters / enough, 0.0)
    noise = float(pieces @ pieces) * share
    spread = max(abs(offset), _LEAST_SPREAD) ** 2
    return borrowed + spread / (spread + noise) * offset


def moderated(
    own: Rectified, cell: LabelledCell, residual_variance: float
) -> tuple[Rectified, float]:
    """The labels' influence with a moderated variance, and variance that residuals do not show.

    As in `cje.inference.moderation`: :math:`(d L + 4 P) / (d + 4)` with L the sum of squares over
    d + 1 clusters and P that of the residual variance of all other labels.
    """
    pieces = cell.by_cluster(own.labels)
    shares = cell.by_cluster(cell.weight)
    seen = float(pieces @ pieces)
    d = cell.n_clusters - 1.0
    steady = residual_variance * float(shares @ shares)
    variance = (d * seen + PRIOR_LABELS * steady) / (d + PRIOR_LABELS)
    if seen <= 1e-12 * variance:
        return own, variance
    labels: FloatArray = own.labels * np.sqrt(variance / seen)
    return own._replace(labels=labels), 0.0
