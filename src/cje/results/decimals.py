"""How many decimals a table or a sentence shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cje.inference import Interval

__all__ = ["decimals_for", "decimals_for_errors", "decimals_for_widths"]


def decimals_for(interval: Interval) -> int:
    """Decimals that show two digits of the interval's width."""
    return _two_digits(interval.width, otherwise=3)


def decimals_for_widths(widths: Sequence[float]) -> int:
    """Decimals of a table of intervals: two digits of the median width."""
    return _two_digits(_median(widths), otherwise=3) if widths else 4


def decimals_for_errors(errors: Sequence[float]) -> int:
    """Decimals of a table of estimates: two digits of the median of the positive errors."""
    return _two_digits(_median([error for error in errors if error > 0.0]), otherwise=4)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else math.nan


def _two_digits(size: float, otherwise: int) -> int:
    if not (math.isfinite(size) and size > 0.0):
        return otherwise
    return min(max(1 - math.floor(math.log10(size)), 0), 9)
