"""Variances of an estimate from its components, and their degrees of freedom.

Everything here needs only a few sums over the clusters, each taken once: with many clusters the
passes over them take the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cje.inference.components import SAMPLE_LABELS, SAMPLING, Component
from cje.inference.folded import FoldedClusters, PowerSums
from cje.inference.moderation import PRIOR_LABELS, moderated_variance, piece_degrees
from cje.kernels.arrays import FloatArray

__all__ = ["ComponentVariance"]


class ComponentVariance:
    r"""Covariance, degrees of freedom and skewness that follow from components.

    .. math:: \widehat{Cov} = \frac{G}{G-1} \sum_g \psi_g \psi_g^\top + \sum_c \Sigma_c

    with :math:`\psi_g` the sum of all influences of cluster g and :math:`\Sigma_c` the covariances
    of components known by theirs alone. Variances of components with a `spread` are moderated.

    Parameters
    ----------
    components : sequence of Component
    k : int
        Number of quantities.
    n_kept : int
        Clusters whose influence is kept; others may be reduced to sums.
    """

    def __init__(self, components: Sequence[Component], k: int, n_kept: int) -> None:
        self.components = tuple(components)
        self.k = k
        self._n_kept = n_kept
        self.n_clusters = n_kept + sum(part.n for part in self._folded)

    @cached_property
    def sampling(self) -> ComponentVariance:
        """The same of the sampling components alone."""
        parts = tuple(c for c in self.components if c.kind in (SAMPLING, SAMPLE_LABELS))
        if len(parts) == len(self.components):
            return self
        return ComponentVariance(parts, self.k, self._n_kept)

    @cached_property
    def influence(self) -> FloatArray:
        """(G, K) sum of all influences of the clusters that are kept."""
        return self._summed([c.influence for c in self.components if c.influence is not None])

    @cached_property
    def apart(self) -> FloatArray | None:
        """(K, K) sum of the covariances of components known by theirs alone."""
        known = [c.covariance for c in self.components if c.covariance is not None]
        return np.asarray(sum(known)) if known else None

    @cached_property
    def covariance(self) -> FloatArray:
        """(K, K) with moderated variances; moderation leaves correlations as they are."""
        factor = self.moderation
        return self.raw if factor is None else self.raw * np.outer(factor, factor)

    @cached_property
    def raw(self) -> FloatArray:
        """(K, K) before moderation."""
        g = self.n_clusters
        products = self.influence.T @ self.influence
        for part in self._folded:
            products = products + part.products
        whole = products * (g / (g - 1.0) if g > 1 else 1.0)
        return whole if self.apart is None else whole + self.apart

    @cached_property
    def moderation(self) -> FloatArray | None:
        """(K,) factors that give every standard error its moderated label part."""
        spread = [c for c in self._stated if c.influence is not None and c.spread is not None]
        if not spread:
            return None
        seen = np.asarray(sum(_squares(c) for c in spread))
        variance = np.asarray(sum(self._moderated(c) for c in spread))
        raw = np.diag(self.raw)
        # Without variance there is nothing to scale; identical labels have a covariance.
        ratio = np.where(raw > 0, (raw - seen + variance) / np.where(raw > 0, raw, 1.0), 1.0)
        # Labels and sampling that offset each other must not be moderated to nothing.
        least = np.minimum(variance / np.where(seen > 0, seen, np.inf), 1.0)
        return np.asarray(np.sqrt(np.maximum(ratio, least)))

    @cached_property
    def degrees_of_freedom(self) -> FloatArray:
        """(K,) Satterthwaite degrees of freedom; see `InfluenceEstimate.degrees_of_freedom`."""
        own = self._counted_degrees
        kinds = {c.kind: self._variance_of_kind(c.kind) for c in self._stated}
        if not any(part.any() for part in kinds.values()):
            return own
        whole = np.diag(self.covariance)
        safe = np.where(whole > 0, whole, np.inf)
        shares = {kind: np.clip(part / safe, 0.0, 1.0) for kind, part in kinds.items()}
        rest = np.maximum(1.0 - np.asarray(sum(shares.values())), 0.0)
        parts = [share**2 / self._degrees_of_kind(kind) for kind, share in shares.items()]
        df = 1.0 / np.maximum(rest**2 / own + np.asarray(sum(parts)), 1e-12)
        if (
            len(kinds) == 1
        ):  # exact where there is nothing else: a saved result is saved again equal
            ((kind, share),) = shares.items()
            df = np.where(share == 1.0, np.minimum(self._degrees_of_kind(kind), 1e12), df)
        lying = [c for c in self._stated if c.influence is not None]
        if not lying:
            return np.asarray(df)
        prior = PRIOR_LABELS if any(c.spread is not None for c in lying) else 0.0
        return np.asarray(np.minimum(df, max(self.n_clusters - 1.0, 1.0) + prior))

    @cached_property
    def skewness(self) -> FloatArray:
        """(K,) skewness of each estimator, zero where its standard error is."""
        size, (_, third, _, _) = self._powers.size, self._powers.sums
        se = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return np.asarray(third * (size / np.where(se > 0, se, np.inf)) ** 3)

    @cached_property
    def known_skewness(self) -> FloatArray:
        r"""(K,) the skewness, shrunk to zero according to its variance.

        With :math:`T = \sum_g \psi_g^3`, whose variance is about :math:`\sum_g \psi_g^6`, the
        factor is :math:`T^2 / (T^2 + \sum_g \psi_g^6)`: the posterior mean under a normal prior
        around zero as wide as the estimate itself.
        """
        _, third, _, noise = self._powers.sums
        shrunk = third**2 / np.where(noise > 0, third**2 + noise, 1.0)
        return np.asarray(self.skewness * shrunk)

    # ---- parts ----------------------------------------------------------------------------------

    @property
    def _stated(self) -> list[Component]:
        """Components whose degrees of freedom are stated, not counted from the clusters."""
        return [c for c in self.components if not c.counted]

    def _variance_of_kind(self, kind: str) -> FloatArray:
        parts = (c for c in self._stated if c.kind == kind)
        return np.asarray(sum(self._moderated(c) for c in parts))

    def _moderated(self, part: Component) -> FloatArray:
        """(K,) variance of one component."""
        if part.covariance is not None:
            return np.diag(part.covariance)
        if part.spread is None:
            return _squares(part)
        return moderated_variance(_squares(part), part.spread, self._known(part.kind))[0]

    def _known(self, kind: str) -> FloatArray:
        """(K,) degrees of freedom of a kind before the prior."""
        found = np.full(self.k, np.inf)
        for part in self._stated:
            if part.kind == kind:
                most = np.full(self.k, float(part.df))
                most = most if part.spread is None else piece_degrees(part.spread, most)
                found = np.minimum(found, most)
        return found

    def _degrees_of_kind(self, kind: str) -> FloatArray:
        moderated = any(
            c.kind == kind and c.influence is not None and c.spread is not None
            for c in self._stated
        )
        return self._known(kind) + (PRIOR_LABELS if moderated else 0.0)

    @cached_property
    def _counted_degrees(self) -> FloatArray:
        """(K,) Satterthwaite degrees of freedom of the plain sampling components."""
        most = max(self.n_clusters - 1.0, 1.0)
        counted = [c.influence for c in self.components if c.counted and c.influence is not None]
        alone = len(counted) == sum(c.influence is not None for c in self.components)
        powers = self._powers if alone else self._with_folded(self._summed(counted))
        total, _, fourth, _ = powers.sums
        safe = np.where(fourth > 0, fourth, 1.0)
        df = np.where(fourth > 0, np.clip(3.0 * total**2 / safe, 1.0, most), most)
        return np.asarray(np.minimum(df, self._labelled_degrees(most)))

    def _labelled_degrees(self, most: float) -> FloatArray:
        r"""(K,) Satterthwaite degrees of freedom over the labelled clusters' expected variances.

        The label part :math:`L = \sum_g v_g` over m labelled clusters has
        :math:`(1 - 1/m) L^2 / \sum_g v_g^2` degrees of freedom (m - 1 for equal ones), the rest of
        the variance has those of all clusters.
        """
        stated = [
            c.label_variance for c in self.components if c.counted and c.influence is not None
        ]
        known = [v for v in stated if v is not None]
        if not known:
            return np.full(self.k, np.inf)
        v = self._summed(known)
        v = v[np.logical_or.reduce([column != 0.0 for column in v.T])]
        total, clusters = v.sum(axis=0), np.count_nonzero(v, axis=0)
        squares = np.einsum("gk,gk->k", v, v)
        has = squares > 0
        labels = (1.0 - 1.0 / np.maximum(clusters, 1)) * total**2 / np.where(has, squares, 1.0)
        raw = np.diag(self.raw)
        share = np.clip(total / np.where(raw > 0, raw, np.inf), 0.0, 1.0)
        parts = share**2 / np.maximum(labels, 1.0) + (1.0 - share) ** 2 / most
        return np.where(has, 1.0 / np.maximum(parts, 1.0 / most), np.inf)

    @cached_property
    def _powers(self) -> PowerSums:
        return self._with_folded(self.influence)

    @property
    def _folded(self) -> list[FoldedClusters]:
        return [part.folded for part in self.components if part.folded is not None]

    def _with_folded(self, influence: FloatArray) -> PowerSums:
        powers = PowerSums.of(influence)
        for part in self._folded:
            powers = powers + part.singles
        return powers

    def _summed(self, parts: Sequence[FloatArray]) -> FloatArray:
        if len(parts) == 1:
            return parts[0]
        return np.asarray(sum(parts)) if parts else np.zeros((self._n_kept, self.k))


def _squares(part: Component) -> FloatArray:
    return np.asarray(np.einsum("gk,gk->k", part.matrix, part.matrix))
