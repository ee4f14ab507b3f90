"""How a judge's error depends on length, position and version, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cje.diagnostics.clustered import Clustered, LeftOut
from cje.diagnostics.judge_card import BiasEffect
from cje.inference import holm
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["bias_effects"]

_MIN_ROWS = 20
_MIN_IN_LEVEL = 10
_MOST_LEVELS = 8


def bias_effects(
    error: FloatArray,
    weight: FloatArray,
    factors: Mapping[str, Sequence[Any]],
    prompt: IntArray,
    level: float,
) -> tuple[BiasEffect, ...]:
    """One effect per numeric factor and per level of a category; p-values are Holm's over all."""
    found: list[tuple[str, str, LeftOut, int]] = []
    for name, values in factors.items():
        numbers = _numbers(values)
        if numbers is not None:
            found += _slope(name, error, weight, numbers, prompt)
        else:
            found += _levels(name, error, weight, [str(v) for v in values], prompt)
    p: Any = holm([one.p_value() for _, _, one, _ in found]) if found else []
    effects = []
    for (name, which, one, n), q in zip(found, p, strict=True):
        low, high = one.interval("plain", level) or (None, None)
        effects.append(BiasEffect(name, which, one.value, low, high, float(q), n))
    return tuple(effects)


def _numbers(values: Sequence[Any]) -> FloatArray | None:
    """The factor as numbers (NaN where missing), or None for a category."""
    kept = [np.nan if v is None else v for v in values]
    if any(isinstance(v, str | bool) for v in kept):
        return None
    try:
        numbers = np.asarray(kept, dtype=np.float64)
    except (TypeError, ValueError):  # objects are names, too
        return None
    return numbers if len(np.unique(numbers[np.isfinite(numbers)])) > 2 else None


def _slope(
    name: str, error: FloatArray, weight: FloatArray, values: FloatArray, prompt: IntArray
) -> list[tuple[str, str, LeftOut, int]]:
    """Change of the error for one standard deviation more, by least squares."""
    keep = np.isfinite(values)
    if int(keep.sum()) < _MIN_ROWS:
        return []
    x = values[keep] - values[keep].mean()
    size = float(np.abs(x).max())
    x = x / size if size > 0.0 else x
    spread = float(x.std())
    if not spread > 0.0:
        return []
    z, e, w = x / spread, error[keep], weight[keep]
    columns = np.column_stack([w, w * z, w * e, w * z * z, w * z * e])
    found = Clustered.of(prompt[keep]).function(columns, _slope_of)
    return [(name, "", found, int(keep.sum()))] if np.isfinite(found.without).all() else []


def _slope_of(totals: FloatArray) -> FloatArray:
    w, z, e, zz, ze = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        free = w * zz - z**2
        return np.asarray(np.where(free > 1e-9 * w * zz, (w * ze - z * e) / free, np.nan))


def _levels(
    name: str, error: FloatArray, weight: FloatArray, values: list[str], prompt: IntArray
) -> list[tuple[str, str, LeftOut, int]]:
    """Mean error of each level minus that of all rows; the most frequent levels."""
    names, codes, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    if len(names) < 2:
        return []
    clusters, found = Clustered.of(prompt), []
    for k in np.argsort(-counts, kind="stable")[:_MOST_LEVELS].tolist():
        inside: BoolArray = codes == k
        if counts[k] < _MIN_IN_LEVEL or len(np.unique(prompt[inside])) < 2:
            continue
        own = weight * inside
        columns = np.column_stack([own, own * error, weight, weight * error])
        found.append((name, str(names[k]), clusters.function(columns, _gap_of), int(counts[k])))
    return found


def _gap_of(totals: FloatArray) -> FloatArray:
    own, own_error, every, every_error = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(own_error / own - every_error / every)
