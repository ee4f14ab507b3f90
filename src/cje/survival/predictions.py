"""Predictions in their usual forms -> survival at the horizons and at each subject's own time.

Matrices over a time grid, data frames of lifelines, pycox and scikit-survival's step functions,
mappings from a horizon to probabilities; follow-up as a pair, a structured array or a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cje.checks import check_probabilities, finite_array
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.metrics import CURVE_ENDS_EARLY, CURVE_TOO_COARSE
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.kaplan_meier import StepFunction
from cje.survival.sample import interval_censored

__all__ = ["FollowUp", "Predictions", "read_follow_up", "read_predictions"]

TIME_NAMES = ("time", "t", "duration", "durations", "event_time", "event_times", "stop", "tstop")
EVENT_NAMES = ("event", "e", "status", "delta", "observed", "event_indicator", "event_indicators")
# Two times per row, as survfit and icenReg in R, lifelines and scikit-survival's users name them.
INTERVAL_NAMES = (
    ("time", "time2"), ("lower", "upper"), ("left", "right"), ("l", "r"),
    ("lower_bound", "upper_bound"),
)  # fmt: skip
ENTRY_NAMES = ("entry", "start", "tstart", "entry_time")
_ROUNDING = 1e-6  # of float32 models
_LEAST_SURVIVAL = 1e-12  # has a finite hazard


class FollowUp(NamedTuple):
    """Times, event codes, and times of entry where `y` has them."""

    time: Any
    event: Any
    entry: Any = None


class Predictions(NamedTuple):
    """Survival at each horizon (n, horizons), and at each subject's own time where it is known."""

    at: FloatArray
    own: FloatArray | None
    findings: tuple[Finding, ...] = ()


def read_follow_up(y: Any) -> FollowUp:
    """Times and events out of a pair, a structured array, a mapping or a data frame.

    Raises
    ------
    CJEError
        Another type, or columns that are not recognised.
    """
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names:
        return _structured(y, names)
    if isinstance(y, Mapping) or hasattr(y, "columns"):
        return _columns(y)
    if isinstance(y, tuple | list) and len(y) in (2, 3) and np.ndim(y[0]) == 1:
        return FollowUp(*y) if len(y) == 2 else FollowUp(y[1], y[2], y[0])
    raise CJEError(
        "y is not recognised as follow-up",
        where="y",
        value=type(y).__name__,
        hint="pass (time, event), (entry, time, event), a structured array as scikit-survival "
        "makes it, or a frame with the columns time and event",
    )


def _structured(y: Any, names: tuple[str, ...]) -> FollowUp:
    """scikit-survival: one boolean field, one numeric field."""
    flags = [name for name in names if y.dtype[name].kind == "b"]
    if len(names) == 2 and len(flags) == 1:
        other = next(name for name in names if name != flags[0])
        return FollowUp(y[other].astype(float), y[flags[0]].astype(float))
    return _columns({name: y[name] for name in names})


def _columns(y: Any) -> FollowUp:
    present = list(y.keys()) if isinstance(y, Mapping) else list(y.columns)
    lower = {str(name).lower() for name in present}
    for pair in INTERVAL_NAMES:
        if lower.issuperset(pair):
            raise interval_censored(f"y has the columns {pair[0]} and {pair[1]}", "y", present)
    found = []
    for wanted in (TIME_NAMES, EVENT_NAMES, ENTRY_NAMES):
        hits = [name for name in present if str(name).lower() in wanted]
        if len(hits) > 1 or (not hits and wanted is not ENTRY_NAMES):
            raise CJEError(
                f"{'no' if not hits else 'more than one'} column is recognised as the {wanted[0]}",
                where="y",
                value=[str(name) for name in present],
                hint="pass (time, event) as a pair of columns",
            )
        found.append(np.asarray(y[hits[0]]) if hits else None)
    return FollowUp(*found)


def read_predictions(
    predictions: Any, own_time: FloatArray, horizons: FloatArray, times: Any = None
) -> Predictions:
    """Survival at the horizons and at the subjects' own times.

    Parameters
    ----------
    predictions : mapping, array, data frame or sequence of step functions
        - a mapping from each horizon to survival probabilities (n,);
        - an array (n,) for one horizon, or (n, horizons);
        - an array (n, m) with `times` (m,), a data frame of shape (m, n) whose index holds times
          (lifelines, pycox), or one of shape (n, m) whose column names are times;
        - a sequence of n step functions with ``x`` and ``y`` (scikit-survival).
        Curves are read as right-continuous steps; before the first time survival is 1.
    own_time : array (n,)
    horizons : array (h,)

    Raises
    ------
    CJEError
        A form that is not recognised or ambiguous; survival that increases with time; a horizon
        after the last time of the curve.
    """
    n = len(own_time)
    if isinstance(predictions, Mapping):
        return Predictions(_from_mapping(predictions, n, horizons), None)
    if hasattr(predictions, "index") and hasattr(predictions, "columns"):
        grid, matrix = _from_frame(predictions, n, times)
        return _read_curves(matrix, grid, own_time, horizons)
    steps = _step_functions(predictions)
    if steps is not None:
        if len(steps) != n:
            raise CJEError("predictions must hold one step function per subject", value=len(steps),
                           hint=f"y has {n} rows")  # fmt: skip
        return _read_steps(steps, own_time, horizons)
    array = np.asarray(predictions)
    if times is not None:
        matrix = check_probabilities("predictions", predictions, ndim=2)
        return _read_curves(matrix, finite_array("times", times), own_time, horizons)
    if array.ndim == 1 and len(horizons) == 1:
        return Predictions(check_probabilities("predictions", predictions, n=n)[:, None], None)
    matrix = check_probabilities("predictions", predictions, ndim=2)
    if matrix.shape != (n, len(horizons)):
        raise CJEError(
            "predictions must have one row per subject and one column per horizon",
            value=matrix.shape,
            hint=f"expected {(n, len(horizons))}; pass times= for curves over a grid",
        )
    return Predictions(matrix, None)


def _from_mapping(predictions: Mapping[Any, Any], n: int, horizons: FloatArray) -> FloatArray:
    by_time = {}
    for key, values in predictions.items():
        try:
            by_time[float(key)] = values
        except (TypeError, ValueError) as error:
            raise CJEError("a key of predictions must be a horizon", value=key) from error
    missing = [float(t) for t in horizons if float(t) not in by_time]
    if missing:
        raise CJEError(
            "predictions lack a horizon",
            where="horizons",
            value=missing[0],
            hint=f"they have {', '.join(f'{t:g}' for t in sorted(by_time))}",
        )
    return np.column_stack(
        [check_probabilities(f"predictions[{t:g}]", by_time[float(t)], n=n) for t in horizons]
    )


def _from_frame(frame: Any, n: int, times: Any) -> tuple[FloatArray, FloatArray]:
    """Grid and matrix (n, m): the times are the index or the column names."""
    matrix = check_probabilities("predictions", frame.to_numpy(), ndim=2)
    if times is not None:
        return finite_array("times", times), matrix
    by_index, by_column = _increasing(frame.index), _increasing(frame.columns)
    as_rows = matrix.shape[1] == n and by_index is not None
    as_columns = matrix.shape[0] == n and by_column is not None
    if as_rows and as_columns:  # a plain 0, 1, 2, ... labels rows or columns: it is not a grid
        plain_index = _is_count(by_index)
        plain_column = _is_count(by_column)
        as_rows, as_columns = as_rows and not plain_index, as_columns and not plain_column
        if as_rows == as_columns:
            raise CJEError("the frame's times may be its index or its columns",
                           where="predictions", value=matrix.shape,
                           hint="pass an array (subjects, times) and times=")  # fmt: skip
    if as_rows and by_index is not None:
        return by_index, np.ascontiguousarray(matrix.T)
    if as_columns and by_column is not None:
        return by_column, matrix
    raise CJEError(
        "the frame has neither times as index and one column per subject nor one row per subject "
        "and times as column names",
        where="predictions", value=matrix.shape, hint=f"y has {n} rows; pass an array and times=",
    )  # fmt: skip


def _is_count(labels: FloatArray | None) -> bool:
    return labels is not None and np.array_equal(labels, np.arange(len(labels)))


def _increasing(labels: Any) -> FloatArray | None:
    try:
        values = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    good = len(values) > 0 and bool(np.isfinite(values).all()) and bool(np.all(np.diff(values) > 0))
    return values if good else None


def _step_functions(predictions: Any) -> list[Any] | None:
    if isinstance(predictions, np.ndarray) and predictions.dtype != object:
        return None
    if not isinstance(predictions, Sequence | np.ndarray) or isinstance(predictions, str):
        return None
    items = list(predictions)
    every = bool(items) and all(hasattr(f, "x") and hasattr(f, "y") for f in items)
    return items if every else None


def _read_curves(
    matrix: FloatArray, grid: FloatArray, own_time: FloatArray, horizons: FloatArray
) -> Predictions:
    if matrix.shape != (len(own_time), len(grid)):
        raise CJEError(
            "predictions must have one row per subject and one column per time",
            value=matrix.shape,
            hint=f"expected {(len(own_time), len(grid))}",
        )
    if len(grid) == 0 or np.any(np.diff(grid) <= 0):
        raise CJEError("times must increase", where="times", value=grid)
    rise = np.diff(matrix, axis=1, prepend=1.0)
    if rise.max(initial=0.0) > _ROUNDING:
        row = int(np.argmax(rise.max(axis=1)))
        raise CJEError("predicted survival increases with time", where=f"predictions, row {row}",
                       value=float(rise[row].max()),
                       hint="pass survival, not cumulative incidence or hazard")  # fmt: skip
    _covered(float(grid[-1]), horizons)
    padded = np.column_stack((np.ones(len(matrix)), matrix))
    at = padded[:, np.searchsorted(grid, horizons, side="right")]
    column = np.searchsorted(grid, own_time, side="right")
    own = padded[np.arange(len(matrix)), column]
    coarse = _step_error(padded, grid, own_time, column)
    if coarse > CURVE_TOO_COARSE.thresholds["difference"]:
        return Predictions(at, None, (CURVE_TOO_COARSE.finding(difference=coarse),))
    beyond = int((own_time > grid[-1]).sum())
    return Predictions(at, own, _beyond(beyond, grid[-1]))


def _step_error(
    padded: FloatArray, grid: FloatArray, own_time: FloatArray, column: IntArray
) -> float:
    """By how much interpolating the cumulative hazard changes the expected events, as a share.

    Beyond the last time the hazard goes on at its mean. Zero at times of the grid; small where the
    grid holds the training events, as fitted models return it; large where it holds a few horizons.
    """
    knots = np.concatenate(([min(0.0, float(grid[0]))], grid))
    inside = column < len(grid)
    rows, after = np.flatnonzero(inside), column[inside] + 1
    hazard = -np.log(np.maximum(padded, _LEAST_SURVIVAL))
    before = hazard[rows, after - 1]
    gap = knots[after] - knots[after - 1]
    part = (own_time[rows] - knots[after - 1]) / np.where(gap > 0, gap, 1.0)
    more = float((part * (hazard[rows, after] - before)).sum())
    late = np.flatnonzero(own_time > grid[-1])
    if grid[-1] > 0:
        more += float((hazard[late, -1] * (own_time[late] / grid[-1] - 1.0)).sum())
    steps = float(hazard[np.arange(len(padded)), column].sum())
    return more / (steps + more) if more > 0.0 else 0.0


def _read_steps(steps: list[Any], own_time: FloatArray, horizons: FloatArray) -> Predictions:
    at, own = np.empty((len(steps), len(horizons))), np.empty(len(steps))
    last = np.inf
    beyond = 0
    for i, step in enumerate(steps):
        x = finite_array(f"predictions[{i}].x", step.x)
        y = check_probabilities(f"predictions[{i}].y", step.y, n=len(x))
        curve = StepFunction(x, y, 1.0)
        at[i], own[i] = curve.at(horizons), curve.at(own_time[i : i + 1])[0]
        last = min(last, float(x[-1]))
        beyond += int(own_time[i] > x[-1])
    _covered(last, horizons)
    return Predictions(at, own, _beyond(beyond, last))


def _covered(last: float, horizons: FloatArray) -> None:
    if horizons.max() > last:
        raise CJEError("a horizon lies after the last time of the predicted curves",
                       where="horizons", value=float(horizons.max()),
                       hint=f"the curves end at {last:g}")  # fmt: skip


def _beyond(count: int, last: float) -> tuple[Finding, ...]:
    if not count:
        return ()
    return (CURVE_ENDS_EARLY.finding(count=int(count), last_time=float(last)),)
