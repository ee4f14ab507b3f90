"""A calibration metric with an interval, and with what a perfectly calibrated model would score.

Most calibration metrics average absolute values and are positive for a perfect model too. Beside
the value, `assess` gives a confidence interval that includes 0 where the data allow it, and the
metric's distribution when the outcomes are drawn from the predicted probabilities themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    check_level,
    check_number,
    check_seed,
    check_weights,
    check_whole_number,
)
from cje.classification._arrays import check_confidence, check_distribution
from cje.classification._labels import announced
from cje.classification.registry import Entry, Metric, entry_of
from cje.classification.rows import Rows, check_rows
from cje.errors import CJEError
from cje.inference.intervals import Interval

__all__ = ["Assessment", "NullReference", "assess", "null_reference"]

_MOST_DRAWS = 1_000_000


@dataclass(frozen=True)
class NullReference:
    """The metric's distribution for a perfectly calibrated model with the same predictions.

    Parameters
    ----------
    mean : float
        Mean score of such a model.
    quantile : float
        Score that such a model exceeds with probability one minus the level.
    p_value : float
        Probability that it would score at least the observed value (in absolute value for
        Spiegelhalter's z), the observed value counted too.
    n_draws : int
        Simulated outcomes behind these numbers.
    """

    mean: float
    quantile: float
    p_value: float
    n_draws: int


@dataclass(frozen=True)
class Assessment:
    """A metric's value, interval and null reference.

    Parameters
    ----------
    metric : str
    value : float
    interval : Interval
        For the metric's value in the population.
    null : NullReference
    n : int
        Rows.
    clusters : int, optional
        Independent clusters, where `groups` was given.
    """

    metric: str
    value: float
    interval: Interval
    null: NullReference
    n: int
    clusters: int | None = None

    @property
    def remark(self) -> str:
        """Why the value lies outside its own interval, where it does; else empty."""
        low, high = self.interval
        if low <= self.value <= high:
            return ""
        if self.value < low:
            return (
                "the value lies below its interval, because more than its noise was subtracted: "
                f"the population's cannot be below {low:.4f}"
            )
        return (
            "the value lies above its interval, because noise raises it and is taken out of the "
            f"interval: a calibrated model would score {self.null.mean:.4f}"
        )

    def __str__(self) -> str:
        low, high = self.interval
        rows = f"{self.n} rows"
        if self.clusters is not None:
            rows += f" in {self.clusters} clusters"
        return (
            f"{self.metric} = {self.value:.4f}, {self.interval.level:.0%} interval "
            f"[{low:.4f}, {high:.4f}]; a calibrated model would score {self.null.mean:.4f} "
            f"on {rows} (p = {self.null.p_value:.3g})" + (f"; {self.remark}" if self.remark else "")
        )


def assess(
    metric: Metric,
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    level: float = 0.95,
    n_draws: int = 400,
    seed: int = 0,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    **options: Any,
) -> Assessment:
    """Value, confidence interval and null reference of a calibration metric.

    Parameters
    ----------
    metric : function
        One of this package's metrics, such as `expected_calibration_error` or `top_label_ece`.
    y_true, y_prob, sample_weight
        As the metric takes them.
    level : float
        Nominal coverage of the interval; each side errs with at most half the remainder.
    n_draws, seed : int
        Simulated outcomes of the null reference.
    labels : array (K,), optional
        Label of each column, for the multiclass metrics.
    groups : array (n,), optional
        Cluster of each row: rows of one prompt, patient or session are not independent. Interval
        and null reference are then those of independent clusters.
    pos_label : label, optional
        The label that counts as 1, for the binary metrics.
    **options
        Further options of the metric: `n_bins`, `strategy`.

    Notes
    -----
    The interval of a binned metric is for the population's value with the bins used here: a
    different number of bins is a different quantity.

    Examples
    --------
    >>> import numpy as np
    >>> from cje.classification import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> result = assess(expected_calibration_error, rng.random(1000) < p, p)
    >>> 0.0 in result.interval, result.null.p_value > 0.05
    (True, True)
    """
    entry = entry_of(metric)
    level = check_level(level)
    rows = check_rows(
        entry.kind, y_true, y_prob, sample_weight=sample_weight, labels=labels,
        pos_label=pos_label, groups=groups,
    )  # fmt: skip
    return assess_rows(metric, rows, level=level, n_draws=n_draws, seed=seed, **options)


def assess_rows(
    metric: Metric, rows: Rows, *, level: float, n_draws: int, seed: int, **options: Any
) -> Assessment:
    """`assess` of rows that are checked already."""
    entry = entry_of(metric)
    unknown = set(options) - set(signature(metric).parameters)
    if unknown:
        raise CJEError(f"{metric.__name__} does not take these options", value=sorted(unknown))
    value = entry.value(rows, **options)
    interval = Interval(*entry.limits(rows, level, **options), level, entry.method)
    null = _reference(entry, rows, value, level, n_draws, seed, options)
    clusters = None if rows.groups is None else int(rows.groups.max()) + 1
    return Assessment(metric.__name__, value, interval, null, len(rows), clusters)


def null_reference(
    metric: Metric,
    y_prob: ArrayLike,
    value: float,
    *,
    level: float = 0.95,
    n_draws: int = 400,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> NullReference:
    """The metric when outcomes are drawn from `y_prob`: what perfect calibration would score.

    Parameters as in `assess`; `value` is the observed metric. The outcomes are drawn for the rows
    in the order of their probabilities, so that the order of the rows changes nothing.
    """
    entry = entry_of(metric)
    level, value = check_level(level), check_number("value", value)
    if entry.kind == "binary":
        p = check_confidence(y_prob, "y_prob")
        rows = Rows(
            "binary", p, np.zeros(len(p)), check_weights("sample_weight", sample_weight, len(p))
        )
    elif entry.kind == "top":
        label, score, names = announced(y_prob)
        w = check_weights("sample_weight", sample_weight, len(score))
        rows = Rows("top", score, np.zeros(len(score)), w, None, label, names)
    else:
        p = check_distribution(y_prob)
        no_classes = np.zeros(len(p), dtype=np.int64)
        rows = Rows("classes", p, no_classes, check_weights("sample_weight", sample_weight, len(p)))
    return _reference(entry, rows, value, level, n_draws, seed, options)


def _reference(
    entry: Entry, rows: Rows, value: float, level: float, n_draws: int, seed: int, options: Any
) -> NullReference:
    n_draws, rng = check_whole_number("n_draws", n_draws, most=_MOST_DRAWS), check_seed(seed)
    scores = entry.draws(rows, n_draws, rng, **options)
    size = np.abs(scores) if entry.two_sided else scores
    observed = abs(value) if entry.two_sided else value
    as_large = int(np.count_nonzero(size >= observed - 1e-12))
    return NullReference(
        mean=float(scores.mean()),
        quantile=float(np.quantile(scores, level)),
        p_value=(1 + as_large) / (1 + n_draws),
        n_draws=n_draws,
    )
