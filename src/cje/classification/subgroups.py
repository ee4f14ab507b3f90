"""Calibration in parts of the data: by a column, and class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_level
from cje.classification import ece
from cje.classification._labels import distinct, label_array
from cje.classification.assessment import Assessment, assess_rows
from cje.classification.bins import BinSums
from cje.classification.proportions import proportion_limits
from cje.classification.registry import Metric, entry_of
from cje.classification.rows import Rows, check_rows
from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.inference.multiplicity import holm

__all__ = ["ClassRow", "SubgroupAssessment", "assess_subgroups", "class_table"]


@dataclass(frozen=True)
class SubgroupAssessment(Mapping[Any, Assessment]):
    """Assessments by subgroup: a mapping from the subgroup's name.

    Parameters
    ----------
    parts : dict
        One `Assessment` per subgroup; all intervals hold together with probability `level`.
    adjusted : dict
        Holm-adjusted p-value of each subgroup.
    level : float
    """

    parts: dict[Any, Assessment]
    adjusted: dict[Any, float]
    level: float

    def __getitem__(self, name: Any) -> Assessment:
        return self.parts[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {part} (adjusted p = {self.adjusted[name]:.3g})"
            for name, part in self.parts.items()
        )


def assess_subgroups(
    metric: Metric,
    y_true: ArrayLike,
    y_prob: Any,
    by: ArrayLike,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    seed: int = 0,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    **options: Any,
) -> SubgroupAssessment:
    """`assess` in every subgroup, adjusted for their number.

    Each of m intervals has level 1 - (1 - level)/m, so that all hold at once (Bonferroni); p-values
    are adjusted by Holm's method.

    Parameters
    ----------
    metric, y_true, y_prob, level, seed, labels, sample_weight, groups, pos_label, **options
        As in `assess`.
    by : array (n,)
        Subgroup of each row.
    n_draws : int
        Simulated outcomes per subgroup. An adjusted p-value is at least m / (n_draws + 1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.random(4000), np.repeat(["a", "b"], 2000)
    >>> y = rng.random(4000) < np.where(site == "a", p, 0.5 * p)
    >>> found = assess_subgroups(ece.expected_calibration_error, y, p, site)
    >>> found.adjusted["a"] > 0.05, found.adjusted["b"] < 0.05
    (True, True)
    """
    entry = entry_of(metric)
    rows = check_rows(
        entry.kind, y_true, y_prob, sample_weight=sample_weight, labels=labels,
        pos_label=pos_label, groups=groups,
    )  # fmt: skip
    column = label_array(by, "by")
    if len(column) != len(rows):
        raise CJEError("by must hold one subgroup per row", value=(len(column), len(rows)))
    names = distinct(column, "by")
    each = 1.0 - (1.0 - check_level(level)) / len(names)
    parts = {
        name: assess_rows(
            metric, rows.select(column == name), level=each, n_draws=n_draws, seed=seed, **options
        )
        for name in names.tolist()
    }
    adjusted = holm([part.null.p_value for part in parts.values()])
    return SubgroupAssessment(parts, dict(zip(parts, adjusted.tolist(), strict=True)), level)


@dataclass(frozen=True)
class ClassRow:
    """One predicted class.

    Parameters
    ----------
    label : object
    count : int
        Rows in which it is predicted.
    accuracy : float
        Share of them in which it is right.
    accuracy_interval : Interval
        Clopper-Pearson, on the effective number of rows.
    confidence : float
        Mean confidence.
    ece : float
    ece_interval : Interval
    p_value : float
        Of calibration in this class, not adjusted; see `assess_subgroups`.
    """

    label: Any
    count: int
    accuracy: float
    accuracy_interval: Interval
    confidence: float
    ece: float
    ece_interval: Interval
    p_value: float


def class_table(
    y_true: ArrayLike,
    y_prob: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    level: float = 0.95,
    n_draws: int = 400,
    seed: int = 0,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> list[ClassRow]:
    """Each predicted class: count, accuracy, mean confidence and ECE with their intervals.

    Parameters as in `assess` and `top_label_ece`.

    Examples
    --------
    >>> p = [[0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
    >>> [(row.label, row.count, row.accuracy) for row in class_table([0, 1, 1], p, n_draws=20)]
    [(0, 2, 0.5), (1, 1, 1.0)]
    """
    rows = check_rows(
        "top", y_true, y_prob, sample_weight=sample_weight, labels=labels, groups=groups
    )
    level, top = check_level(level), rows.top
    table = []
    for k in np.unique(top.label if rows.w is None else top.label[rows.w > 0.0]).tolist():
        part = rows.select(top.label == k)
        result = assess_rows(
            ece.confidence_ece, part, level=level, n_draws=n_draws, seed=seed,
            n_bins=n_bins, strategy=strategy,
        )  # fmt: skip
        whole = _one_cell(part)
        low, high = proportion_limits(whole, (1.0 - level) / 2.0)
        table.append(
            ClassRow(
                top.names.tolist()[k],
                len(part),
                float(whole.mean_y[0]),
                Interval(float(low[0]), float(high[0]), level, "Clopper-Pearson"),
                float(whole.mean_p[0]),
                result.value,
                result.interval,
                result.null.p_value,
            )
        )
    return table


def _one_cell(rows: Rows) -> BinSums:
    return ece.binary_cells(rows.y, rows.p, rows.w, 1, "uniform", rows.groups)
