"""Checks of arguments: a well-formed value, or a `CJEError` that names it.

Every package checks its arguments through these functions; each takes the argument's name first and
its value second.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = [
    "LARGEST",
    "SMALLEST",
    "bool_array",
    "check_choice",
    "check_level",
    "check_number",
    "check_probabilities",
    "check_seed",
    "check_share",
    "check_weights",
    "check_whole_number",
    "finite_array",
    "float_array",
    "fold_column",
    "is_number",
    "n_rows",
    "refuse_rows",
]

LARGEST = 1e100  # squares and products of numbers up to here stay finite in float64
SMALLEST = 1.0 / LARGEST
_LARGEST_FLOAT = sys.float_info.max
_ROUNDING = 1e-6  # of float32 arithmetic
_PROBABILITIES = "pass probabilities, not logits, risk scores or percentages"


# ---- one value ------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether `value` is a finite int or float, Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    if isinstance(value, int):  # may exceed every float
        return -_LARGEST_FLOAT <= value <= _LARGEST_FLOAT
    return math.isfinite(value)


def check_number(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    where: str | None = None,
) -> float:
    """`value` as a finite float between `low` and `high`, the ends included.

    Raises
    ------
    CJEError
        Not a number, NaN, infinite or out of range.
    """
    if not is_number(value):
        raise CJEError(f"{name} must be a finite number", where=where, value=value)
    if (low is not None and value < low) or (high is not None and value > high):
        limits = [f"at {end} {x:g}" for end, x in (("least", low), ("most", high)) if x is not None]
        raise CJEError(f"{name} must be {' and '.join(limits)}", where=where, value=value)
    return float(value)


def check_share(name: str, value: Any) -> float:
    """`value` as a share above 0 and at most 1.

    Raises
    ------
    CJEError
        Any other value.
    """
    if not is_number(value) or not 0.0 < value <= 1.0:
        raise CJEError(f"{name} must lie in (0, 1]", value=value)
    return float(value)


def check_whole_number(name: str, value: Any, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """`value` as an int between `least` and `most`.

    Raises
    ------
    CJEError
        Not a whole number, or out of range.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise CJEError(f"{name} must be a whole number of at least {least:,}", value=value)
    if value > most:
        raise CJEError(f"{name} must be at most {most:,}", value=value)
    return int(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value`, one of `choices`.

    Raises
    ------
    CJEError
        Any other value.
    """
    if not isinstance(value, str) or value not in choices:
        raise CJEError(f"unknown {name}", value=value, hint=f"use one of {', '.join(choices)}")
    return value


def check_level(level: Any) -> float:
    """A confidence level strictly between 0 and 1.

    Raises
    ------
    CJEError
        Any other value.
    """
    if not is_number(level) or not 0.0 < level < 1.0:
        raise CJEError(
            "a confidence level must lie strictly between 0 and 1", value=level, hint="such as 0.95"
        )
    return float(level)


def check_seed(seed: Any) -> np.random.Generator:
    """A random generator that starts at `seed`.

    Raises
    ------
    CJEError
        Anything but a whole number of at least 0.
    """
    return np.random.default_rng(check_whole_number("seed", seed, least=0, most=2**256))


# ---- arrays ---------------------------------------------------------------------------------


def float_array(name: str, values: ArrayLike) -> FloatArray:
    """`values` as float64, of any shape; a masked entry becomes NaN.

    Raises
    ------
    CJEError
        Text, dates, complex numbers or lists of different lengths.
    """
    try:
        given: NDArray[Any] = np.asanyarray(values) if _is_masked(values) else np.asarray(values)
        if given.dtype.kind in "cmM":  # NumPy would take the real part, or the clock's ticks
            raise TypeError("complex numbers or dates")
        if isinstance(given, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(given.astype(np.float64), np.nan))
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise CJEError(f"{name} must hold numbers", value=_first_item(values)) from error


def finite_array(
    name: str,
    values: ArrayLike,
    *,
    n: int | None = None,
    ndim: int | None = 1,
    largest: float = math.inf,
) -> FloatArray:
    """Finite numbers in `ndim` dimensions (None: any), in `n` rows, at most `largest` in size.

    Raises
    ------
    CJEError
        Another shape; NaN, infinity or a number beyond `largest`, with the first place it stands.
    """
    array = float_array(name, values)
    if ndim is not None and array.ndim != ndim:
        shape = "be one-dimensional" if ndim == 1 else "have rows and columns"
        raise CJEError(f"{name} must {shape}", value=array.shape)
    if n is not None and array.shape[:1] != (n,):
        raise CJEError(f"{name} must have one value per row", value=array.shape,
                       hint=f"there are {n} rows")  # fmt: skip
    if not array.size:
        return array
    low, high = float(array.min()), float(array.max())  # a NaN passes through both
    if not (np.isfinite(low) and np.isfinite(high)):
        refuse_rows(array, ~np.isfinite(array), f"{name} must be finite",
                    "remove or repair these rows first; nothing is dropped silently")  # fmt: skip
    if max(-low, high) > largest:
        refuse_rows(array, np.abs(array) > largest, f"{name} must be at most {largest:g} in size",
                    "rescale")  # fmt: skip
    return array


def refuse_rows(array: FloatArray, bad: BoolArray, what: str, hint: str | None = None) -> None:
    """Raise an error that names the first entry where `bad` holds, if there is one.

    Raises
    ------
    CJEError
        Any entry of `bad` is true.
    """
    if not bad.any():
        return
    place = np.unravel_index(int(np.argmax(bad)), bad.shape)
    where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), place, strict=False))
    rows = int(bad.reshape(len(bad), -1).any(axis=1).sum()) if bad.ndim else 1
    if rows > 1:
        where += f"; {rows} rows in all"
    raise CJEError(what, where=where or None, value=float(array[place]), hint=hint)


def check_probabilities(
    name: str, values: ArrayLike, *, n: int | None = None, ndim: int | None = 1
) -> FloatArray:
    """Probabilities in [0, 1]; values outside by float32 rounding are moved to the end.

    Raises
    ------
    CJEError
        Another shape, NaN, or a value outside [0, 1].
    """
    p = float_array(name, values)
    if p.size:
        low, high = p.min(), p.max()  # a NaN passes through both
        if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
            inside = (p >= -_ROUNDING) & (p <= 1.0 + _ROUNDING)
            what = f"{name} must lie in [0, 1] and not be NaN"
            refuse_rows(p, ~inside, what, _PROBABILITIES)
        if low < 0.0 or high > 1.0:
            p = np.clip(p, 0.0, 1.0)
    return finite_array(name, p, n=n, ndim=ndim)


def check_weights(
    name: str, values: ArrayLike | None, n: int, *, smallest_share: float = 0.0
) -> FloatArray | None:
    """Finite, non-negative weights, one per row and not all zero; None stays None.

    Parameters
    ----------
    name : str
    values : array (n,), optional
    n : int
    smallest_share : float
        Positive weights below this share of the largest are refused: a sum would lose them.

    Raises
    ------
    CJEError
        Another shape, negative or non-finite weights, a sum of zero, or weights whose sums or
        squares leave the range of float64.
    """
    if values is None:
        return None
    w = finite_array(name, values, n=n)
    least, most = float(w.min(initial=0.0)), float(w.max(initial=0.0))
    if least < 0.0:
        refuse_rows(w, w < 0.0, f"{name} must be finite and non-negative")
    if most == 0.0:
        raise CJEError(f"{name} is zero in every row: at least one must be positive")
    if not SMALLEST <= most <= LARGEST:
        raise CJEError(f"{name} is too large or too small to sum in float64", value=most,
                       hint="divide the weights by their mean")  # fmt: skip
    smallest = max(SMALLEST, smallest_share * most)
    if least < smallest:
        refuse_rows(w, (w > 0.0) & (w < smallest),
                    f"{name} is too small beside the largest weight {most:g} to count",
                    "give such rows weight 0 to leave them out")  # fmt: skip
    return w


def bool_array(name: str, values: ArrayLike) -> BoolArray:
    """True and false, or 1 and 0; a NaN or a label is neither.

    Raises
    ------
    CJEError
        Any other value.
    """
    if isinstance(values, np.ndarray) and values.dtype == bool:
        return values
    numbers = float_array(name, values)
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise CJEError(f"{name} must hold true and false", value=type(values).__name__)
    return np.asarray(numbers == 1.0)


def fold_column(name: str, values: ArrayLike, n: int) -> IntArray:
    """The fold of each of `n` rows: one integer per row.

    Raises
    ------
    CJEError
        Another shape or type.
    """
    try:
        folds = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must hold one integer per row", value=values) from error
    if folds.shape != (n,) or folds.dtype.kind not in "iu":
        raise CJEError(f"{name} must hold one integer per row", value=folds.shape)
    return folds


def n_rows(name: str, values: ArrayLike) -> int:
    """Length of the first axis, at least one.

    Raises
    ------
    CJEError
        A scalar, an empty array or lists of different lengths.
    """
    try:
        shape = np.shape(values)
    except ValueError as error:  # lists of different lengths
        raise CJEError(f"{name} must be an array", value=values) from error
    if not shape or shape[0] == 0:
        raise CJEError(f"{name} must be an array that is not empty", value=values)
    return int(shape[0])


def _is_masked(values: Any) -> bool:
    return isinstance(values, np.ma.MaskedArray)


def _first_item(values: Any) -> object:
    """Something short to show of a column that cannot be converted."""
    try:
        return next(iter(values))
    except (TypeError, StopIteration):
        return values
