"""How estimates are put side by side: clusters aligned by name, components kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.inference.components import side_by_side, unified
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
    clusters: Sequence[str] | None = None
    rows: list[NDArray[np.int64] | None] = [None] * len(items)
    if named:
        clusters, rows = _alignment(items)
    g = len(clusters) if clusters is not None else items[0].n_clusters
    aligned = [
        [part.at_clusters(at, g) for part in group]
        for group, at in zip(unified([i.components for i in items]), rows, strict=True)
    ]
    return InfluenceEstimate(
        tuple(name for item in items for name in item.names),
        np.concatenate([item.values for item in items]),
        side_by_side(aligned, [len(item) for item in items], g),
        clusters,
        _bounds(items),
        np.concatenate([np.full(len(i), np.nan) if i.trials is None else i.trials for i in items]),
        np.concatenate([np.zeros(len(i)) if i.shrinkage is None else i.shrinkage for i in items]),
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
