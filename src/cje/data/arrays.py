"""The one way an array becomes an immutable column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = [
    "float_column",
    "frozen",
    "int_column",
]


def frozen(values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """`values` as a read-only contiguous array; a caller's own writable array is copied first."""
    array = np.ascontiguousarray(values, dtype=dtype)
    mine = not (isinstance(values, np.ndarray) and np.may_share_memory(array, values))
    if not mine and array.flags.writeable:
        array = array.copy()
    array.setflags(write=False)
    return array


def float_column(name: str, values: ArrayLike, n: int) -> FloatArray:
    """A float column of n rows: NaN means missing, infinity is refused."""
    array = float_array(name, values)
    column = frozen(array, np.float64)
    _check_length(name, column, n)
    # the sum detects any infinity or NaN without an n-long mask; only then look closer
    if column.size and not np.isfinite(column.sum()):
        bad = np.isinf(column)
        if bad.any():
            row = int(np.argmax(bad))
            raise CJEError(
                f"{name} is infinite", where=f"row {row}", value=float(column[row]),
                hint="use NaN for a missing value",
            )  # fmt: skip
    return column


def int_column(name: str, values: ArrayLike, n: int) -> IntArray:
    """An integer column of n rows."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise CJEError(f"{name} must hold whole numbers", value="a masked value")
    try:
        given = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must hold whole numbers", value=_first_item(values)) from error
    if given.dtype.kind not in "iu":
        whole = given.dtype.kind == "f" and bool(
            ((given == np.floor(given)) & (np.abs(given) < 2.0**63)).all()
        )
        if not whole:
            raise CJEError(f"{name} must hold whole numbers", value=_first_item(values))
    column = frozen(values, np.int64)
    _check_length(name, column, n)
    return column


def _check_length(name: str, column: NDArray[Any], n: int) -> None:
    if column.ndim != 1 or len(column) != n:
        raise CJEError(
            f"{name} must have one value per row",
            value=column.shape,
            hint=f"there are {n} rows",
        )


def _first_item(values: Any) -> object:
    """Something short to show of a column that cannot be converted."""
    try:
        return next(iter(values))
    except (TypeError, StopIteration):
        return values
