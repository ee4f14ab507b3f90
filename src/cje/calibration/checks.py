"""Numbers in, or a clear error: shared by rewards and weights, which share nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.errors import CJEError

__all__ = ["float_array", "n_rows"]


def float_array(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """`values` as float64, of any shape."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CJEError(f"{name} must hold numbers", value=type(values).__name__) from error


def n_rows(name: str, values: ArrayLike) -> int:
    """Length of the first axis."""
    shape = np.shape(values)
    if not shape:
        raise CJEError(f"{name} must be an array", value=values)
    return int(shape[0])
