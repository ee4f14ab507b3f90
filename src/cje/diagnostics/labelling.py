"""Were the labelled rows chosen at random? Association of labelling with what is known of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.inference import Finding, Severity, holm

__all__ = ["LabellingTest", "labelling_findings", "labelling_tests"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_ALPHA = 0.01


@dataclass(frozen=True)
class LabellingTest:
    """Association of being labelled with one factor.

    `effect` is, for a number, the chance that a labelled row exceeds an unlabelled one, minus 1/2;
    for a category, the largest difference of a level's labelled share from the overall share.
    """

    factor: str
    effect: float
    p_value: float
    p_adjusted: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def labelling_tests(
    labelled: BoolArray,
    numbers: Mapping[str, FloatArray],
    categories: Mapping[str, IntArray],
) -> list[LabellingTest]:
    """Test labelling against numeric factors (rank sum) and categories (chi-square), Holm-adjusted.

    Nothing is tested where no row, or every row, is labelled. Rows with a missing number take no
    part in that factor's test.
    """
    if not labelled.any() or labelled.all():
        return []
    found: list[tuple[str, float, float]] = []
    for name, values in numbers.items():
        known = np.isfinite(values)
        mine = labelled[known]
        if mine.any() and not mine.all() and float(np.ptp(values[known])) > 0:
            found.append((name, *_rank_sum(values[known], mine)))
    for name, codes in categories.items():
        if len(np.unique(codes)) > 1:
            found.append((name, *_chi_square(codes, labelled)))
    adjusted: Any = holm([p for _, _, p in found]) if found else []
    return [LabellingTest(*f, float(q)) for f, q in zip(found, adjusted, strict=True)]


def labelling_findings(tests: list[LabellingTest], *, has_propensity: bool) -> list[Finding]:
    """A warning per factor the labelling depends on, unless propensities are recorded."""
    if has_propensity:
        return []
    return [
        Finding(
            "labels-not-random",
            f"which rows are labelled depends on {test.factor} "
            f"(effect {test.effect:+.2f}, adjusted p {test.p_adjusted:.1g})",
            Severity.WARNING,
            "record the probability with which each row was chosen as label_propensity, or label a "
            "random slice; otherwise the estimates describe the labelled kind of row",
            details=test.to_dict(),
        )
        for test in tests
        if test.p_adjusted < _ALPHA and abs(test.effect) > 0.02
    ]


def _rank_sum(values: FloatArray, labelled: BoolArray) -> tuple[float, float]:
    """Mann-Whitney effect (minus 1/2) and two-sided p by the normal approximation with ties."""
    from scipy.special import ndtr

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    rank = (ends - (counts - 1) / 2.0)[inverse]
    n1 = float(labelled.sum())
    n2 = len(values) - n1
    u = float(rank[labelled].sum()) - n1 * (n1 + 1.0) / 2.0
    n = n1 + n2
    ties = float(((counts.astype(np.float64) ** 3) - counts).sum()) / (n * (n - 1.0))
    sd = np.sqrt(n1 * n2 / 12.0 * ((n + 1.0) - ties))
    z = (u - n1 * n2 / 2.0) / sd if sd > 0 else 0.0
    return u / (n1 * n2) - 0.5, float(2.0 * ndtr(-abs(z)))


def _chi_square(codes: IntArray, labelled: BoolArray) -> tuple[float, float]:
    """Largest deviation of a level's labelled share, and Pearson's chi-square p."""
    from scipy.special import chdtrc

    _, level = np.unique(codes, return_inverse=True)
    total = np.bincount(level).astype(np.float64)
    hits = np.bincount(level, labelled)
    share = float(labelled.mean())
    statistic = float(((hits - total * share) ** 2 / (total * share * (1.0 - share))).sum())
    deviation = hits / total - share
    return float(deviation[np.argmax(np.abs(deviation))]), float(chdtrc(len(total) - 1, statistic))
