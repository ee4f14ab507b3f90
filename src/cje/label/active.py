"""The active design: a row is labelled more often where the judge's errors vary more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from cje.checks import float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["ActiveDesign", "Visit"]

_FLOOR = 0.2
_BURN_IN = (20, 0.1)  # labels at random before the first fit: at least, and share of the budget
_PER_BIN = 8  # labels in each bin of the score
_MOST_BINS = 8
_PRIOR_LABELS = 4.0  # of the whole sample's spread, in each bin
_REFIT = 1.1  # growth of the labels between two fits
_EVIDENCE = 0.1  # p-value below which the judge says where its errors are


@dataclass(frozen=True)
class Visit:
    """One visited unit: its probability of a label, fixed before the draw, and the result."""

    unit: int
    propensity: float
    shown: bool


class ActiveDesign:
    r"""Visit units in random order; label each with a probability that earlier labels determine.

    .. math:: \pi_i = \rho_i \left(\tau + (1 - \tau)
              \frac{\hat\sigma(S_i)}{\bar\sigma}\right), \qquad
              \rho_i = \frac{\text{labels left}}{\text{units left}}

    with :math:`\hat\sigma(s)` the standard deviation of the labels near the score s, from earlier
    labels only, :math:`\bar\sigma` its mean over the units not yet visited, and the floor
    :math:`\tau = 0.2`. The first labels (a tenth of the budget, at least 20) are drawn at random.
    Where the labels show no difference in spread along the score (Brown & Forsythe's test,
    p >= 0.1) the design stays random: `informative` says which.

    The order is random, so the visited units are a random sample of all and labelling
    may stop at any time; units that were not visited enter through the calibration only.

    Parameters
    ----------
    scores : array (units,) or (units, rows)
        Judge scores; a unit of several rows (a prompt of a paired design) has the root of the
        summed variances.
    budget : int
        Units to label, on average.
    seed : int

    References
    ----------
    Zrnic & Candes (2024), "Active statistical inference", ICML. Brown & Forsythe (1974), JASA 69,
    364-367.

    Examples
    --------
    >>> design = ActiveDesign(np.linspace(0, 1, 500), budget=100, seed=1)
    >>> visit = design.visit()
    >>> visit.propensity
    0.2
    """

    def __init__(self, scores: FloatArray, budget: int, *, seed: int) -> None:
        table = float_array("scores", scores)
        self._scores = table[:, None] if table.ndim == 1 else table
        n = len(self._scores)
        if isinstance(budget, bool) or not isinstance(budget, int) or not 1 <= budget <= n:
            raise CJEError(f"the budget must be between 1 and the {n:,} units", value=budget)
        if not np.isfinite(self._scores).all():
            raise CJEError(
                "an active design needs a judge score on every row",
                hint="judge the remaining rows, or use the random design",
            )
        self.budget = budget
        rng = np.random.default_rng(seed)
        self.order: IntArray = rng.permutation(n)
        self._coins = rng.random(n)
        self.visited = 0
        self.shown = 0
        self.informative: bool | None = None
        self._labels: list[tuple[float, float]] = []
        self._burn_in = max(_BURN_IN[0], round(_BURN_IN[1] * budget))
        self._fitted_on = 0
        self._relative: FloatArray | None = None
        self._left = 0.0  # sum of `_relative` over the units not visited

    @property
    def finished(self) -> bool:
        """Whether the budget is used up or every unit was visited."""
        return self.shown >= self.budget or self.visited >= len(self.order)

    def resume(self, visited: int, shown: int) -> None:
        """Continue after `visited` visits; pass the labels known by then to `learn`."""
        self.visited, self.shown = visited, shown

    def learn(self, scores: FloatArray, labels: FloatArray) -> None:
        """Record the labels of a unit's rows; they change the probabilities of later units only."""
        pairs = zip(np.atleast_1d(scores), np.atleast_1d(labels), strict=True)
        self._labels += [(float(s), float(y)) for s, y in pairs]

    def visit(self) -> Visit:
        """Visit the next unit.

        Raises
        ------
        CJEError
            The budget is used up, or no unit is left.
        """
        if self.finished:
            raise CJEError("the labelling budget is used up", value=self.shown)
        n = len(self._labels)
        if n >= self._burn_in and n >= _REFIT * self._fitted_on:
            self._fit()
        unit = int(self.order[self.visited])
        rate = (self.budget - self.shown) / (len(self.order) - self.visited)
        factor = 1.0
        if self._relative is not None:
            mean_left = self._left / (len(self.order) - self.visited)
            factor = _FLOOR + (1.0 - _FLOOR) * float(self._relative[unit]) / mean_left
            self._left -= float(self._relative[unit])
        chance = min(rate * factor, 1.0)
        shown = bool(self._coins[self.visited] < chance)
        self.visited += 1
        self.shown += shown
        return Visit(unit, chance, shown)

    def _fit(self) -> None:
        """Relative standard deviation of every unit from the labels so far."""
        s, y = np.array(self._labels).T
        self._fitted_on = len(s)
        # The linear trend in the score is not spread, and the bins are wide: remove it first.
        centred = s - s.mean()
        y = y - centred * float(centred @ y) / max(float(centred @ centred), 1e-12)
        n_bins = min(_MOST_BINS, len(s) // _PER_BIN)
        edges = np.unique(np.quantile(s, np.arange(1, max(n_bins, 1)) / max(n_bins, 1)))
        part = np.searchsorted(edges, s, side="right")
        used, part = np.unique(part, return_inverse=True)
        self.informative = len(used) > 1 and _spreads_differ(y, part) < _EVIDENCE
        if not self.informative:
            self._relative = None
            return
        count = np.bincount(part)
        mean = np.bincount(part, y) / count
        squares = np.bincount(part, (y - mean[part]) ** 2)
        overall = squares.sum() / max(len(y) - len(count), 1)
        variance = (squares + _PRIOR_LABELS * overall) / (np.maximum(count - 1, 0) + _PRIOR_LABELS)
        place = np.searchsorted(used, np.searchsorted(edges, self._scores, side="right"))
        each = variance[np.minimum(place, len(variance) - 1)]
        self._relative = np.sqrt(each.sum(axis=1))
        self._left = float(self._relative[self.order[self.visited :]].sum())


def _spreads_differ(y: FloatArray, part: IntArray) -> float:
    """P-value of equal spreads in all parts: an F test of distances to each part's median."""
    k = int(part.max()) + 1
    medians = np.array([np.median(y[part == j]) for j in range(k)])
    distance = np.abs(y - medians[part])
    count = np.bincount(part)
    mean = np.bincount(part, distance) / count
    between = float(count @ (mean - distance.mean()) ** 2) / (k - 1)
    within = float(((distance - mean[part]) ** 2).sum()) / max(len(y) - k, 1)
    if within <= 0.0:
        return 0.0 if between > 0.0 else 1.0
    return float(fdtrc(k - 1, max(len(y) - k, 1), between / within))
