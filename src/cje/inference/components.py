r"""`Component`: one source of uncertainty of an estimate, and the algebra of several.

Components by cluster add up before they are squared, because one prompt may move a value both as a
sample and through its label; covariances of other origin are independent of them and of each other.
A new source of uncertainty is a new `Component` of its own kind, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.inference.folded import FoldedClusters
from cje.kernels.arrays import FloatArray

__all__ = ["LABELS", "SAMPLE_LABELS", "SAMPLING", "WHOLE", "Component", "cancelled"]

_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of one value, relative to its terms
_ROUNDING_OF_SUMS = 1e-12  # of the norm of an influence, whose entries are differences themselves

SAMPLING = "sampling"
"""What the sample's own rows contribute; its degrees of freedom are counted from the clusters."""
SAMPLE_LABELS = "sample labels"
"""Labels that are part of the sample (a rectified estimate); sampling uncertainty as well."""
LABELS = "labels"
"""The labels behind a calibration that the estimate plugs in: oracle uncertainty."""
WHOLE = "whole"
"""The covariance of an estimate known by that alone."""


def cancelled(values: FloatArray, terms: FloatArray) -> FloatArray:
    """Zero where a difference is only the rounding of its terms; `terms` sums their sizes.

    Two equal quantities that were summed in different orders differ in the last bit, and so do
    their influences: without this, a test would divide one rounding error by the other.
    """
    return np.where(np.abs(values) <= _ROUNDING * terms, 0.0, values)


@dataclass(frozen=True, eq=False)
class Component:
    r"""One source of uncertainty of K quantities.

    Parameters
    ----------
    kind : str
        Name of the source. Components of one kind share their degrees of freedom.
        ``"sampling"`` and ``"sample labels"`` make up the sampling standard error; every kind
        enters the full one.
    influence : array (G, K), optional
        Influence by cluster, sum convention.
    covariance : array (K, K), optional
        Where the source is known by its covariance alone, independent of all other components.
    df : float
        At most so many degrees of freedom of the variance. The ``"sampling"`` kind takes those of
        its clusters instead.
    spread : array (G, K), optional
        Standard deviation of each cluster's contribution: the weight of its labels times the
        standard deviation of a label's residual. It fixes, for each contrast, the degrees of
        freedom of the variance, and moderates the variance of `influence` (see `moderation`).
    label_variance : array (G, K), optional
        Expected variance of what each cluster's labels contribute. Fifty labels among five thousand
        rows give the variance 49 degrees of freedom: a cap on those counted from `influence`.
        Labels of different quantities are different labels, so a contrast adds the variances.
    folded : FoldedClusters, optional
        Of sampling alone: further clusters, without labels, of which only sums are kept.

    Examples
    --------
    >>> raters = Component("raters", covariance=[[0.01]], df=2)
    >>> raters.scaled(2.0).covariance.tolist()
    [[0.04]]
    """

    kind: str
    influence: FloatArray | None = None
    covariance: FloatArray | None = None
    df: float = np.inf
    spread: FloatArray | None = None
    label_variance: FloatArray | None = None
    folded: FoldedClusters | None = None

    def __post_init__(self) -> None:
        if (self.influence is None) == (self.covariance is None):
            raise CJEError("a component has either an influence or a covariance", where=self.kind)
        for field in ("influence", "covariance", "spread", "label_variance"):
            value = getattr(self, field)
            if value is None:
                continue
            array = frozen(value)
            if array.ndim != 2 or not np.isfinite(array.sum()):
                raise CJEError(
                    f"{field} must be a finite matrix", where=f"component {self.kind}",
                    value=array.shape,
                )  # fmt: skip
            object.__setattr__(self, field, array)
        if not float(self.df) >= 1.0:
            raise CJEError("degrees of freedom must be at least 1", where=self.kind, value=self.df)

    @property
    def counted(self) -> bool:
        """Whether the degrees of freedom are those of the clusters, not `df`."""
        return self.kind == SAMPLING and self.influence is not None and self.spread is None

    @property
    def matrix(self) -> FloatArray:
        """The influence, or the covariance of a component known by that alone."""
        found = self.covariance if self.influence is None else self.influence
        assert found is not None  # checked by __post_init__
        return found

    @property
    def n_clusters(self) -> int | None:
        """Rows of the matrices by cluster; None of a covariance alone."""
        by_cluster = self.spread if self.influence is None else self.influence
        return None if by_cluster is None else len(by_cluster)

    def check(self, n_clusters: int, k: int) -> None:
        """Raise CJEError unless every matrix fits `n_clusters` clusters and `k` quantities."""
        by_cluster = dict.fromkeys(("influence", "spread", "label_variance"), (n_clusters, k))
        wanted = {**by_cluster, "covariance": (k, k)}
        for field, shape in wanted.items():
            value = getattr(self, field)
            if value is not None and value.shape != shape:
                raise CJEError(
                    f"{field} must have the shape {shape}", where=f"component {self.kind}",
                    value=value.shape,
                )  # fmt: skip

    def mapped(self, matrix: FloatArray) -> Component:
        """The component of the contrasts ``matrix @ values``; what cancels is exactly zero."""
        squared = matrix.T**2

        def by_cluster(by: FloatArray) -> FloatArray:
            found = by @ matrix.T
            terms = np.abs(matrix) @ np.sqrt(np.einsum("gk,gk->k", by, by))
            norms = np.sqrt(np.einsum("gk,gk->k", found, found))
            return np.where(norms <= _ROUNDING_OF_SUMS * terms, 0.0, found)

        return self._each(
            by_cluster,
            lambda both: matrix @ both @ matrix.T,
            lambda by: by @ squared,
            lambda sums: sums.mapped(matrix),
        )

    def selected(self, columns: Sequence[int]) -> Component:
        """The component of some of the quantities, by position."""
        kept = list(columns)

        def pick(by: FloatArray) -> FloatArray:
            return by[:, kept]

        return self._each(
            pick, lambda both: both[np.ix_(kept, kept)], pick, lambda sums: sums.selected(kept)
        )

    def scaled(self, factor: float) -> Component:
        """The component of ``factor * values``."""

        def square(values: FloatArray) -> FloatArray:
            return np.asarray(factor**2 * values)

        return self._each(lambda by: factor * by, square, square, lambda sums: sums.scaled(factor))

    def at_clusters(self, rows: NDArray[np.int64] | None, n_clusters: int) -> Component:
        """The same with its clusters moved to `rows` of `n_clusters`; None leaves them in place."""
        if self.folded is not None:
            raise CJEError(
                "the clusters of this estimate are kept as sums and cannot be aligned with those "
                "of another one",
                where=f"component {self.kind}",
                value=self.folded.n,
                hint="compare policies within one analysis",
            )
        if rows is None:
            return self

        def moved(by: FloatArray) -> FloatArray:
            return _spread_out(by, rows, n_clusters)

        return self._each(moved, lambda both: both, moved, lambda sums: sums)

    def _each(
        self,
        by_cluster: Callable[[FloatArray], FloatArray],
        covariance: Callable[[FloatArray], FloatArray],
        variance: Callable[[FloatArray], FloatArray],
        folded: Callable[[FoldedClusters], FoldedClusters],
    ) -> Component:
        return Component(
            self.kind,
            None if self.influence is None else by_cluster(self.influence),
            None if self.covariance is None else covariance(self.covariance),
            self.df,
            None if self.spread is None else by_cluster(self.spread),
            None if self.label_variance is None else variance(self.label_variance),
            None if self.folded is None else folded(self.folded),
        )


def side_by_side(
    groups: Sequence[Sequence[Component]], sizes: Sequence[int], n_clusters: int
) -> tuple[Component, ...]:
    """The components of several estimates as those of one, kind by kind.

    Matrices by cluster are put next to each other and covariances on the diagonal; an estimate
    without a kind has zeros in it. A kind has the fewest degrees of freedom of any estimate.
    """
    found = []
    for kind, by_cluster in _slots(groups):
        parts = [_pick(group, kind, by_cluster) for group in groups]
        pairs = list(zip(parts, sizes, strict=True))
        spread = None
        if any(part is not None and part.spread is not None for part in parts):
            spread = np.hstack([_own_spread(part, (n_clusters, k)) for part, k in pairs])
        if by_cluster:
            influence = np.hstack([_matrix(part, (n_clusters, k)) for part, k in pairs])
            known = None
            if any(part is not None and part.label_variance is not None for part in parts):
                known = np.hstack([_label_variance(part, (n_clusters, k)) for part, k in pairs])
            found.append(Component(kind, influence, None, _least_df(parts), spread, known))
        else:
            covariance = _block_diagonal([_matrix(part, (k, k)) for part, k in pairs])
            found.append(Component(kind, None, covariance, _least_df(parts), spread))
    return tuple(found)


def weighted_sum(
    groups: Sequence[Sequence[Component]], weights: FloatArray
) -> tuple[Component, ...]:
    """The components of ``sum_c weights[k, c] * values_c[k]``, for weights (K, C).

    Raises
    ------
    CJEError
        For a component known by its covariance alone: that of two estimates with each other is
        not known.
    """
    found = []
    for kind, by_cluster in _slots(groups):
        if not by_cluster:
            raise CJEError("a covariance alone cannot be averaged over estimates", where=kind)
        parts = [_pick(group, kind, True) for group in groups]
        known = [(part, weights[:, c]) for c, part in enumerate(parts) if part is not None]
        influence = np.asarray(sum(part.matrix * w for part, w in known))
        spread = None
        if any(part.spread is not None for part, _ in known):
            spread = np.asarray(sum(_own_spread(part, influence.shape) * w for part, w in known))
        label_variance = None
        if any(part.label_variance is not None for part, _ in known):
            label_variance = np.asarray(
                sum(_label_variance(part, influence.shape) * w**2 for part, w in known)
            )
        found.append(Component(kind, influence, None, _least_df(parts), spread, label_variance))
    return tuple(found)


def unified(groups: Sequence[Sequence[Component]]) -> list[tuple[Component, ...]]:
    """The groups with labels in one role, so that they can be combined.

    Where one estimate's labels are oracle uncertainty, those that are part of another one's sample
    count as its sampling.
    """
    kinds = {part.kind for group in groups for part in group}
    if not {LABELS, SAMPLE_LABELS} <= kinds:
        return [tuple(group) for group in groups]
    return [merged(group) for group in groups]


def merged(group: Sequence[Component]) -> tuple[Component, ...]:
    """The same with the influence of sample labels added to the sampling, without its spread."""
    labels = _pick(group, SAMPLE_LABELS, True)
    if labels is None:
        return tuple(group)
    sampling = _pick(group, SAMPLING, True)
    whole = np.asarray(labels.influence)
    if sampling is not None:
        whole = np.asarray(sampling.influence) + whole
    return (
        Component(SAMPLING, whole),
        *(p for p in group if p is not labels and p is not sampling),
    )


def frozen(value: Any) -> FloatArray:
    """A read-only float64 array over the same memory where the input allows it."""
    array: FloatArray = np.asarray(value, dtype=np.float64).view()
    array.setflags(write=False)
    return array


def _slots(groups: Sequence[Sequence[Component]]) -> list[tuple[str, bool]]:
    """Kinds and forms in order of first appearance."""
    return list(dict.fromkeys((p.kind, p.influence is not None) for group in groups for p in group))


def _pick(group: Sequence[Component], kind: str, by_cluster: bool) -> Component | None:
    for part in group:
        if part.kind == kind and (part.influence is not None) == by_cluster:
            return part
    return None


def _own_spread(part: Component | None, shape: tuple[int, ...]) -> FloatArray:
    """The spread; without one, a part's own influence, which leaves it unmoderated."""
    if part is None or part.spread is None:
        return np.zeros(shape) if part is None or part.influence is None else part.influence
    return part.spread


def _label_variance(part: Component | None, shape: tuple[int, ...]) -> FloatArray:
    """The variances; zeros, which set no cap, where none are stated."""
    if part is None or part.label_variance is None:
        return np.zeros(shape)
    return part.label_variance


def _matrix(part: Component | None, shape: tuple[int, int]) -> FloatArray:
    return np.zeros(shape) if part is None else part.matrix


def _least_df(parts: Sequence[Component | None]) -> float:
    return min(part.df for part in parts if part is not None)


def _block_diagonal(blocks: Sequence[FloatArray]) -> FloatArray:
    ends = np.cumsum([0, *(len(block) for block in blocks)])
    whole = np.zeros((ends[-1], ends[-1]))
    for block, start, stop in zip(blocks, ends[:-1], ends[1:], strict=True):
        whole[start:stop, start:stop] = block
    return whole


def _spread_out(block: FloatArray, rows: NDArray[np.int64], n_clusters: int) -> FloatArray:
    """`block` with its rows moved to `rows` of a taller table of zeros."""
    taller = np.zeros((n_clusters, block.shape[1]))
    np.add.at(taller, rows, block)
    return taller
