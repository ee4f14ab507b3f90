"""Agreement of several raters on the same responses, and the ceiling it puts on any judge."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.data import RaterLabels
from cje.diagnostics.agreement import long_alpha
from cje.findings import Finding
from cje.findings.labels import LOW_RATER_AGREEMENT

__all__ = ["RaterAgreement", "rater_agreement"]


@dataclass(frozen=True)
class RaterAgreement:
    """Krippendorff's alpha (interval scale) and the noise of one rater.

    Attributes
    ----------
    alpha : float
        1: perfect; 0: no better than chance.
    rater_variance : float
        Variance of a single rater's label around the response's mean, on [0, 1].
    n_responses, n_raters : int
        Responses with at least two raters, and distinct raters among them.
    """

    alpha: float
    rater_variance: float
    n_responses: int
    n_raters: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def findings(self) -> list[Finding]:
        """A warning where the raters hardly agree."""
        if self.alpha >= LOW_RATER_AGREEMENT["alpha"]:
            return []
        return [LOW_RATER_AGREEMENT.finding(**self.to_dict())]


def rater_agreement(labels: RaterLabels) -> RaterAgreement | None:
    r"""Krippendorff's alpha for interval data; None where no response has two raters.

    :math:`\alpha = 1 - D_o / D_e`, with :math:`D_o` the mean squared difference of pairs within a
    response (each response weighted by its number of labels) and :math:`D_e` that of all pairs.

    References
    ----------
    Krippendorff (2004), Content Analysis, 2nd ed., chapter 11.
    """
    counts = np.bincount(labels.row)
    paired = counts[labels.row] >= 2
    if not paired.any():
        return None
    row, value = labels.row[paired], labels.value[paired]
    found = long_alpha(row, value, "interval")
    _, row = np.unique(row, return_inverse=True)
    m = np.bincount(row).astype(np.float64)
    # Mean squared difference over ordered pairs of a response: 2 (m q - s^2) / (m (m - 1)).
    squares = m * np.bincount(row, value**2) - np.bincount(row, value) ** 2
    observed = float((2.0 * np.maximum(squares, 0.0) / (m - 1.0)).sum() / m.sum())
    alpha = 1.0 if found is None else found  # all ratings are equal
    raters = len(np.unique(labels.rater.codes[paired]))
    return RaterAgreement(alpha, observed / 2.0, len(m), raters)
