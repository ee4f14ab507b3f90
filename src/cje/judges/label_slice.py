"""Draw the rows that get a trusted label at random, each with a known probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import check_seed
from cje.errors import CJEError

__all__ = ["LabelSlice", "draw_label_slice"]


@dataclass(frozen=True)
class LabelSlice:
    """The drawn rows, and each row's probability.

    Estimators divide by `propensity`, which corrects for the design of the draw.
    """

    selected: NDArray[np.bool_]
    propensity: NDArray[np.float64]


def draw_label_slice(
    n: int,
    *,
    fraction: float | None = None,
    count: int | None = None,
    strata: ArrayLike | None = None,
    seed: int,
) -> LabelSlice:
    """Draw rows without replacement.

    Without `strata`, every row has probability m/n. With `strata` (for instance bins of the judge
    score) the m labels are spread evenly over the strata, as far as each has rows, and a row of
    stratum h has probability m_h / n_h: rare scores get as many labels as common ones.

    Parameters
    ----------
    n : int
        Number of rows.
    fraction, count : exactly one of them
        How many rows to label.
    strata : array (n,) of int, optional
    seed : int

    Examples
    --------
    >>> drawn = draw_label_slice(100, fraction=0.2, seed=1)
    >>> int(drawn.selected.sum()), float(drawn.propensity[0])
    (20, 0.2)
    """
    m = _how_many(n, fraction, count)
    names, codes, sizes = _strata(n, strata)
    if m < len(sizes):
        raise CJEError(
            f"{m} labels cannot cover {len(sizes)} strata (one without labels has propensity 0)",
            hint="label more rows, or use fewer strata",
        )
    takes = _spread(m, sizes)
    selected = np.zeros(n, dtype=bool)
    rng = check_seed(seed)
    for stratum in range(len(names)):
        rows = np.flatnonzero(codes == stratum)
        selected[rng.permutation(rows)[: takes[stratum]]] = True
    return LabelSlice(selected, (takes / sizes)[codes])


def _strata(
    n: int, strata: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Names of the strata, the index of each row's stratum, and their sizes."""
    if strata is None:
        given: NDArray[Any] = np.zeros(n, dtype=np.int64)
    else:
        try:
            given = np.asarray(strata)
        except ValueError as error:  # lists of different lengths
            raise CJEError("strata must have one value per row", value=strata) from error
    if given.shape != (n,):
        raise CJEError("strata must have one value per row", value=given.shape)
    try:
        names, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
    except TypeError as error:  # None, or things that have no order
        raise CJEError(
            "strata must be numbers or names, one of them on every row", value=given[0],
            hint="give rows without one a stratum of their own, and convert names with str()",
        ) from error  # fmt: skip
    return names, codes, sizes


def _how_many(n: int, fraction: float | None, count: int | None) -> int:
    if not isinstance(n, int | np.integer) or n < 1:
        raise CJEError("there are no rows to label", value=n)
    if (fraction is None) == (count is None):
        raise CJEError("give either fraction or count", value=(fraction, count))
    if fraction is not None:
        if not (isinstance(fraction, int | float | np.floating) and 0.0 < fraction <= 1.0):
            raise CJEError("fraction must be in (0, 1]", value=fraction)
        return max(1, round(fraction * n))
    if not isinstance(count, int | np.integer) or not 1 <= count <= n:
        raise CJEError(f"count must be between 1 and the {n} rows", value=count)
    return int(count)


def _spread(m: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """m labels over strata: equal shares; the excess of a small stratum goes to the others."""
    takes = np.zeros(len(sizes), dtype=np.int64)
    while (left := m - int(takes.sum())) > 0:
        open_strata = np.flatnonzero(takes < sizes)
        share = max(1, left // len(open_strata))
        for stratum in open_strata[:left]:
            takes[stratum] += min(share, sizes[stratum] - takes[stratum])
    return takes
