"""`Scale`: a bounded range, and the linear map between it and [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, float_array
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["UNIT", "Scale", "infer_scale", "outside_the_bulk"]


@dataclass(frozen=True)
class Scale:
    """The range [low, high] on which scores or labels were given.

    Inside the package everything lives on [0, 1]:  ``u = (x - low) / (high - low)``.
    Results return to the user's own range through `from_unit`; a standard error or a difference
    of two values through `spread_from_unit`, which multiplies by the width only.

    Parameters
    ----------
    low, high : float
        Smallest and largest possible value (not the smallest and largest seen).

    Examples
    --------
    >>> likert = Scale(1, 5)
    >>> float(likert.to_unit(4.0)), float(likert.from_unit(0.75))
    (0.75, 4.0)
    >>> str(Scale(0, 100))
    '0-100'
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        numbers = all(isinstance(e, int | float | np.number) for e in ends)
        # compared, not converted: a whole number may be larger than any float
        if not (numbers and -LARGEST <= self.low < self.high <= LARGEST):
            raise CJEError(
                "a scale needs two finite ends, the low one first",
                value=(self.low, self.high),
                hint="for example Scale(1, 5) for a Likert item",
            )
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def is_unit(self) -> bool:
        return self.low == 0.0 and self.high == 1.0

    def to_unit(self, x: ArrayLike) -> FloatArray:
        """Map values on this scale to [0, 1] (no copy where the scale is [0, 1] already)."""
        x = float_array("values", x)
        return x if self.is_unit else (x - self.low) / self.width

    def from_unit(self, u: ArrayLike) -> FloatArray:
        """Map values on [0, 1] back to this scale."""
        u = float_array("values", u)
        return u if self.is_unit else self.low + u * self.width

    def spread_from_unit(self, u: ArrayLike) -> FloatArray:
        """Map a difference or a standard error back to this scale."""
        return np.asarray(u, dtype=np.float64) * self.width

    def contains(self, x: ArrayLike) -> BoolArray:
        """Which values lie on the scale; NaN does not."""
        x = np.asarray(x)
        return np.asarray((x >= self.low) & (x <= self.high))

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}" if self.low >= 0 else f"[{self.low:g}, {self.high:g}]"

    @classmethod
    def parse(cls, given: Scale | tuple[float, float] | str) -> Scale:
        """A scale from a `Scale`, a pair, or text such as ``"1-5"`` or ``"0,100"``."""
        if isinstance(given, Scale):
            return given
        parts: tuple[object, ...] | list[str]
        if isinstance(given, str):
            text = given.strip().strip("[]()")
            separator = next((s for s in (",", ":", "..", " to ") if s in text), None)
            if separator is None:
                # a dash, but not the sign of the first number
                cut = text.find("-", 1)
                parts = [text[:cut], text[cut + 1 :]] if cut > 0 else [text]
            else:
                parts = text.split(separator)
        else:
            parts = tuple(given) if isinstance(given, tuple | list) else (given,)
        try:
            low, high = (float(part) for part in parts)
        except (TypeError, ValueError, OverflowError) as error:
            raise CJEError(
                "cannot read a scale", value=given, hint="write (low, high) or 'low-high', e.g. 1-5"
            ) from error
        return cls(low, high)


UNIT = Scale(0.0, 1.0)

# Ranges that people use, narrowest first; the flag: whole numbers only.
_USUAL = (
    (Scale(0, 1), False),
    (Scale(-1, 1), False),
    (Scale(1, 5), True),
    (Scale(0, 5), True),
    (Scale(1, 7), True),
    (Scale(1, 10), True),
    (Scale(0, 10), False),
    (Scale(0, 100), False),
)


def infer_scale(values: FloatArray) -> tuple[Scale, str] | None:
    """The usual range that holds all finite `values`, and the reason; None where none fits.

    A wrong guess does not change an estimate: the map is linear and inverted on output. It can
    change the logical bounds of an interval, so the guess is always reported.
    """
    finite = values if np.isfinite(values.sum()) else values[np.isfinite(values)]
    if finite.size == 0:
        return UNIT, "no values; taken as 0-1"
    low, high = float(finite.min()), float(finite.max())
    seen = f"values run from {low:g} to {high:g}"
    whole: bool | None = None
    for scale, only_whole in _USUAL:
        if not (scale.low <= low and high <= scale.high):
            continue
        if only_whole:
            if whole is None:  # computed only where it matters, never for data on 0-1
                whole = bool((finite == np.round(finite)).all())
            if not whole:
                continue
            seen = f"whole numbers from {low:g} to {high:g}"
        return scale, seen
    return None


_LEAST_BULK = 20  # values, before a few others can be called errors
_ERRORS = 0.02  # share of the values that may be errors


def outside_the_bulk(
    values: FloatArray, counts: IntArray | None = None
) -> tuple[Scale, BoolArray] | None:
    """The usual scale of all but a few far values, and which these are; None where there are none.

    One 99 among values of 1-5 is a typing error, and not a scale of 0-100: at most 2% of the
    values (or one), above the scale by more than its width or below it by more than a quarter.
    `counts` says how often each value occurs, once by default.
    """
    size = values.size if counts is None else int(counts.sum())
    allowed = max(1, int(_ERRORS * size))
    if size < _LEAST_BULK + 1:
        return None
    for scale, only_whole in _USUAL:
        outside = ~scale.contains(values)
        count = int(outside.sum() if counts is None else counts[outside].sum())
        if count == 0:
            return None
        if count > allowed:
            continue
        inside, far = values[~outside], values[outside]
        if only_whole and not (inside == np.round(inside)).all():
            continue
        if ((far > scale.high + scale.width) | (far < scale.low - scale.width / 4)).all():
            return scale, outside
    return None
