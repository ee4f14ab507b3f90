"""Each metric's entry: the rows it needs, its limits, its null draws, its influence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.classification import brier, cumulative, ece, limits, null, rms, scores, smooth
from cje.classification.bins import binner, cell_sums
from cje.classification.rows import Kind, Rows
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["ENTRIES", "Entry", "Metric", "entry_of"]

Metric = Callable[..., float]
Limits = tuple[float, float]
Draws = Callable[..., FloatArray]


@dataclass(frozen=True)
class Entry:
    """One metric.

    Attributes
    ----------
    kind : {"binary", "top", "classes"}
    limits : function (rows, level, **options) -> (low, high)
        For the population's value.
    draws : function (rows, n_draws, rng, **options) -> array
        Values of a perfectly calibrated model.
    method : str
        Method of the limits.
    value : function (rows, **options) -> float
    two_sided : bool
        Both signs are evidence against calibration.
    """

    kind: Kind
    value: Callable[..., float]
    limits: Callable[..., Limits]
    draws: Draws
    method: str
    two_sided: bool = False


def _residual_entry(
    kind: Kind,
    statistic: Callable[..., Callable[[FloatArray], float]],
    limit: Callable[..., Limits],
    method: str,
    two_sided: bool = False,
) -> Entry:
    """A metric that is a function of the residuals once the scores are known."""

    def value(rows: Rows, **options: Any) -> float:
        return statistic(rows, **options)(rows.residual)

    def draws(rows: Rows, n_draws: int, rng: Any, **options: Any) -> FloatArray:
        return null.residual_draws(statistic(rows, **options), rows, n_draws, rng)

    return Entry(kind, value, limit, draws, method, two_sided)


def _absolute_sum(rows: Rows, n_bins: int = 15, strategy: str = "uniform") -> Any:
    cells = binner(rows.p, n_bins, strategy, rows.w)(rows.p)
    return _folded(rows, cells, n_bins)


def _absolute_top_sum(rows: Rows, n_bins: int = 15, strategy: str = "uniform") -> Any:
    return _folded(rows, *ece.top_cell_numbers(rows.top, rows.w, n_bins, strategy))


def _folded(rows: Rows, cells: Any, n_cells: int) -> Any:
    total = len(rows) if rows.w is None else float(rows.w.sum())

    def statistic(residual: FloatArray) -> float:
        gap = residual if rows.w is None else rows.w * residual
        return float(np.abs(np.bincount(cells, weights=gap, minlength=n_cells)).sum() / total)

    return statistic


def _of_cells(function: Callable[..., float]) -> Callable[..., Any]:
    """A statistic of the sums inside plain bins."""

    def prepared(rows: Rows, n_bins: int = 15, strategy: str = "uniform") -> Any:
        cells = binner(rows.p, n_bins, strategy, rows.w)(rows.p)

        def statistic(residual: FloatArray) -> float:
            outcome = rows.p + residual
            return function(cell_sums(outcome, rows.p, rows.w, cells, n_bins, rows.groups))

        return statistic

    return prepared


def _of_top_cells(function: Callable[..., float]) -> Callable[..., Any]:
    """A statistic of the sums inside (label, bin) cells, and of the number of bins."""

    def prepared(rows: Rows, n_bins: int = 15, strategy: str = "uniform") -> Any:
        cells, n_cells = ece.top_cell_numbers(rows.top, rows.w, n_bins, strategy)

        def statistic(residual: FloatArray) -> float:
            sums = cell_sums(rows.p + residual, rows.p, rows.w, cells, n_cells)
            return function(sums, n_bins)

        return statistic

    return prepared


def _largest_gap(cells: Any) -> float:
    return float(np.abs(cells.gap).max())


def _mean_over_labels(cells: Any, n_bins: int) -> float:
    return float(ece.label_shares(cells, n_bins) @ np.abs(cells.gap))


def _spiegelhalter(rows: Rows) -> Any:
    return cumulative.spiegelhalter_of(rows.p, rows.w, rows.groups, rows.residual)


def _score_only(of: Callable[..., Any]) -> Callable[[Rows], Any]:
    return lambda rows: of(rows.p, rows.w)


def _row_limits(function: Callable[..., Limits]) -> Callable[[Rows, float], Limits]:
    return lambda rows, level: function(rows.y, rows.p, rows.w, level, rows.groups)


def _class_wise_entry(
    cells_value: Callable[..., float],
    reduce: Callable[[FloatArray, FloatArray], float],
    limit: Callable[..., Limits],
    method: str,
) -> Entry:
    def value(rows: Rows, n_bins: int = 15, strategy: str = "uniform") -> float:
        return cells_value(ece.class_wise_cells(rows.y, rows.p, rows.w, n_bins, strategy))

    def draws(rows: Rows, n_draws: int, rng: Any, **options: Any) -> FloatArray:
        return null.class_wise_draws(reduce, rows, n_draws, rng, **options)

    return Entry("classes", value, limit, draws, method)


def _loss_entry(losses: Any, draws: Draws, limit: Callable[..., Limits]) -> Entry:
    def value(rows: Rows) -> float:
        return float(np.average(losses(rows.y, rows.p), weights=rows.w))

    return Entry("classes", value, _row_limits(limit), draws, "t")


def _mean_absolute_gap(cells: Any) -> float:
    return float(cells.weight @ np.abs(cells.gap) / cells.weight.sum())


def _mean_absolute_sum(gaps: FloatArray, weight: FloatArray) -> float:
    return float(np.abs(gaps).sum() / weight.sum())


def _rms_sum(gaps: FloatArray, weight: FloatArray) -> float:
    held = weight > 0.0
    return float(np.sqrt((gaps[held] ** 2 / weight[held]).sum() / weight.sum()))


_INVERSION, _BAND = "test inversion", "projected band"
_SQUARES = "debiased squares"
ENTRIES: Mapping[Metric, Entry] = {
    ece.expected_calibration_error: _residual_entry(
        "binary", _absolute_sum, limits.ece_limits, _INVERSION
    ),
    ece.debiased_ece: _residual_entry(
        "binary", _of_cells(ece.debiased_value), limits.ece_limits, _INVERSION
    ),
    ece.maximum_calibration_error: _residual_entry(
        "binary", _of_cells(_largest_gap), limits.mce, _BAND
    ),
    rms.rms_calibration_error: _residual_entry(
        "binary", _of_cells(rms.rms_of_cells), limits.rms_error, _SQUARES
    ),
    ece.confidence_ece: _residual_entry("top", _absolute_sum, limits.ece_limits, _INVERSION),
    ece.top_label_ece: _residual_entry("top", _absolute_top_sum, limits.top_label, _INVERSION),
    ece.mean_top_label_ece: _residual_entry(
        "top", _of_top_cells(_mean_over_labels), limits.mean_top_label, _INVERSION
    ),
    rms.top_label_rms_error: _residual_entry(
        "top", _of_top_cells(lambda cells, _: rms.rms_of_cells(cells)), limits.top_label_rms,
        _SQUARES,
    ),
    ece.class_wise_ece: _class_wise_entry(
        _mean_absolute_gap, _mean_absolute_sum, limits.class_wise, _INVERSION
    ),
    rms.class_wise_rms_error: _class_wise_entry(
        rms.rms_of_cells, _rms_sum, limits.class_wise_rms, _SQUARES
    ),
    scores.multiclass_brier_score: _loss_entry(
        scores.squared_losses, null.squared_loss_draws, scores.brier_limits
    ),
    scores.multiclass_log_loss: _loss_entry(
        scores.log_losses, null.log_loss_draws, scores.log_loss_limits
    ),
    smooth.smooth_ece: _residual_entry(
        "binary", _score_only(smooth.smooth_of), _row_limits(smooth.smooth_ece_limits), _INVERSION
    ),
    cumulative.kolmogorov_smirnov_error: _residual_entry(
        "binary", _score_only(cumulative.kolmogorov_smirnov_of),
        _row_limits(cumulative.kolmogorov_smirnov_limits), _BAND,
    ),
    cumulative.kuiper_error: _residual_entry(
        "binary", _score_only(cumulative.kuiper_of), _row_limits(cumulative.kuiper_limits), _BAND
    ),
    cumulative.spiegelhalter_z: _residual_entry(
        "binary", _spiegelhalter, _row_limits(cumulative.spiegelhalter_limits), "normal", True
    ),
    brier.brier_score: _residual_entry(
        "binary", _score_only(brier.brier_of), _row_limits(brier.brier_limits), "t"
    ),
    brier.corp_miscalibration: _residual_entry(
        "binary", _score_only(brier.miscalibration_of), _row_limits(brier.miscalibration_limits),
        _SQUARES,
    ),
    brier.corp_discrimination: _residual_entry(
        "binary", _score_only(brier.discrimination_of), _row_limits(brier.discrimination_limits),
        _SQUARES,
    ),
}  # fmt: skip


def entry_of(metric: Any) -> Entry:
    """The entry of a metric of this package, or an error that lists them."""
    try:
        return ENTRIES[metric]
    except (KeyError, TypeError) as error:
        names = ", ".join(known.__name__ for known in ENTRIES)
        raise CJEError(
            "assess takes the metrics of cje.classification only",
            value=metric,
            hint=f"pass one of the functions {names}",
        ) from error
