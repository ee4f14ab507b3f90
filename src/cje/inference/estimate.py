"""`InfluenceEstimate`: values with their influence matrix; all inference is built on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr

from cje.errors import CJEError
from cje.inference.algebra import all_pairs, combined, contrasted, rescaled, selected
from cje.inference.bootstrap import multiplier_draws
from cje.inference.components import SAMPLING, WHOLE, Component, frozen
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
from cje.inference.multiplicity import leader_critical_value, max_t_critical_value
from cje.inference.proportion import Proportions
from cje.inference.variance import ComponentVariance
from cje.kernels.arrays import FloatArray

__all__ = ["InfluenceEstimate"]


@dataclass(frozen=True, eq=False)
class InfluenceEstimate:
    r"""K estimates and their sources of uncertainty.

    The sum convention: :math:`\hat\theta_k - \theta_k \approx \sum_g \psi_{gk}`, where a cluster g
    (a prompt, with all its draws and policies) is independent of the others. Then
    :math:`\widehat{Cov}(\hat\theta) = \frac{G}{G-1} \sum_g \psi_g \psi_g^\top`, plus the
    covariances of components that do not lie on the clusters. For a plain mean of n rows in
    clusters of their own, :math:`\psi_i = (y_i - \bar y)/n`.

    Parameters
    ----------
    names : sequence of str
        One name per quantity.
    values : array (K,)
        Estimates.
    components : sequence of Component
        Sources of uncertainty, at most one of each kind and form.
    clusters : sequence of str, optional
        Names of the clusters, to align two estimates on shared prompts.
    bounds : (low, high) or array (K, 2), optional
        Logical range of each value; intervals are cut to it.
    trials : array (K,), optional
        Where a value is a proportion (of `bounds`): the number of independent binary labels with
        the same variance (see `proportion`); NaN elsewhere. Intervals of such a value are binomial.
    shrinkage : array (K,), optional
        How far each value was moved from the unbiased estimate that the components describe, as
        towards a prior. Intervals and tests are those of the unbiased estimate (`centre`).

    Raises
    ------
    CJEError
        Where names repeat, shapes disagree or a number is not finite.

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
    components: tuple[Component, ...] = ()
    clusters: Sequence[str] | None = None
    bounds: FloatArray | tuple[float, float] | None = None
    trials: FloatArray | None = None
    shrinkage: FloatArray | None = None

    def __post_init__(self) -> None:
        names, values, parts = tuple(self.names), frozen(self.values), tuple(self.components)
        if len(set(names)) != (k := len(names)):
            raise CJEError("InfluenceEstimate: names must be distinct", value=names)
        if values.shape != (k,):
            raise CJEError("InfluenceEstimate: one value per name", value=values.shape)
        if not np.isfinite(values).all():
            raise CJEError("InfluenceEstimate: a value is not finite", value=values)
        for field, value in (("names", names), ("values", values), ("components", parts)):
            object.__setattr__(self, field, value)
        for part in parts:
            part.check(self._n_kept, k)
        forms = [(part.kind, part.influence is None) for part in parts]
        if len(set(forms)) != len(forms):
            raise CJEError("InfluenceEstimate: two components of one kind", value=forms)
        if self.clusters is not None and len(self.clusters) != self._n_kept:
            raise CJEError("InfluenceEstimate: one cluster name per row", value=len(self.clusters))
        if self.bounds is not None:
            bounds = np.broadcast_to(np.asarray(self.bounds, float), (k, 2))
            object.__setattr__(self, "bounds", frozen(bounds))
        if self.trials is not None:
            self._check_trials(frozen(self.trials))
        if self.shrinkage is not None:
            moved = frozen(self.shrinkage)
            if moved.shape != (k,) or not np.isfinite(moved).all():
                raise CJEError("InfluenceEstimate: one finite shrinkage per value", value=moved)
            object.__setattr__(self, "shrinkage", moved if moved.any() else None)

    def _check_trials(self, trials: FloatArray) -> None:
        """Keep `trials`; none where no value is a proportion."""
        known = np.isfinite(trials)
        if trials.shape != (len(self),) or (known.any() and self.bounds is None):
            raise CJEError("InfluenceEstimate: one number of trials per value, with bounds",
                           value=trials.shape)  # fmt: skip
        if not (trials[known] > 0).all():
            raise CJEError("InfluenceEstimate: trials must be positive", value=trials)
        object.__setattr__(self, "trials", trials if known.any() else None)

    @classmethod
    def from_influence(
        cls,
        names: Sequence[str],
        values: Any,
        influence: Any,
        *,
        clusters: Sequence[str] | None = None,
        bounds: Any = None,
    ) -> InfluenceEstimate:
        """Values whose only uncertainty is sampling, with their influence (G, K) by cluster."""
        return cls(tuple(names), values, (Component(SAMPLING, influence),), clusters, bounds)

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
        moved = (table - means) / len(table)
        return cls.from_influence(names, means, moved, clusters=clusters, bounds=bounds)

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
        whole = Component(WHOLE, covariance=covariance, df=np.inf if df is None else df)
        return cls(tuple(names), values, (whole,), bounds=bounds)

    # ---- names and values ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    @property
    def centre(self) -> FloatArray:
        """The unbiased estimates, which intervals and tests rest on: `values` less `shrinkage`."""
        return self.values if self.shrinkage is None else self.values - self.shrinkage

    @property
    def n_clusters(self) -> int:
        """Number of independent clusters."""
        return self._variance.n_clusters

    @property
    def _n_kept(self) -> int:
        """Clusters whose influence is kept; others may be folded into sums."""
        sizes = (part.n_clusters for part in self.components)
        return next((n for n in sizes if n is not None), 0)

    @property
    def is_folded(self) -> bool:
        """Whether clusters without labels are kept as sums (see `folded`)."""
        return any(part.folded is not None for part in self.components)

    @cached_property
    def influence(self) -> FloatArray:
        """(G, K) influence of each cluster on each value, all components together."""
        return self._variance.influence

    @cached_property
    def _variance(self) -> ComponentVariance:
        return ComponentVariance(self.components, len(self), self._n_kept)

    def _part(self, full: bool) -> ComponentVariance:
        return self._variance if full else self._variance.sampling

    def index(self, name: str) -> int:
        """Position of a quantity, or an error that lists the names."""
        try:
            return self.names.index(name)
        except ValueError:
            raise CJEError(
                "no such quantity", value=name, hint=f"choose from {', '.join(self.names)}"
            ) from None

    def covariance(self, *, full: bool = True) -> FloatArray:
        """Covariance (K, K), clustered; ``full=False`` is that of the sampling components alone."""
        return self._part(full).covariance

    def standard_errors(self, *, full: bool = True) -> FloatArray:
        """Standard error of each value; ``full=False`` is the sampling part alone."""
        return np.sqrt(np.maximum(np.diag(self.covariance(full=full)), 0.0))

    def degrees_of_freedom(self, *, full: bool = True) -> FloatArray:
        r"""Satterthwaite degrees of freedom of each variance.

        Each cluster's sampling influence is a variance component with one degree of freedom under
        normality, so :math:`\nu = (\sum_g \sigma_g^2)^2 / \sum_g \sigma_g^4` with
        :math:`\sigma_g^4` estimated by :math:`\psi_g^4 / 3`; at most G - 1. Fifty labelled rows
        among five hundred cheap ones thus count as about fifty. Every other kind of component
        enters with its own degrees of freedom: `df`, or fewer as its `spread` shows. A variance
        that lies on the clusters has at most G - 1 degrees of freedom and those of the prior of
        `moderation`.

        References
        ----------
        Satterthwaite (1946), Biometrics Bulletin 2, 110-114.
        """
        return self._part(full).degrees_of_freedom

    def skewness(self) -> FloatArray:
        r"""Skewness of each estimator: :math:`\sum_g \psi_g^3 / se^3` (zero where se is).

        Intervals use a shrunk estimate (`known_skewness`): with symmetric heavy tails the noise of
        a plain one would lower coverage and add width.
        """
        return self._variance.skewness

    # ---- inference -----------------------------------------------------------------------------

    def intervals(
        self, level: float = 0.95, method: IntervalMethod = "auto"
    ) -> tuple[Interval, ...]:
        """One interval per quantity with the full uncertainty; see `interval_limits`.

        With ``"auto"`` proportions have binomial limits (`proportion`), other values Hall's.
        """
        low, high = interval_limits(
            self.centre,
            self.standard_errors(),
            df=self.degrees_of_freedom(),
            skewness=self._variance.known_skewness,
            level=level,
            bounds=self._bound_columns(),
            method=method,
        )
        if method != "auto":
            return as_intervals(*self._with_values(low, high), level, method)
        return as_intervals(*self._finished(low, high, 0.5 - level / 2.0), level, "skew")

    def simultaneous_intervals(
        self, level: float = 0.95, *, n_draws: int = 20_000, seed: int = 0
    ) -> tuple[Interval, ...]:
        """Max-t intervals: all K cover at once with probability `level`.

        The critical value is that of the largest studentised deviation under the estimates' own
        correlation; it takes the place of the t quantile in the skewness-corrected limits.
        """
        df = float(self.degrees_of_freedom().min())
        critical = max_t_critical_value(
            self.covariance(), df, level=level, n_draws=n_draws, seed=seed
        )
        low, high = self._skew_limits(critical)
        tail = stdtr(min(df, 1e8), -critical)
        return as_intervals(*self._finished(low, high, float(tail)), level, "max-t")

    def _skew_limits(self, critical: float) -> tuple[FloatArray, FloatArray]:
        """Hall's limits at a given critical value."""
        skewness, bounds = self._variance.known_skewness, self._bound_columns()
        return skew_limits(self.centre, self.standard_errors(), critical, skewness, bounds)

    def _finished(
        self, low: FloatArray, high: FloatArray, tail: float
    ) -> tuple[FloatArray, FloatArray]:
        """The limits with binomial ones where values are proportions."""
        if (rates := self._proportions) is not None:
            low, high = rates.limits(low, high, tail)
        return self._with_values(low, high)

    def _with_values(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Limits that hold the shrunk value even where the level is very low."""
        if self.shrinkage is None:
            return low, high
        return np.minimum(low, self.values), np.maximum(high, self.values)

    @property
    def _proportions(self) -> Proportions | None:
        """The values known as proportions; they have bounds (`_check_trials`)."""
        return Proportions.among(self.values, self.trials, np.asarray(self.bounds))

    def lead_intervals(
        self, leader: str, level: float = 0.95, *, n_draws: int = 20_000, seed: int = 0
    ) -> tuple[Interval, ...]:
        """Joint intervals of `leader` minus every other quantity, for a leader chosen by its value.

        The critical value is `leader_critical_value`: where all quantities are equal, one of these
        intervals excludes zero with probability at most ``1 - level``, whichever leads.
        """
        others = [name for name in self.names if name != leader]
        rows = -np.eye(len(self))[[self.index(name) for name in others]]
        rows[:, self.index(leader)] = 1.0
        gaps = self.contrast(rows, others)
        df = float(gaps.degrees_of_freedom().min())
        critical = leader_critical_value(
            self.covariance(), df, level=level, n_draws=n_draws, seed=seed
        )
        low, high = gaps._skew_limits(critical)
        return as_intervals(*gaps._with_values(low, high), level, "max-t")

    def p_values(
        self,
        null: float = 0.0,
        alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    ) -> FloatArray:
        """Test of each value against `null`, the exact counterpart of `intervals`.

        A two-sided p-value is below 0.05 where the default 95% interval leaves `null` out. With
        zero standard error the p-value is 0 or 1.
        """
        se, gap = self.standard_errors(), self.centre - null
        statistic = hall_transform(gap / np.where(se > 0, se, 1.0), self._variance.known_skewness)
        certain = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
        found = t_p_value(
            np.where(se > 0, statistic, certain), self.degrees_of_freedom(), alternative
        )
        rates = self._proportions
        return found if rates is None else rates.p_values(found, null, alternative)

    def multiplier_bootstrap(self, n_draws: int = 2_000, seed: int = 0) -> FloatArray:
        """(n_draws, K) draws of `centre`: one matrix product with the influence matrix."""
        if self.is_folded:
            raise CJEError(
                "a multiplier bootstrap needs the influence of every cluster, and this estimate "
                "keeps sums of them",
                value=self.n_clusters,
                hint="use intervals(), which need the sums alone",
            )
        centre = self.centre
        draws = centre + multiplier_draws(self.influence, n_draws=n_draws, seed=seed)
        apart, factor = self._variance.apart, self._variance.moderation
        if apart is not None:
            rng = np.random.default_rng([seed, 1])
            draws += rng.multivariate_normal(np.zeros(len(self)), apart, n_draws, method="eigh")
        return draws if factor is None else centre + (draws - centre) * factor

    # ---- algebra -------------------------------------------------------------------------------

    def contrast(self, matrix: Any, names: Sequence[str]) -> InfluenceEstimate:
        """The linear contrasts ``matrix @ values``; stays clustered, bounds follow."""
        return contrasted(self, matrix, names)

    def select(self, names: Sequence[str]) -> InfluenceEstimate:
        """Some of the quantities, in the order given."""
        return selected(self, names)

    def difference(self, a: str, b: str) -> InfluenceEstimate:
        """``a - b``, paired on the clusters both share."""
        return self.select([a, b]).contrast([[1.0, -1.0]], [f"{a} - {b}"])

    def all_pairs(self) -> InfluenceEstimate:
        """Every difference of a later quantity minus an earlier one."""
        return all_pairs(self)

    def renamed(self, names: Sequence[str]) -> InfluenceEstimate:
        """The same estimates under other names."""
        return replace(self, names=tuple(names))

    def rescaled(self, factor: float, offset: float = 0.0) -> InfluenceEstimate:
        """``offset + factor * values``: from [0, 1] to the label's own scale."""
        return rescaled(self, factor, offset)

    @staticmethod
    def join(parts: Iterable[InfluenceEstimate]) -> InfluenceEstimate:
        """Put several estimates side by side, aligned on their cluster names.

        A cluster absent from one of them has influence zero there. Components known by their
        covariance alone are taken to be independent between the estimates.
        """
        return joined(list(parts))

    def __add__(self, other: InfluenceEstimate) -> InfluenceEstimate:
        return combined(self, other, 1.0)

    def __sub__(self, other: InfluenceEstimate) -> InfluenceEstimate:
        return combined(self, other, -1.0)

    def __mul__(self, factor: float) -> InfluenceEstimate:
        return self.rescaled(float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> InfluenceEstimate:
        return self.rescaled(-1.0)

    def _bound_columns(self) -> tuple[FloatArray, FloatArray] | None:
        if self.bounds is None:
            return None
        lower, upper = np.asarray(self.bounds).T
        return lower, upper
