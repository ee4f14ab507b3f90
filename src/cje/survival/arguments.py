"""Checks of arguments that only survival metrics have: clusters, strata and smoothing shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import IntArray

__all__ = ["SMALLEST_SHARE", "check_frac", "check_groups"]

SMALLEST_SHARE = 1e-12  # of the largest weight; smaller weights are lost in a sum


def check_frac(frac: float) -> float:
    """A smoothing share in (0, 1]."""
    if not isinstance(frac, (int, float, np.integer, np.floating)) or not 0 < frac <= 1:
        raise CJEError("the smoothing share must lie in (0, 1]", where="frac", value=frac)
    return float(frac)


def check_groups(values: Any, n: int, *, name: str = "groups") -> IntArray | None:
    """Codes 0, 1, ... of the group that each row belongs to, or None.

    Raises
    ------
    CJEError
        Unequal lengths, a missing label, labels that are not text or numbers, or a single group
        (of clusters: no standard error exists).
    """
    if values is None:
        return None
    try:
        labels = np.asarray(values)
    except ValueError as error:  # lists of unequal lengths
        raise CJEError(f"{name} must hold one label per row", where=name) from error
    if labels.ndim != 1 or len(labels) != n:
        raise CJEError(f"{name} must hold one label per row", where=name, value=labels.shape,
                       hint=f"expected {n} labels")  # fmt: skip
    missing = np.array([x is None or bool(x != x) for x in labels.tolist()], dtype=bool)
    if missing.any():
        raise CJEError("a label is missing", where=f"{name}, row {int(missing.argmax())}",
                       hint="give the row a label of its own, or drop it")  # fmt: skip
    codes = _codes(labels, name)
    if name == "groups" and codes.max() < 1:
        raise CJEError(
            "all rows belong to one group: no standard error exists",
            where=name,
            value=labels[0],
            hint="pass the cluster of each row, or omit groups",
        )
    return codes


def _codes(labels: Any, name: str) -> IntArray:
    if labels.dtype.kind in "biufUS":
        return np.asarray(np.unique(labels, return_inverse=True)[1])
    names: dict[Any, int] = {}
    try:
        return np.array([names.setdefault(label, len(names)) for label in labels.tolist()])
    except TypeError as error:  # a list or a dict cannot name a group
        raise CJEError("a label must be text or a number", where=name,
                       value=labels[0]) from error  # fmt: skip
