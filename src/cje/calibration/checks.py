"""Numbers in, or a clear error: shared by rewards and weights, which share nothing else."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data.arrays import float_array
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = [
    "bool_array",
    "finite_column",
    "finite_vector",
    "float_array",
    "fold_column",
    "is_number",
    "n_rows",
]

_LARGEST = sys.float_info.max


def finite_column(name: str, values: ArrayLike, n: int, *, largest: float = 1e100) -> FloatArray:
    """`n` finite numbers, or an error that names the row; beyond `largest` products overflow."""
    column = float_array(name, values)
    if column.shape != (n,):
        raise CJEError(
            f"{name} must have one value a row", value=column.shape, hint=f"there are {n} rows"
        )
    _refuse_non_finite(name, column)
    if max(-column.min(), column.max()) > largest:
        row = int(np.argmax(np.abs(column)))
        raise CJEError(f"{name} is too large", where=f"row {row}", value=float(column[row]))
    return column


def finite_vector(name: str, values: ArrayLike) -> FloatArray:
    """A 1-D array of finite floats, of any length, or an error that names the row."""
    array = float_array(name, values)
    if array.ndim != 1:
        raise CJEError(f"{name} must be one-dimensional", value=array.shape)
    _refuse_non_finite(name, array)
    return array


def _refuse_non_finite(name: str, column: FloatArray) -> None:
    bad = ~np.isfinite(column)
    if bad.any():
        row = int(np.argmax(bad))
        raise CJEError(f"{name} is not finite", where=f"row {row}", value=float(column[row]))


def bool_array(name: str, values: ArrayLike) -> BoolArray:
    """True and false, or 1 and 0; a NaN or a label is neither."""
    if isinstance(values, np.ndarray) and values.dtype == bool:
        return values
    numbers = float_array(name, values)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise CJEError(f"{name} must hold true and false", value=type(values).__name__)
    return np.asarray(numbers == 1.0)


def is_number(value: Any) -> bool:
    """A finite int or float, Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(-_LARGEST <= value <= _LARGEST)  # a whole number may be larger than any float


def fold_column(name: str, values: ArrayLike, n: int) -> IntArray:
    """The fold of each of `n` rows: one integer a row."""
    try:
        folds = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must hold one integer a row", value=values) from error
    if folds.shape != (n,) or folds.dtype.kind not in "iu":
        raise CJEError(f"{name} must hold one integer a row", value=folds.shape)
    return folds


def n_rows(name: str, values: ArrayLike) -> int:
    """Length of the first axis, at least one."""
    try:
        shape = np.shape(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must be an array", value=values) from error
    if not shape or shape[0] == 0:
        raise CJEError(f"{name} must be an array that is not empty", value=values)
    return int(shape[0])
