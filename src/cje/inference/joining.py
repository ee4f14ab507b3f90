"""How estimates are put side by side: clusters aligned by name, extra parts block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cje.inference.estimate import InfluenceEstimate

__all__ = ["alignment", "joined_bounds", "joined_extra", "joined_weights", "spread"]

FloatArray = NDArray[np.float64]


def alignment(
    items: list[InfluenceEstimate],
) -> tuple[Sequence[str], list[NDArray[np.int64] | None]]:
    """The union of cluster names in order of first appearance, and each item's rows in it."""
    first = items[0].clusters or ()
    if all(item.clusters is first or item.clusters == first for item in items):
        return first, [None] * len(items)
    position: dict[str, int] = {}
    for item in items:
        for name in item.clusters or ():
            position.setdefault(name, len(position))
    return tuple(position), [
        np.array([position[name] for name in item.clusters or ()], dtype=np.int64) for item in items
    ]


def spread(block: FloatArray, rows: NDArray[np.int64] | None, n_clusters: int) -> FloatArray:
    """`block` with its rows moved to `rows` of a taller table of zeros."""
    if rows is None:
        return block
    taller = np.zeros((n_clusters, block.shape[1]))
    np.add.at(taller, rows, block)
    return taller


def joined_extra(items: list[InfluenceEstimate]) -> tuple[FloatArray | None, float | None]:
    """Block-diagonal extra covariance and its most cautious degrees of freedom."""
    if all(item.extra_covariance is None for item in items):
        return None, None
    sizes = np.cumsum([0, *(len(item) for item in items)])
    extra = np.zeros((sizes[-1], sizes[-1]))
    for item, start, stop in zip(items, sizes[:-1], sizes[1:], strict=True):
        if item.extra_covariance is not None:
            extra[start:stop, start:stop] = item.extra_covariance
    dfs = [item.extra_df for item in items if item.extra_df is not None]
    return extra, min(dfs) if dfs else None


def joined_weights(items: list[InfluenceEstimate]) -> FloatArray | None:
    """Extra weights side by side: the pieces of each estimate are its own."""
    if all(item.extra_weights is None for item in items):
        return None
    from scipy.linalg import block_diag

    return np.asarray(
        block_diag(
            *(
                np.zeros((0, len(item))) if item.extra_weights is None else item.extra_weights
                for item in items
            )
        )
    )


def joined_bounds(items: list[InfluenceEstimate]) -> FloatArray | None:
    """Bounds of each quantity; unbounded where an estimate has none."""
    if all(item.bounds is None for item in items):
        return None
    open_range = (-np.inf, np.inf)
    return np.vstack(
        [
            np.broadcast_to(open_range if item.bounds is None else item.bounds, (len(item), 2))
            for item in items
        ]
    )
