"""A calibration metric with an interval, and with what a perfectly calibrated model would score.

Most calibration metrics average absolute values and are positive for a perfect model too. Beside
the value, `assess` gives a confidence interval that includes 0 where the data allow it, and the
metric's distribution when the outcomes are drawn from the predicted probabilities themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    check_level,
    check_number,
    check_probabilities,
    check_seed,
    check_weights,
    check_whole_number,
)
from cje.classification import brier, cumulative, ece
from cje.classification._arrays import (
    check_binary,
    check_distribution,
    check_multiclass,
    top_outcome,
)
from cje.classification.bins import BinSums
from cje.classification.folded import cell_noise, folded_limits
from cje.classification.proportions import proportion_limits, simultaneous_limits
from cje.classification.smooth import smooth_ece, smooth_ece_limits
from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray

__all__ = ["Assessment", "NullReference", "assess", "null_reference"]

Metric = Callable[..., float]
Limits = tuple[float, float]

_MOST_DRAWS = 1_000_000


@dataclass(frozen=True)
class NullReference:
    """The metric's distribution for a perfectly calibrated model with the same predictions.

    Parameters
    ----------
    mean : float
        What such a model would score on average.
    quantile : float
        What it would exceed with probability one minus the level.
    p_value : float
        Probability that it would score at least the observed value (in absolute value for
        Spiegelhalter's z), counted with the observed one.
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
    """

    metric: str
    value: float
    interval: Interval
    null: NullReference
    n: int

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.metric} = {self.value:.4f}, {self.interval.level:.0%} interval "
            f"[{low:.4f}, {high:.4f}]; a calibrated model would score {self.null.mean:.4f} "
            f"on {self.n} rows (p = {self.null.p_value:.3g})"
        )


def _sum_limits(cells: BinSums, share: FloatArray, level: float, copies: int = 1) -> Limits:
    """Limits for ``sum share * |gap|``; the value is at most one, and so are they."""
    noise = cell_noise(cells, share, level, copies)
    low, high = folded_limits(float(share @ np.abs(cells.gap)), noise, level)
    return low, min(high, 1.0)


def _ece(
    y: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    cells = ece.binary_cells(y, p, w, n_bins, strategy)
    return _sum_limits(cells, cells.weight / cells.weight.sum(), level)


def _mce(
    y: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    """Below, some bin must have its gap: simultaneous limits. Above, one bin has it: pointwise."""
    cells = ece.binary_cells(y, p, w, n_bins, strategy)
    error = (1.0 - level) / 2.0
    low, high = simultaneous_limits(cells, error / 2.0)
    below = np.maximum(np.maximum(low - cells.mean_p, cells.mean_p - high), 0.0).max()
    low, high = proportion_limits(cells, error)
    above = np.maximum(cells.mean_p - low, high - cells.mean_p).max()
    return float(below), float(above)


def _confidence(
    codes: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    _, score, right = top_outcome(codes, p)
    return _ece(right, score, w, level, n_bins, strategy)


def _top_label(
    codes: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    cells = ece.top_label_cells(codes, p, w, n_bins, strategy)
    return _sum_limits(cells, cells.weight / cells.weight.sum(), level)


def _mean_top_label(
    codes: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    cells = ece.top_label_cells(codes, p, w, n_bins, strategy)
    return _sum_limits(cells, ece.label_shares(cells, n_bins), level)


def _class_wise(
    codes: Any, p: Any, w: Any, level: float, n_bins: int = 15, strategy: str = "uniform"
) -> Limits:
    cells = ece.class_wise_cells(codes, p, w, n_bins, strategy)
    return _sum_limits(cells, cells.weight / cells.weight.sum(), level, copies=p.shape[1])


@dataclass(frozen=True)
class _Entry:
    limits: Callable[..., Limits]
    method: str
    multiclass: bool = False
    two_sided: bool = False


_INVERSION = "test inversion"
_ENTRIES: Mapping[Metric, _Entry] = {
    ece.expected_calibration_error: _Entry(_ece, _INVERSION),
    ece.debiased_ece: _Entry(_ece, _INVERSION),
    ece.maximum_calibration_error: _Entry(_mce, "projected band"),
    ece.confidence_ece: _Entry(_confidence, _INVERSION, multiclass=True),
    ece.top_label_ece: _Entry(_top_label, _INVERSION, multiclass=True),
    ece.mean_top_label_ece: _Entry(_mean_top_label, _INVERSION, multiclass=True),
    ece.class_wise_ece: _Entry(_class_wise, _INVERSION, multiclass=True),
    smooth_ece: _Entry(smooth_ece_limits, _INVERSION),
    cumulative.kolmogorov_smirnov_error: _Entry(
        cumulative.kolmogorov_smirnov_limits, "projected band"
    ),
    cumulative.kuiper_error: _Entry(cumulative.kuiper_limits, "projected band"),
    cumulative.spiegelhalter_z: _Entry(cumulative.spiegelhalter_limits, "normal", two_sided=True),
    brier.brier_score: _Entry(brier.brier_limits, "t"),
    brier.corp_miscalibration: _Entry(brier.miscalibration_limits, "projected band"),
    brier.corp_discrimination: _Entry(brier.discrimination_limits, "projected band"),
}


def _entry(metric: Metric) -> _Entry:
    try:
        return _ENTRIES[metric]
    except (KeyError, TypeError) as error:
        names = ", ".join(known.__name__ for known in _ENTRIES)
        raise CJEError(
            "assess knows the metrics of cje.classification only",
            value=metric,
            hint=f"pass one of the functions {names}",
        ) from error


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
    **options
        Further options of the metric: `n_bins`, `strategy`.

    Notes
    -----
    The interval of a binned metric is for the population's value with the bins used here: a
    different number of bins is a different quantity. It holds for independent rows; rows that share
    a prompt or a patient are not, and the interval is then too narrow.

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
    entry = _entry(metric)
    level = check_level(level)
    if labels is not None and not entry.multiclass:
        raise CJEError("labels belong to the metrics of many classes", value=labels)
    given = {} if labels is None else {"labels": labels}
    value = metric(y_true, y_prob, sample_weight=sample_weight, **given, **options)
    y: Any
    if entry.multiclass:
        y, p, w = check_multiclass(y_true, y_prob, sample_weight, labels)
    else:
        y, p, w = check_binary(y_true, y_prob, sample_weight)
    low, high = entry.limits(y, p, w, level, **options)
    interval = Interval(low, high, level, entry.method)
    null = null_reference(
        metric, p, value, level=level, n_draws=n_draws, seed=seed, sample_weight=w, **options
    )
    return Assessment(metric.__name__, value, interval, null, len(p))


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
    in the order of their probabilities, so that the order they come in moves nothing.
    """
    entry = _entry(metric)
    level, value = check_level(level), check_number("value", value)
    n_draws, rng = check_whole_number("n_draws", n_draws, most=_MOST_DRAWS), check_seed(seed)
    p = check_distribution(y_prob) if entry.multiclass else check_probabilities("y_prob", y_prob)
    p, w = _in_order(p, check_weights("sample_weight", sample_weight, len(p)))
    draw = _draw_classes if entry.multiclass else _draw_binary
    scores = np.array([metric(draw(p, rng), p, sample_weight=w, **options) for _ in range(n_draws)])
    size = np.abs(scores) if entry.two_sided else scores
    observed = abs(value) if entry.two_sided else value
    as_large = int(np.count_nonzero(size >= observed - 1e-12))
    return NullReference(
        mean=float(scores.mean()),
        quantile=float(np.quantile(scores, level)),
        p_value=(1 + as_large) / (1 + n_draws),
        n_draws=n_draws,
    )


def _in_order(p: FloatArray, w: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
    """The rows sorted by all that a metric sees of them but the outcome: equal rows are alike."""
    if p.ndim == 1 and w is None:
        return np.sort(p), None
    columns = p[:, None] if p.ndim == 1 else p
    order = np.lexsort((*(() if w is None else (w,)), *columns.T[::-1]))
    return p[order], None if w is None else w[order]


def _draw_binary(p: FloatArray, rng: np.random.Generator) -> Any:
    return rng.random(len(p)) < p


def _draw_classes(p: FloatArray, rng: np.random.Generator) -> Any:
    cumulated = np.cumsum(p, axis=1)
    point = rng.random(len(p)) * cumulated[:, -1]
    return np.minimum((cumulated <= point[:, None]).sum(axis=1), p.shape[1] - 1)
