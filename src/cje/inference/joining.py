"""How estimates are put side by side: clusters aligned by name, extra parts block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from cje.inference.estimate import InfluenceEstimate

__all__ = ["joined"]


def joined(items: list[InfluenceEstimate]) -> InfluenceEstimate:
    """See `InfluenceEstimate.join`."""
    from cje.inference.estimate import InfluenceEstimate

    if not items:
        raise CJEError("join needs at least one estimate")
    named = all(item.clusters is not None for item in items)
    if not named and len({item.n_clusters for item in items}) > 1:
        raise CJEError(
            "estimates over different clusters can be joined by cluster name only",
            hint="give clusters= to each InfluenceEstimate",
        )
    if len({item.labels_apart for item in items}) > 1:
        # The labels of a rectified estimate are part of its sample: they stay so.
        items = [item if item.labels_apart else item.merged() for item in items]
    clusters: Sequence[str] | None = None
    rows: list[NDArray[np.int64] | None] = [None] * len(items)
    if named:
        clusters, rows = _alignment(items)
    g = len(clusters) if clusters is not None else items[0].n_clusters

    def together(parts: list[FloatArray | None]) -> FloatArray | None:
        if all(part is None for part in parts):
            return None
        filled = [
            np.zeros_like(item.influence) if part is None else part
            for part, item in zip(parts, items, strict=True)
        ]
        return np.hstack([_spread(part, at, g) for part, at in zip(filled, rows, strict=True)])

    influence = together([item.influence for item in items])
    assert influence is not None
    pieces = None
    if any(item.pieces is not None for item in items):
        # Without pieces of its own a label part stands for itself, and is not moderated.
        own = [item.label_influence if item.pieces is None else item.pieces for item in items]
        pieces = together(own)
    return InfluenceEstimate(
        tuple(name for item in items for name in item.names),
        np.concatenate([item.values for item in items]),
        influence,
        clusters,
        *_extra(items),
        bounds=_bounds(items),
        label_influence=together([item.label_influence for item in items]),
        pieces=pieces,
        labels_apart=items[0].labels_apart,
    )


def _alignment(
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


def _spread(block: FloatArray, rows: NDArray[np.int64] | None, n_clusters: int) -> FloatArray:
    """`block` with its rows moved to `rows` of a taller table of zeros."""
    if rows is None:
        return block
    taller = np.zeros((n_clusters, block.shape[1]))
    np.add.at(taller, rows, block)
    return taller


def _extra(items: list[InfluenceEstimate]) -> tuple[FloatArray | None, float | None]:
    """Block-diagonal extra covariance and its most cautious degrees of freedom."""
    dfs = [item.extra_df for item in items if item.extra_df is not None]
    df = min(dfs) if dfs else None
    if all(item.extra_covariance is None for item in items):
        return None, df
    sizes = np.cumsum([0, *(len(item) for item in items)])
    extra = np.zeros((sizes[-1], sizes[-1]))
    for item, start, stop in zip(items, sizes[:-1], sizes[1:], strict=True):
        if item.extra_covariance is not None:
            extra[start:stop, start:stop] = item.extra_covariance
    return extra, df


def _bounds(items: list[InfluenceEstimate]) -> FloatArray | None:
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
