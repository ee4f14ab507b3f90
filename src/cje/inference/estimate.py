"""`InfluenceEstimate`: values with their influence matrix; all inference is built on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cje.errors import CJEError
from cje.inference.bootstrap import multiplier_draws
from cje.inference.intervals import (
    Interval,
    IntervalMethod,
    as_intervals,
    hall_transform,
    interval_limits,
    skew_limits,
    t_p_value,
)
from cje.inference.joining import joined
from cje.inference.moderation import PRIOR_LABELS, moderated_variance, piece_degrees
from cje.inference.multiplicity import max_t_critical_value
from cje.kernels.arrays import FloatArray

__all__ = ["InfluenceEstimate"]


@dataclass(frozen=True, eq=False)
class InfluenceEstimate:
    r"""K estimates and how much each cluster moved each of them.

    The sum convention: :math:`\hat\theta_k - \theta_k \approx \sum_g \psi_{gk}`, where a cluster g
    (a prompt, with all its draws and policies) is independent of the others. Then
    :math:`\widehat{Cov}(\hat\theta) = \frac{G}{G-1} \sum_g \psi_g \psi_g^\top`. For a plain mean of
    n rows in clusters of their own, :math:`\psi_i = (y_i - \bar y)/n`.

    Parameters
    ----------
    names : sequence of str
        One name per quantity.
    values : array (K,)
        Estimates.
    influence : array (G, K)
        One row a cluster. An estimate known only by its covariance has no rows (G = 0).
    clusters : sequence of str, optional
        Names of the clusters, to align two estimates on shared prompts.
    extra_covariance : array (K, K), optional
        Uncertainty the influence lacks, e.g. that of the labels behind a plug-in calibration
        (delete-one-fold jackknife) or of finite Monte Carlo draws.
    extra_df : float, optional
        Degrees of freedom of `extra_covariance` (infinite by default).
    bounds : (low, high) or array (K, 2), optional
        Logical range of each value; intervals are cut to it.
    label_influence : array (G, K), optional
        Oracle uncertainty by cluster: how the labels behind a plug-in value moved it. Part of the
        full uncertainty, not of the sampling one; unlike `extra_covariance` it knows which
        clusters it shares with the other values. Its size is known to `extra_df`.
    pieces : array (G, K), optional
        Size of each cluster's piece of `label_influence`: the weight of its labels times the
        standard deviation of a label's residual. Tells how well the label part's variance is
        known, for each contrast anew, and moderates it (see `moderation`).
    labels_apart : bool
        Whether `label_influence` is oracle uncertainty, apart from the sampling one. False for a
        rectified estimate, whose labels are part of its sample.

    Examples
    --------
    >>> y = np.array([[0.2, 0.4], [0.6, 0.9], [0.5, 0.5], [0.9, 1.0]])
    >>> both = InfluenceEstimate.from_rows(("a", "b"), y)
    >>> both.difference("b", "a").names
    ('b - a',)
    >>> round(float(both.difference("b", "a").values[0]), 3)
    0.15
    """

    names: tuple[str, ...]
    values: FloatArray
    influence: FloatArray
    clusters: Sequence[str] | None = None
    extra_covariance: FloatArray | None = None
    extra_df: float | None = None
    bounds: FloatArray | tuple[float, float] | None = None
    label_influence: FloatArray | None = None
    pieces: FloatArray | None = None
    labels_apart: bool = True

    def __post_init__(self) -> None:
        names = tuple(self.names)
        k = len(names)
        values = _frozen(self.values)
        influence = _frozen(self.influence)
        if len(set(names)) != k:
            raise CJEError("InfluenceEstimate: names must be distinct", value=names)
        if values.shape != (k,):
            raise CJEError("InfluenceEstimate: one value per name", value=values.shape)
        if influence.ndim != 2 or influence.shape[1] != k:
            raise CJEError(
                "InfluenceEstimate: influence must be (clusters, names)", value=influence.shape
            )
        if not np.isfinite(values).all():
            raise CJEError("InfluenceEstimate: a value is not finite", value=values)
        if not np.isfinite(influence.sum()):
            raise CJEError("InfluenceEstimate: the influence matrix holds NaN or infinity")
        if self.clusters is not None and len(self.clusters) != len(influence):
            raise CJEError("InfluenceEstimate: one cluster name per row", value=len(self.clusters))
        for field, value in (("names", names), ("values", values), ("influence", influence)):
            object.__setattr__(self, field, value)
        if self.label_influence is not None:
            by_label = _frozen(self.label_influence)
            if by_label.shape != influence.shape or not np.isfinite(by_label.sum()):
                raise CJEError("InfluenceEstimate: label_influence must be finite, as influence")
            object.__setattr__(self, "label_influence", by_label)
        if self.extra_covariance is not None:
            extra = _frozen(self.extra_covariance)
            if extra.shape != (k, k) or not np.isfinite(extra).all():
                raise CJEError("InfluenceEstimate: extra_covariance must be finite, (K, K)")
            object.__setattr__(self, "extra_covariance", extra)
        if self.pieces is not None:
            pieces = _frozen(self.pieces)
            if pieces.shape != influence.shape or not np.isfinite(pieces.sum()):
                raise CJEError("InfluenceEstimate: pieces must be finite, as influence")
            object.__setattr__(self, "pieces", pieces)
        if self.bounds is not None:
            bounds = np.broadcast_to(np.asarray(self.bounds, float), (k, 2))
            object.__setattr__(self, "bounds", _frozen(bounds))

    @classmethod
    def from_rows(
        cls,
        names: Sequence[str],
        rows: Any,
        *,
        clusters: Sequence[str] | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> InfluenceEstimate:
        """Column means of a complete (clusters x quantities) table, each row one cluster."""
        table = np.asarray(rows, float)
        table = table[:, None] if table.ndim == 1 else table
        means = table.mean(axis=0)
        influence = (table - means) / len(table)
        return cls(tuple(names), means, influence, clusters, bounds=bounds)

    @classmethod
    def from_covariance(
        cls,
        names: Sequence[str],
        values: Any,
        covariance: Any,
        *,
        df: float | None = None,
        bounds: Any = None,
    ) -> InfluenceEstimate:
        """An estimate known by its covariance alone (a bootstrap, a saved result)."""
        empty = np.zeros((0, len(names)))
        return cls(
            tuple(names), values, empty, extra_covariance=covariance, extra_df=df, bounds=bounds
        )

    # ---- what it knows -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_clusters(self) -> int:
        """Number of independent clusters."""
        return len(self.influence)

    def index(self, name: str) -> int:
        """Position of a quantity, or an error that lists what there is."""
        try:
            return self.names.index(name)
        except ValueError:
            raise CJEError(
                "no such quantity", value=name, hint=f"choose from {', '.join(self.names)}"
            ) from None

    def covariance(self, *, full: bool = True) -> FloatArray:
        """Covariance (K, K), clustered; `full` adds label influence and `extra_covariance`."""
        if not full and self.labels_apart:
            return self._clustered(self._sampling_cross)
        factor = self._moderation
        return self._raw_covariance if factor is None else self._raw_covariance * factor

    def _clustered(self, cross: FloatArray) -> FloatArray:
        g = self.n_clusters
        return cross * (g / (g - 1.0) if g > 1 else 1.0)

    @cached_property
    def _raw_covariance(self) -> FloatArray:
        """The full covariance before the label part is moderated."""
        whole = self._clustered(self._cross)
        return whole if self.extra_covariance is None else whole + self.extra_covariance

    @cached_property
    def _moderation(self) -> FloatArray | None:
        """(K, K) factors that give every variance its moderated label part; correlations stay."""
        if self.pieces is None or self.label_influence is None:
            return None
        seen = self._label_squares
        variance, _ = moderated_variance(seen, self.pieces, self._label_degrees)
        raw = np.diag(self._raw_covariance)
        # Where nothing varied there is nothing to scale; identical labels are `extra_covariance`'s.
        ratio = np.where(raw > 0, (raw - seen + variance) / np.where(raw > 0, raw, 1.0), 1.0)
        # Labels and sampling that offset each other must not be moderated to nothing.
        least = np.minimum(variance / np.where(seen > 0, seen, np.inf), 1.0)
        root = np.sqrt(np.maximum(ratio, least))
        return np.outer(root, root)

    def standard_errors(self, *, full: bool = True) -> FloatArray:
        """Standard error of each value; ``full=False`` is the sampling part alone."""
        return np.sqrt(np.maximum(np.diag(self.covariance(full=full)), 0.0))

    def degrees_of_freedom(self, *, full: bool = True) -> FloatArray:
        r"""Satterthwaite degrees of freedom of each variance.

        Each cluster is a component with its own variance. Under normality the component
        :math:`\psi_g^2` has one degree of freedom, and
        :math:`\nu = (\sum_g \sigma_g^2)^2 / \sum_g \sigma_g^4` with :math:`\sigma_g^4` estimated by
        :math:`\psi_g^4 / 3`; at most G - 1. Fifty labelled rows among five hundred cheap ones thus
        count as about fifty. Label influence and `extra_covariance` enter as one more component
        with `extra_df`, or as many degrees of freedom as `pieces` tell; what lies on the clusters
        is never known to more than G - 1, and the prior of `moderation`.

        References
        ----------
        Satterthwaite (1946), Biometrics Bulletin 2, 110-114.
        """
        own, (extra, known) = self._sampling_degrees, self._label_part
        if (not full and self.labels_apart) or not extra.any():
            return own
        whole = np.diag(self.covariance())
        share = np.clip(extra / np.where(whole > 0, whole, np.inf), 0.0, 1.0)
        df = 1.0 / np.maximum((1.0 - share) ** 2 / own + share**2 / known, 1e-12)
        if self.label_influence is None:
            return np.asarray(df)
        prior = 0.0 if self.pieces is None else PRIOR_LABELS
        return np.minimum(df, max(self.n_clusters - 1.0, 1.0) + prior)

    @cached_property
    def _sampling_degrees(self) -> FloatArray:
        """Satterthwaite degrees of freedom of the influence without its label part."""
        part = self if self.label_influence is None else replace(self, label_influence=None)
        _, total, _, fourth = part._powers
        most = max(self.n_clusters - 1.0, 1.0)
        safe = np.where(fourth > 0, fourth, 1.0)
        return np.where(fourth > 0, np.clip(3.0 * total**2 / safe, 1.0, most), most)

    @cached_property
    def _label_part(self) -> tuple[FloatArray, FloatArray]:
        """Variance of each quantity's label part, and the degrees of freedom it is known to."""
        extra, known = np.zeros(len(self)), self._label_degrees
        if self.extra_covariance is not None:
            extra = extra + np.diag(self.extra_covariance)
        if self.label_influence is None:
            return extra, known
        seen = self._label_squares
        if self.pieces is not None:
            seen, known = moderated_variance(seen, self.pieces, known)
        return extra + seen, known

    @cached_property
    def _label_squares(self) -> FloatArray:
        assert self.label_influence is not None
        return np.asarray(np.einsum("gk,gk->k", self.label_influence, self.label_influence))

    @cached_property
    def _label_degrees(self) -> FloatArray:
        """Degrees of freedom of the label part of each quantity."""
        most = np.full(len(self), np.inf if self.extra_df is None else self.extra_df)
        return most if self.pieces is None else piece_degrees(self.pieces, most)

    def skewness(self) -> FloatArray:
        r"""Skewness of each estimator: :math:`\sum_g \psi_g^3 / se^3` (zero where se is)."""
        size, _, third, _ = self._powers
        se = self.standard_errors()
        return np.asarray(third * (size / np.where(se > 0, se, np.inf)) ** 3)

    # Everything below needs the clusters through these sums alone, taken once: with many clusters a
    # pass over them is what costs.

    @cached_property
    def _full(self) -> FloatArray:
        """Sampling and label influence together."""
        if self.label_influence is None:
            return self.influence
        return self.influence + self.label_influence

    @cached_property
    def _cross(self) -> FloatArray:
        """Sum over clusters of psi psi', the label influence included."""
        return self._full.T @ self._full

    @cached_property
    def _sampling_cross(self) -> FloatArray:
        """Sum over clusters of psi psi', the label influence left out."""
        if self.label_influence is None:
            return self._cross
        return self.influence.T @ self.influence

    @cached_property
    def _powers(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The largest entry of each column, and sums of powers 2, 3, 4 of the column over it."""
        psi = self._full.T.copy()  # a quantity a row: sums run along memory
        size = np.abs(psi).max(axis=1, initial=0.0)
        psi /= np.where(size > 0, size, 1.0)[:, None]
        squares = psi**2
        third = np.einsum("kg,kg->k", squares, psi)
        return size, squares.sum(axis=1), third, np.einsum("kg,kg->k", squares, squares)

    # ---- inference -----------------------------------------------------------------------------

    def intervals(
        self, level: float = 0.95, method: IntervalMethod = "auto"
    ) -> tuple[Interval, ...]:
        """One interval per quantity with the full uncertainty; see `interval_limits`."""
        low, high = interval_limits(
            self.values,
            self.standard_errors(),
            df=self.degrees_of_freedom(),
            skewness=self.skewness(),
            level=level,
            bounds=self._bound_columns(),
            method=method,
        )
        return as_intervals(low, high, level, "skew" if method == "auto" else method)

    def simultaneous_intervals(
        self, level: float = 0.95, *, n_draws: int = 20_000, seed: int = 0
    ) -> tuple[Interval, ...]:
        """Max-t intervals: all K cover at once with probability `level`.

        The critical value is that of the largest studentised deviation under the estimates' own
        correlation; it takes the place of the t quantile in the skewness-corrected limits.
        """
        critical = max_t_critical_value(
            self.covariance(),
            float(self.degrees_of_freedom().min()),
            level=level,
            n_draws=n_draws,
            seed=seed,
        )
        low, high = skew_limits(
            self.values, self.standard_errors(), critical, self.skewness(), self._bound_columns()
        )
        return as_intervals(low, high, level, "max-t")

    def p_values(
        self,
        null: float = 0.0,
        alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    ) -> FloatArray:
        """Test of each value against `null`, the exact counterpart of `intervals`.

        A two-sided p-value is below 0.05 where the default 95% interval leaves `null` out. An
        estimate without spread decides by itself.
        """
        se, gap = self.standard_errors(), self.values - null
        safe = np.where(se > 0, se, 1.0)
        statistic = hall_transform(gap / safe, self.skewness())
        certain = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
        return t_p_value(
            np.where(se > 0, statistic, certain), self.degrees_of_freedom(), alternative
        )

    def multiplier_bootstrap(self, n_draws: int = 2_000, seed: int = 0) -> FloatArray:
        """(n_draws, K) draws of the estimates: one matrix product with the influence matrix."""
        draws = self.values + multiplier_draws(self._full, n_draws=n_draws, seed=seed)
        if self.extra_covariance is not None:
            rng = np.random.default_rng([seed, 1])
            draws += rng.multivariate_normal(
                np.zeros(len(self)), self.extra_covariance, n_draws, method="eigh"
            )
        if self._moderation is None:
            return draws
        return self.values + (draws - self.values) * np.sqrt(np.diag(self._moderation))

    # ---- algebra -------------------------------------------------------------------------------

    def contrast(self, matrix: Any, names: Sequence[str]) -> InfluenceEstimate:
        """The linear contrasts ``matrix @ values``; stays clustered, bounds follow."""
        c = np.atleast_2d(np.asarray(matrix, float))
        if c.shape != (len(names), len(self)):
            raise CJEError(
                "a contrast needs one row per new name and one column per quantity", value=c.shape
            )
        extra, by_label = self.extra_covariance, self.label_influence
        bounds = None
        if self.bounds is not None:
            lower, upper = np.asarray(self.bounds).T
            up, down = np.maximum(c, 0.0), np.minimum(c, 0.0)
            bounds = np.column_stack([up @ lower + down @ upper, up @ upper + down @ lower])
        return replace(
            self,
            names=tuple(names),
            values=c @ self.values,
            influence=self.influence @ c.T,
            extra_covariance=None if extra is None else c @ extra @ c.T,
            bounds=bounds,
            label_influence=None if by_label is None else by_label @ c.T,
            pieces=None if self.pieces is None else self.pieces @ c.T,
        )

    def select(self, names: Sequence[str]) -> InfluenceEstimate:
        """Some of the quantities, in the order given."""
        rows = np.eye(len(self))[[self.index(name) for name in names]]
        return self.contrast(rows, names)

    def difference(self, a: str, b: str) -> InfluenceEstimate:
        """``a - b``, paired on the clusters both share."""
        row = np.zeros(len(self))
        row[self.index(a)] += 1.0
        row[self.index(b)] -= 1.0
        return self.contrast(row, [f"{a} - {b}"])

    def all_pairs(self) -> InfluenceEstimate:
        """Every difference of a later quantity minus an earlier one."""
        if len(self) < 2:
            raise CJEError("differences need at least two quantities", value=self.names)
        pairs = list(itertools.combinations(range(len(self)), 2))
        matrix = np.zeros((len(pairs), len(self)))
        for row, (i, j) in enumerate(pairs):
            matrix[row, i], matrix[row, j] = -1.0, 1.0
        return self.contrast(matrix, [f"{self.names[j]} - {self.names[i]}" for i, j in pairs])

    def renamed(self, names: Sequence[str]) -> InfluenceEstimate:
        """The same estimates under other names."""
        return replace(self, names=tuple(names))

    def merged(self) -> InfluenceEstimate:
        """The same with the label influence counted as sampling, its pieces forgotten."""
        return replace(self, influence=self._full, label_influence=None, pieces=None)

    def rescaled(self, factor: float, offset: float = 0.0) -> InfluenceEstimate:
        """``offset + factor * values``: from [0, 1] to the label's own scale."""
        if factor == 1.0 and offset == 0.0:
            return self
        extra, bounds, by_label = self.extra_covariance, self.bounds, self.label_influence
        return replace(
            self,
            values=offset + factor * self.values,
            influence=factor * self.influence,
            extra_covariance=None if extra is None else factor**2 * extra,
            bounds=None if bounds is None else np.sort(offset + factor * np.asarray(bounds)),
            label_influence=None if by_label is None else factor * by_label,
            pieces=None if self.pieces is None else factor * self.pieces,
        )

    @staticmethod
    def join(parts: Iterable[InfluenceEstimate]) -> InfluenceEstimate:
        """Put several estimates side by side, aligned on their cluster names.

        A cluster absent from one of them has influence zero there. Estimates that carry extra
        covariance are taken to be independent of each other in that part.
        """
        return joined(list(parts))

    def __add__(self, other: InfluenceEstimate) -> InfluenceEstimate:
        return self._combine(other, 1.0)

    def __sub__(self, other: InfluenceEstimate) -> InfluenceEstimate:
        return self._combine(other, -1.0)

    def __mul__(self, factor: float) -> InfluenceEstimate:
        return self.rescaled(float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> InfluenceEstimate:
        return self.rescaled(-1.0)

    def _combine(self, other: InfluenceEstimate, sign: float) -> InfluenceEstimate:
        if len(other) != len(self):
            raise CJEError("arithmetic needs as many quantities on both sides", value=len(other))
        k = len(self)
        left = self.renamed([f"left {i}" for i in range(k)])
        right = other.renamed([f"right {i}" for i in range(k)])
        both = InfluenceEstimate.join([left, right])
        word = "+" if sign > 0 else "-"
        names = [f"{a} {word} {b}" for a, b in zip(self.names, other.names, strict=True)]
        return both.contrast(np.hstack([np.eye(k), sign * np.eye(k)]), names)

    def _bound_columns(self) -> tuple[FloatArray, FloatArray] | None:
        if self.bounds is None:
            return None
        lower, upper = np.asarray(self.bounds).T
        return lower, upper


def _frozen(value: Any) -> FloatArray:
    """A read-only float64 array over the same memory where the input allows it."""
    array: FloatArray = np.asarray(value, dtype=np.float64).view()
    array.setflags(write=False)
    return array
