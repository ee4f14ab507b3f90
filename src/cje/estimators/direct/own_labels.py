r"""A policy with few labels of its own: between the borrowed calibration and its own labels.

Let R be the mean rectified by the policy's own labels, B the mean reward of the borrowed
calibration, and :math:`\delta = R - B` the offset that its labels show, with variance
:math:`s^2`. Under :math:`\delta \sim N(0, \tau^2)` the best value is :math:`B + w \delta` with
:math:`w = \tau^2 / (\tau^2 + s^2)` (empirical Bayes; Efron & Morris 1972). The spread of the
offsets is what the policy's labels show, but at least a twentieth of the label's range:
:math:`\tau = \max(|\delta|, 0.05)`. The weight of the prior reaches zero where the policy has
enough labels: :math:`s^2` is multiplied by :math:`1 - n / n_0`, so nothing jumps at :math:`n_0`.

The interval is that of R, around R (`InfluenceEstimate.shrinkage`): any offset is covered equally,
and the prior only lowers the error of the value. Around the value, an interval of the same width
would cover 97% where the offset is small and 93% where it is 2.5 s (four labels, s known).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.estimators.direct.rectifier import LabelledCell, Rectified
from cje.findings.labels import TRANSPORT_FAIL
from cje.inference.moderation import moderated_variance, piece_degrees
from cje.kernels.arrays import FloatArray

__all__ = ["ENTER_FROM", "FewLabels", "few_labels", "towards_borrowed"]

# Labelled clusters from which a policy's own labels enter and audit its calibration: with two, the
# variance of an offset has one degree of freedom and every interval is useless; with six, a bad
# policy with five labels would keep the judge's value.
ENTER_FROM = int(TRANSPORT_FAIL["labels_needed"])

# A twentieth of the label's range: offsets that small are common between versions. With half of it
# the bias at an offset of 0.12 and four labels is 0.0189 instead of 0.0185, with twice 0.0153.
_LEAST_SPREAD = 0.05


class FewLabels(NamedTuple):
    """The labels of a policy that has few, by labelled cluster."""

    influence: FloatArray
    spread: FloatArray  # expected standard deviation of each cluster's influence
    variance: float  # moderated
    unseen: float  # that variance where identical residuals show none


def few_labels(own: Rectified, cell: LabelledCell, residual_variance: float) -> FewLabels:
    """The influence of a few labels, moderated by the residual variance of all other labels.

    The `Component` made of it (`few_label_component`) counts labelled clusters and prior in its
    degrees of freedom (`cje.inference.moderation`).
    """
    pieces = cell.by_cluster(own.labels)
    spread = np.sqrt(residual_variance) * cell.by_cluster(cell.weight)
    seen, n = np.array([pieces @ pieces]), np.array([float(cell.n_clusters)])
    degrees = piece_degrees(spread[:, None], n)
    variance = float(moderated_variance(seen, spread[:, None], degrees)[0][0])
    if seen[0] <= 1e-12 * variance:
        nothing = np.zeros_like(pieces)
        return FewLabels(nothing, nothing, variance, variance)
    return FewLabels(pieces, spread, variance, 0.0)


def towards_borrowed(
    own: float, borrowed: float, variance: float, n_clusters: int, enough: int
) -> float:
    """The value B + w (R - B), for the `variance` of the labels' part of R."""
    offset = own - borrowed
    noise = variance * max(1.0 - n_clusters / enough, 0.0)
    spread = max(abs(offset), _LEAST_SPREAD) ** 2
    return borrowed + spread / (spread + noise) * offset
