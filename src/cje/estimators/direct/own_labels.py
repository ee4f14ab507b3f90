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

from typing import NamedTuple

import numpy as np

from cje.estimators.direct.rectifier import LabelledCell, Rectified
from cje.findings.labels import TRANSPORT_FAIL
from cje.inference.moderation import PRIOR_LABELS
from cje.kernels.arrays import FloatArray

__all__ = ["ENTER_FROM", "FewLabels", "few_labels", "towards_borrowed"]

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


class FewLabels(NamedTuple):
    """The labels of a policy that has few, by labelled cluster."""

    influence: FloatArray
    spread: FloatArray  # expected standard deviation of each cluster's influence


def few_labels(
    own: Rectified, cell: LabelledCell, residual_variance: float
) -> tuple[FewLabels | None, float]:
    """Influence and expected size of a few labels, and variance that residuals do not show.

    A `Component` with a `spread` moderates the variance by that of all other labels
    (`cje.inference.moderation`) and counts both in its degrees of freedom. Residuals that are all
    alike show nothing to moderate: the moderated variance is then given as it is.
    """
    pieces = cell.by_cluster(own.labels)
    spread = np.sqrt(residual_variance) * cell.by_cluster(cell.weight)
    steady = float(spread @ spread)
    if float(pieces @ pieces) <= 1e-12 * steady:
        d = float(cell.n_clusters)
        return None, PRIOR_LABELS * steady / (d + PRIOR_LABELS)
    return FewLabels(pieces, spread), 0.0
