"""Reliability curves of classifiers as the project's one `CalibrationCurve`.

The band is Clopper-Pearson's for the mean outcome of each bin; the simultaneous one (the default)
holds all bins at once, by Sidak's correction.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_choice, check_level
from cje.classification.bins import Strategy
from cje.classification.ece import binary_cells
from cje.classification.proportions import proportion_limits, simultaneous_limits
from cje.classification.rows import Rows, check_rows
from cje.inference.curve import CalibrationCurve

__all__ = ["calibration_curve", "class_wise_curves", "confidence_curve", "top_label_curves"]

_WORDS = {"x": "predicted probability", "y": "observed frequency"}
_TOP_WORDS = {"x": "confidence", "y": "accuracy"}
Band = Literal["simultaneous", "pointwise"]


def _curve(
    rows: Rows,
    n_bins: int,
    strategy: str,
    level: float,
    band: str,
    words: dict[str, str],
) -> CalibrationCurve:
    cells = binary_cells(rows.y, rows.p, rows.w, n_bins, strategy, rows.groups)
    error = (1.0 - check_level(level)) / 2.0
    if check_choice("band", band, ("simultaneous", "pointwise")) == "simultaneous":
        low, high = simultaneous_limits(cells, error)
    else:
        low, high = proportion_limits(cells, error)
    return CalibrationCurve(
        x=cells.mean_p,
        observed=cells.mean_y,
        low=low,
        high=high,
        counts=cells.weight,
        level=level,
        band=band,
        x_label=words["x"],
        y_label=words["y"],
        title=words["title"],
    )


def calibration_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    level: float = 0.95,
    band: Band = "simultaneous",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    title: str = "",
) -> CalibrationCurve:
    """Observed frequency against predicted probability, bin by bin, for a 0/1 outcome.

    Parameters
    ----------
    y_true, y_prob, n_bins, strategy, sample_weight, pos_label
        As in `expected_calibration_error`.
    groups : array (n,), optional
        Cluster of each row; the band is then that of each bin's effective number of rows.
    level : float
        Nominal coverage of the band.
    band : {"simultaneous", "pointwise"}
    title : str

    Examples
    --------
    >>> curve = calibration_curve([0, 1, 1, 1], [0.2, 0.2, 0.9, 0.9], n_bins=2)
    >>> curve.observed.tolist(), curve.counts.tolist()
    ([0.5, 1.0], [2.0, 2.0])
    """
    rows = check_rows(
        "binary", y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, groups=groups
    )
    return _curve(rows, n_bins, strategy, level, band, _WORDS | {"title": title})


def confidence_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    level: float = 0.95,
    band: Band = "simultaneous",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    title: str = "",
) -> CalibrationCurve:
    """Accuracy of the most probable class against its probability, all classes together.

    Parameters as in `calibration_curve` and `confidence_ece`.
    """
    rows = check_rows(
        "top", y_true, y_prob, sample_weight=sample_weight, labels=labels, groups=groups
    )
    return _curve(rows, n_bins, strategy, level, band, _TOP_WORDS | {"title": title})


def top_label_curves(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    level: float = 0.95,
    band: Band = "simultaneous",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> dict[Any, CalibrationCurve]:
    """One confidence curve for each label that is predicted, over the rows that predict it.

    Keys are the entries of `labels`, or column numbers. A simultaneous band holds within one curve.
    """
    rows = check_rows(
        "top", y_true, y_prob, sample_weight=sample_weight, labels=labels, groups=groups
    )
    top = rows.top
    names = top.names.tolist()
    curves = {}
    for k in np.unique(top.label if rows.w is None else top.label[rows.w > 0.0]).tolist():
        words = _TOP_WORDS | {"title": f"predicted: {names[k]}"}
        part = rows.select(top.label == k)
        curves[names[k]] = _curve(part, n_bins, strategy, level, band, words)
    return curves


def class_wise_curves(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    level: float = 0.95,
    band: Band = "simultaneous",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> dict[Any, CalibrationCurve]:
    """One curve for each class: how often it occurs against its predicted probability.

    Keys are the entries of `labels`, or column numbers. A simultaneous band holds within one curve.
    """
    rows = check_rows(
        "classes", y_true, y_prob, sample_weight=sample_weight, labels=labels, groups=groups
    )
    assert rows.names is not None
    curves = {}
    for k, name in enumerate(rows.names.tolist()):
        outcome, score = (rows.y == k).astype(np.float64), np.ascontiguousarray(rows.p[:, k])
        part = Rows("binary", score, outcome, rows.w, rows.groups)
        words = _WORDS | {"title": f"class: {name}"}
        curves[name] = _curve(part, n_bins, strategy, level, band, words)
    return curves
