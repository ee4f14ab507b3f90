"""Histograms, residuals, weights and samples of a report, from the rows behind a result.

It needs at most one pass over the rows, and its size is bounded: counts in bins, and a few hundred
rows chosen by weight, residual and uncertainty, with shortened text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from cje.data.codes import Codes, Strings
from cje.data.dataset import Dataset
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.binning import equal_mass_bins, equal_width_bins
from cje.report import (
    Forest,
    ForestRow,
    HistogramPart,
    SampleColumn,
    SampleTable,
    Series,
)
from cje.report.wording import fixed, number, shorten
from cje.results.evidence import Evidence
from cje.results.result import EstimationResult

__all__ = [
    "MOST_ROWS",
    "residual_parts",
    "sample_table",
    "score_histogram",
    "weight_histograms",
]

MOST_ROWS = 60  # of any forest or table in a report
_SCORE_BINS, _WEIGHT_BINS, _REGIONS = 20, 30, 6
_MOST_POLICIES, _MOST_COLUMNS, _MOST_LEVELS = 6, 6, 8
_MIN_IN_REGION = 5
_MOST_IN_HISTOGRAM = 100_000
_SAMPLES, _PROMPT_CHARACTERS, _RESPONSE_CHARACTERS = 240, 240, 480
_BAND_CELLS = 1000
_NO_TEXT = "Texts were not kept: analyze_dataset(..., text=True) keeps those in the data."
_SMALLEST_WEIGHT = 1e-4  # smaller weights share the first bin


# ---- histograms -----------------------------------------------------------------------------


def score_histogram(evidence: Evidence) -> HistogramPart:
    """All judge scores, and those with a label."""
    data = evidence.dataset
    known = data.judge_score[np.isfinite(data.judge_score)]
    parts = [Series("all responses", _score_counts(known))]
    if len(evidence.labelled):
        labelled = data.judge_score[evidence.labelled]
        parts.append(Series("labelled responses", _score_counts(labelled)))
    edges = data.judge_scale.from_unit(np.linspace(0.0, 1.0, _SCORE_BINS + 1))
    return HistogramPart("Judge scores", edges, tuple(parts), "judge score")


def _score_counts(scores: FloatArray) -> FloatArray:
    bins = equal_width_bins(scores, _SCORE_BINS)
    return np.bincount(bins, minlength=_SCORE_BINS).astype(np.float64)


def weight_histograms(result: EstimationResult) -> list[HistogramPart]:
    """Weights of the target policies before and after the projection on the judge score."""
    evidence = result.evidence
    if evidence is None or evidence.weights is None:
        return []
    return [
        weight_histogram(evidence, k, name)
        for k, name in enumerate(result.policies[:_MOST_POLICIES])
    ]


def weight_histogram(evidence: Evidence, k: int, name: str) -> HistogramPart:
    """Weights of one target policy on a log axis, mean one."""
    assert evidence.weights is not None
    columns = [("raw weights", evidence.weights[:, k])]
    if evidence.projected is not None:
        columns.append(("projected on the judge score", evidence.projected[:, k]))
    top = max(float(column.max()) for _, column in columns)
    low = max(min(float(column.min()) for _, column in columns), _SMALLEST_WEIGHT)
    first, last = np.floor(np.log10(low)), max(np.ceil(np.log10(max(top, low))), 1.0)
    edges = np.linspace(first, last, _WEIGHT_BINS + 1)
    step = max(1, len(evidence.dataset) // _MOST_IN_HISTOGRAM)
    series = tuple(
        Series(label, _log_counts(column[::step], first, last)) for label, column in columns
    )
    note = f"One row in {step} is counted." if step > 1 else ""
    return HistogramPart(name, edges, series, "weight (mean one)", log=True, note=note)


def _log_counts(weights: FloatArray, first: float, last: float) -> FloatArray:
    place = (np.log10(np.maximum(weights, 10.0**first)) - first) / (last - first)
    bins = np.minimum((place * _WEIGHT_BINS).astype(np.int64), _WEIGHT_BINS - 1)
    return np.bincount(bins, minlength=_WEIGHT_BINS).astype(np.float64)


# ---- residuals ------------------------------------------------------------------------------


def residual_parts(evidence: Evidence, level: float) -> list[Forest]:
    """Mean out-of-fold residuals by region of the score, and by policy, group and covariate."""
    data, rows = evidence.dataset, evidence.labelled
    if len(rows) < 2 * _MIN_IN_REGION:
        return []
    residual = (data.oracle_label[rows] - evidence.predicted) * data.oracle_scale.width
    weight = np.ones(len(rows))
    if data.label_propensity is not None:
        weight = 1.0 / data.label_propensity[rows]
    scores = data.judge_scale.from_unit(data.judge_score[rows])
    parts = [_by_value("judge score", scores, residual, weight, level)]
    if data.policy.n_names > 1:
        parts.append(_by_level("policy", data.policy.take(rows), residual, weight, level))
    for name, codes in list(data.groups.items())[:_MOST_COLUMNS]:
        parts.append(_by_level(name, codes.take(rows), residual, weight, level))
    for name, values in _numbers(data, rows):
        keep = np.isfinite(values)
        parts.append(_by_value(name, values[keep], residual[keep], weight[keep], level))
    return [part for part in parts if len(part.rows) > 1]


def _numbers(data: Dataset, rows: IntArray) -> Iterator[tuple[str, FloatArray]]:
    """Numeric columns of the labelled rows: covariates, and the length of the response."""
    for name, values in list(data.covariates.items())[:_MOST_COLUMNS]:
        yield name, values[rows]
    if data.response is not None and "response_length" not in data.covariates:
        lengths = data.response.take(rows).lengths()
        yield "length of the response", lengths.astype(np.float64)


def _by_value(
    name: str, values: FloatArray, residual: FloatArray, weight: FloatArray, level: float
) -> Forest:
    """Regions of equal mass."""
    region = equal_mass_bins(values, min(_REGIONS, max(len(values) // 10, 2)))
    whole = bool((values == np.rint(values)).all())
    rows = []
    for k in np.unique(region).tolist():
        inside = values[region == k]
        ends = float(inside.min()), float(inside.max())
        low, high = (fixed(v, 0) if whole else number(v, 3) for v in ends)
        rows.append((low if low == high else f"{low} to {high}", region == k))
    return _forest(name, rows, residual, weight, level)


def _by_level(
    name: str, codes: Codes, residual: FloatArray, weight: FloatArray, level: float
) -> Forest:
    """The most frequent levels."""
    most = np.argsort(-codes.counts(), kind="stable")[:_MOST_LEVELS]
    rows = [(codes.vocabulary[int(k)], codes.codes == k) for k in most.tolist()]
    return _forest(name, rows, residual, weight, level)


def _forest(
    name: str,
    parts: list[tuple[str, NDArray[np.bool_]]],
    residual: FloatArray,
    weight: FloatArray,
    level: float,
) -> Forest:
    rows = tuple(
        _mean_row(label, residual[inside], weight[inside], level)
        for label, inside in parts
        if inside.sum() >= _MIN_IN_REGION
    )
    return Forest(f"By {shorten(name, 60)}", rows, "label minus prediction", reference=0.0)


def _mean_row(label: str, residual: FloatArray, weight: FloatArray, level: float) -> ForestRow:
    """Weighted mean residual with its t interval, rows taken as independent."""
    from scipy.special import stdtrit

    n, share = len(residual), weight / weight.sum()
    mean = float(share @ residual)
    se = float(np.sqrt(np.sum((share * (residual - mean)) ** 2) * n / (n - 1)))
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * se
    return ForestRow(label, mean, mean - half, mean + half, mark=f"n = {n}")


# ---- samples --------------------------------------------------------------------------------


def sample_table(result: EstimationResult) -> SampleTable | None:
    """Rows with the largest weights, residuals and uncertainties, with their text."""
    evidence = result.evidence
    if evidence is None or not len(evidence.dataset):
        return None
    data = evidence.dataset
    # by column: a maximum along rows of three numbers is slow
    weight = None if evidence.weights is None else reduce(np.maximum, evidence.weights.T)
    uncertainty, says = _uncertainty(result, evidence)
    rows = _choose(evidence, weight, uncertainty)
    residual = _spread(evidence, rows)
    columns: list[tuple[SampleColumn, list[str] | FloatArray]] = [
        (SampleColumn("prompt id", "name"), _names(data.prompt_id, rows)),
        (SampleColumn("policy", "name"), _names(data.policy, rows)),
        (SampleColumn("judge score", "number"), data.judge_scale.from_unit(data.judge_score[rows])),
        (SampleColumn("label", "number"), data.oracle_scale.from_unit(data.oracle_label[rows])),
        (
            SampleColumn("residual", "number", says="label minus its out-of-fold prediction"),
            residual * data.oracle_scale.width,
        ),
    ]
    if weight is not None:
        words = "importance weight, mean one; the largest over the target policies"
        columns.append((SampleColumn("weight", "number", says=words), weight[rows]))
    if uncertainty is not None:
        columns.append((SampleColumn("uncertainty", "number", says=says), uncertainty[rows]))
    for name, text, limit in (
        ("prompt", data.prompt, _PROMPT_CHARACTERS),
        ("response", data.response, _RESPONSE_CHARACTERS),
    ):
        if text is not None:
            columns.append((SampleColumn(name, "text"), _texts(text, rows, limit)))
    names = [column.name for column, _ in columns]
    orders = [
        (f"Largest {name}", names.index(name), True)
        for name in ("weight", "residual", "uncertainty", "judge score")
        if name in names
    ]
    return SampleTable(
        "Samples",
        tuple(column for column, _ in columns),
        tuple(zip(*(_cells(values) for _, values in columns), strict=True)),
        tuple(orders),
        note=f"{len(rows)} of {len(data)} rows: those with the largest weight, residual and "
        "uncertainty, and some spread over the data. "
        + ("Long texts are cut." if "response" in names or "prompt" in names else _NO_TEXT),
    )


def _uncertainty(result: EstimationResult, evidence: Evidence) -> tuple[FloatArray | None, str]:
    """The judge's standard deviation where it was measured, else the calibration's band."""
    data = evidence.dataset
    if data.judge_variance is not None and np.isfinite(data.judge_variance).any():
        spread = np.sqrt(np.nan_to_num(data.judge_variance)) * data.judge_scale.width
        return spread, "standard deviation of the judge's score"
    curve = result.curves.get("judge")
    if curve is None or curve.low is None or curve.high is None:
        return None, ""
    # looked up in the band at a thousand scores: interpolation for every row would be slow
    cells = data.judge_scale.from_unit((np.arange(_BAND_CELLS) + 0.5) / _BAND_CELLS)
    half = np.interp(cells, curve.x, 0.5 * (curve.high - curve.low))
    return half[
        equal_width_bins(data.judge_score, _BAND_CELLS)
    ], "half-width of the calibration's band at this score"


def _choose(
    evidence: Evidence, weight: FloatArray | None, uncertainty: FloatArray | None
) -> IntArray:
    """Row numbers, in order: the largest by each criterion, then rows spread over the data."""
    n = len(evidence.dataset)
    parts: list[IntArray] = []
    room = _SAMPLES // 4
    if weight is not None:
        parts.append(_largest(weight, room))
    if len(evidence.labelled):
        gap = np.abs(evidence.dataset.oracle_label[evidence.labelled] - evidence.predicted)
        parts.append(evidence.labelled[_largest(gap, room)])
    if uncertainty is not None:
        parts.append(_largest(uncertainty, room))
    taken = np.unique(np.concatenate([*parts, np.zeros(0, dtype=np.int64)]))
    even = np.unique(np.linspace(0, n - 1, min(_SAMPLES, n)).astype(np.int64))
    rest = np.setdiff1d(even, taken)
    spare = _SAMPLES - len(taken)
    if len(rest) > spare:
        rest = rest[np.linspace(0, len(rest) - 1, spare).astype(np.int64)]
    return np.sort(np.concatenate([taken, rest]))


def _largest(values: FloatArray, count: int) -> IntArray:
    """Positions of the largest values; ties go to earlier rows."""
    if len(values) <= count:
        return np.arange(len(values))
    some = values[:: max(1, len(values) // (64 * count))]
    # The count-th largest of a part is at most that of all, so few rows remain to sort.
    near = np.flatnonzero(values >= np.partition(some, len(some) - count)[len(some) - count])
    best = values[near]
    cut = np.partition(best, len(best) - count)[len(best) - count]
    above = near[best > cut]
    return np.concatenate([above, near[best == cut][: count - len(above)]])


def _spread(evidence: Evidence, rows: IntArray) -> FloatArray:
    """Residuals of the chosen rows; NaN where there is no label."""
    out = np.full(len(rows), np.nan)
    if len(evidence.labelled):
        place = np.minimum(np.searchsorted(evidence.labelled, rows), len(evidence.labelled) - 1)
        known = evidence.labelled[place] == rows
        label = evidence.dataset.oracle_label[rows[known]]
        out[known] = label - evidence.predicted[place[known]]
    return out


def _names(codes: Codes, rows: IntArray) -> list[str]:
    return [shorten(codes.name_at(row), 80) for row in rows.tolist()]


def _texts(text: Strings, rows: IntArray, limit: int) -> list[str]:
    # one string at a time: each row may hold megabytes
    return [shorten(text[row] or "", limit) for row in rows.tolist()]


def _cells(values: list[str] | FloatArray) -> list[str | float | None]:
    if isinstance(values, list):
        return list(values)
    return [value if np.isfinite(value) else None for value in values.tolist()]
