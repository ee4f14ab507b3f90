"""The pairs of quantities that a result compares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["MOST_PAIRED", "levels", "paired_positions"]

MOST_PAIRED = 30


def levels(result: EstimationResult, order: Sequence[int]) -> list[list[int]]:
    """Groups of positions that are compared, baseline first: all, or those of each level."""
    if result.cells is None:
        return [list(order)]
    found: dict[str, list[int]] = {}
    for k in order:
        found.setdefault(result.cells[k]["level"], []).append(k)
    return list(found.values())


def paired_positions(result: EstimationResult, order: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of positions, in the order of the table."""
    pairs = [pair for level in levels(result, order) for pair in _pairs_among(result, level)]
    rank = {k: place for place, k in enumerate(order)}
    return sorted(pairs, key=lambda pair: (rank[pair[0]], rank[pair[1]]))


def _pairs_among(result: EstimationResult, order: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of positions: all, or beyond `MOST_PAIRED` those with the first and the best."""
    if len(order) <= MOST_PAIRED:
        return list(itertools.combinations(order, 2))
    refused, baseline = result.refused(), order[0]
    usable = [k for k in order if result.policies[k] not in refused]
    best = max(usable, key=lambda k: float(result.estimates[k]), default=baseline)
    with_best = [(best, k) for k in order if k not in (baseline, best) and best != baseline]
    return [(baseline, k) for k in order if k != baseline] + with_best
