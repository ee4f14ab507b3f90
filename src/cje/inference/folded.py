r"""Clusters that are too many to keep, reduced to the sums that inference needs.

Standard errors, degrees of freedom and skewness use the influence :math:`\psi_g` of a quantity
through :math:`\sum_g \psi_g^p, p = 2, 3, 4, 6`, and several quantities through their covariance.
These sums are taken for every quantity and every difference of two of them, from the influences
themselves, so that a difference of two policies with almost equal errors loses no digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["POWERS", "FoldedClusters", "PowerSums"]

POWERS = (2, 3, 4, 6)
_ROUNDING_OF_SUMS = 1e-12


@dataclass(frozen=True, eq=False)
class PowerSums:
    """The largest size of each of K columns, and sums of powers of the column over it.

    Attributes
    ----------
    size : array (K,)
    sums : array (4, K)
        Sums of the powers 2, 3, 4 and 6; those of two parts add up once on one size.
    """

    size: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, influence: FloatArray) -> PowerSums:
        """The sums of an influence matrix (G, K)."""
        psi = influence.T.copy()  # one quantity per row: sums run along memory
        size = np.abs(psi).max(axis=1, initial=0.0)
        psi /= np.where(size > 0, size, 1.0)[:, None]
        squares = psi**2
        fourth = np.einsum("kg,kg->k", squares, squares)
        total = squares.sum(axis=1)
        cubes = np.multiply(squares, psi, out=psi)
        sixth = np.einsum("kg,kg->k", cubes, cubes)
        return cls(size, np.stack([total, cubes.sum(axis=1), fourth, sixth]))

    def __add__(self, other: PowerSums) -> PowerSums:
        size = np.maximum(self.size, other.size)
        return PowerSums(size, self._over(size) + other._over(size))

    def _over(self, size: FloatArray) -> FloatArray:
        share = self.size / np.where(size > 0, size, 1.0)
        return np.asarray(self.sums * np.stack([share**p for p in POWERS]))

    def scaled(self, factor: FloatArray) -> PowerSums:
        """The sums of ``factor * column``; they are relative: only odd powers change sign."""
        signs = np.stack([np.where(factor < 0, (-1.0) ** p, 1.0) for p in POWERS])
        return PowerSums(self.size * np.abs(factor), self.sums * signs)

    def take(self, columns: Sequence[int]) -> PowerSums:
        """Some of the columns."""
        return PowerSums(self.size[list(columns)], self.sums[:, list(columns)])

    @property
    def squares(self) -> FloatArray:
        """(K,) sums of squares of the columns themselves."""
        return np.asarray(self.size**2 * self.sums[0])


@dataclass(frozen=True, eq=False)
class FoldedClusters:
    """Sums over clusters of their influence on K quantities.

    Attributes
    ----------
    n : int
        Clusters.
    products : array (K, K)
        Sums of products of their influences.
    rows : array (C, K)
        The combinations of quantities of which `powers` are known.
    powers : PowerSums
        Of C columns.

    Examples
    --------
    >>> psi = np.random.default_rng(0).normal(size=(100, 2))
    >>> parts = FoldedClusters.of(psi[:40]) + FoldedClusters.of(psi[40:])
    >>> gap = parts.mapped(np.array([[1.0, -1.0]]))
    >>> bool(np.isclose(gap.powers.squares[0], ((psi[:, 0] - psi[:, 1]) ** 2).sum()))
    True
    """

    n: int
    products: FloatArray
    rows: FloatArray
    powers: PowerSums

    @classmethod
    def of(cls, influence: FloatArray) -> FoldedClusters:
        """Fold an influence matrix (G, K): its columns and their pairwise differences."""
        g, k = influence.shape
        pairs = list(itertools.combinations(range(k), 2))
        rows = np.zeros((k + len(pairs), k))
        rows[:k] = np.eye(k)
        for at, (i, j) in enumerate(pairs, start=k):
            rows[at, i], rows[at, j] = -1.0, 1.0
        powers = PowerSums.of(np.hstack([influence, *(influence[:, [j]] - influence[:, [i]]
                                                      for i, j in pairs)]))  # fmt: skip
        return cls(g, influence.T @ influence, rows, powers)

    def __add__(self, other: FoldedClusters) -> FoldedClusters:
        return FoldedClusters(
            self.n + other.n, self.products + other.products, self.rows, self.powers + other.powers
        )

    @property
    def singles(self) -> PowerSums:
        """The power sums of the quantities themselves."""
        return self.mapped(np.eye(len(self.products))).powers

    def mapped(self, matrix: FloatArray) -> FoldedClusters:
        """The sums of the contrasts ``matrix @ values``: single quantities, or differences of two.

        Raises
        ------
        CJEError
            For a contrast whose sums were not taken.
        """
        found = [self._find(row) for row in matrix]
        powers = self.powers.take([at for at, _ in found])
        powers = powers.scaled(np.array([factor for _, factor in found]))
        norms = np.sqrt(np.maximum(np.diag(self.products), 0.0))
        gone = np.sqrt(powers.squares) <= _ROUNDING_OF_SUMS * (np.abs(matrix) @ norms)
        powers = powers.scaled(np.where(gone, 0.0, 1.0))
        products = matrix @ self.products @ matrix.T
        products[gone], products[:, gone] = 0.0, 0.0
        # a variance from its own sum: a product of near-equal columns would cancel
        np.fill_diagonal(products, powers.squares)
        return FoldedClusters(self.n, products, np.eye(len(matrix)), powers)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """Place among `rows` of each combination, scaled to begin with one."""
        return {_scaled_to_one(row)[0]: at for at, row in enumerate(self.rows)}

    def _find(self, row: FloatArray) -> tuple[int, float]:
        """The known combination that `row` is a multiple of, and the factor."""
        key, first = _scaled_to_one(row)
        at = self._places.get(key)
        if at is not None:
            return at, first / _scaled_to_one(self.rows[at])[1]
        raise CJEError(
            "the clusters of this estimate are kept as sums: only single values and differences "
            "of two of them are known",
            value=row.tolist(),
            hint="for other contrasts, analyze fewer policies or prompts, in memory",
        )

    def selected(self, columns: Sequence[int]) -> FoldedClusters:
        """The sums of some of the quantities; their differences stay known."""
        kept = list(columns)
        inside = np.flatnonzero(
            np.abs(self.rows).sum(axis=1) == np.abs(self.rows[:, kept]).sum(axis=1)
        ).tolist()
        return FoldedClusters(
            self.n,
            self.products[np.ix_(kept, kept)],
            self.rows[np.ix_(inside, kept)],
            self.powers.take(inside),
        )

    def scaled(self, factor: float) -> FoldedClusters:
        """The sums of ``factor * values``."""
        every = np.full(len(self.rows), factor)
        return FoldedClusters(
            self.n, factor**2 * self.products, self.rows, self.powers.scaled(every)
        )


def _scaled_to_one(row: FloatArray) -> tuple[bytes, float]:
    """A combination over its first entry that is not zero, as a key, and that entry."""
    first = float(row[int(np.argmax(row != 0))])
    return (row / (first or 1.0) + 0.0).tobytes(), first
