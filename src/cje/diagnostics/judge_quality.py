r"""What a judge saves: the labels that would give the same interval without it.

The direct estimator of one version's value, with n judged responses and L labels among them, has

.. math:: Var \approx \frac{\sigma^2 (1 - R^2)}{L} \Bigl(1 + \frac{2}{L}\Bigr) + \frac{\sigma^2 R^2}{n},

:math:`\sigma` the labels' standard deviation and :math:`R^2` the share that the calibrated judge
explains (the efficiency bound; the factor 1 + 2/L, an assumed cost of fitting the judge on the same
labels). Labels alone have :math:`\sigma^2 / L'`.
"""  # noqa: E501

from __future__ import annotations

from typing import TypeVar

from cje.kernels.arrays import FloatArray

__all__ = [
    "FIT_COST",
    "FIT_EXCESS",
    "MIN_LABELS",
    "STACK_EXCESS",
    "labels_saved",
    "unexplained_share",
]

_Number = TypeVar("_Number", float, FloatArray)

MIN_LABELS = 20  # below them a judge's quality cannot be measured
FIT_COST = 2.0
# Out-of-fold errors of a calibration on L labels exceed those of the limiting one by a factor of
# about 1 + 10 / L (1.17, 1.11, 1.06 at 50, 100, 200 labels of `policies_on_shared_prompts`).
FIT_EXCESS = 10.0
# The same of a stack of calibrated judges, per judge (`studies.judge_cards`, two judges: 11 to 14).
STACK_EXCESS = 12.0


def unexplained_share(
    missed: _Number, spread: _Number, n_labels: _Number, excess: float = FIT_EXCESS
) -> _Number:
    """1 - R2 of the calibration that many labels would give, from out-of-fold errors."""
    return missed / spread / (1.0 + excess / n_labels)


def labels_saved(r2: float, n_labels: float, n_judged: float) -> float:
    """Return how many more labels would give the same interval without the judge.

    A negative number means that using the judge costs labels.

    Examples
    --------
    >>> round(labels_saved(0.5, 100, 1000))
    79
    """
    fit = 1.0 + FIT_COST / n_labels if n_labels < n_judged else 1.0
    return 1.0 / ((1.0 - r2) / n_labels * fit + r2 / n_judged) - n_labels
