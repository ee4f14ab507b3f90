"""Cox regression for a few covariates: Newton's method on sorted cumulative sums, Efron ties.

One sort, then each iteration is a handful of cumulative sums and one small matrix product, so a
fit costs milliseconds at 10^5 rows. The risk sets are prepared once (`risk_sets`) and reused for
every reweighting, which is what makes bootstrap refits cheap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.root import concave_maximum

__all__ = [
    "CoxFit",
    "LateEntry",
    "RiskSets",
    "cox_baseline",
    "cox_fit",
    "cox_hazard_influence",
    "cox_score_residuals",
    "cox_slope",
    "risk_sets",
]


class RiskSets(NamedTuple):
    """Rows sorted by time, and where each death's risk set begins.

    A "death" is an event row; deaths at one time form a tied group.
    """

    order: IntArray  # row of the input at each sorted position
    time: FloatArray  # sorted
    event: BoolArray  # sorted
    deaths: IntArray  # sorted positions of the events
    starts: IntArray  # per death: first sorted position still at risk
    fraction: FloatArray  # per death: Efron's l/d
    group: IntArray  # per death: its tied group
    group_first: IntArray  # per group: index (into deaths) of its first member
    group_time: FloatArray  # per group: its time
    reach: IntArray  # per sorted row: number of deaths at or before its time
    tied: bool
    late: LateEntry | None = None  # None: every row is at risk from the start


class LateEntry(NamedTuple):
    """Where rows that enter late join the risk sets: at risk at u where entry < u <= time."""

    order: IntArray  # sorted positions, by entry
    starts: IntArray  # per death: first position of `order` that has not entered yet
    missed: IntArray  # per sorted row: number of deaths at or before its entry


class CoxFit(NamedTuple):
    """Coefficients, the (penalised) information matrix, log partial likelihood, and convergence."""

    beta: FloatArray
    information: FloatArray
    log_likelihood: float
    converged: bool
    iterations: int


def risk_sets(
    time: FloatArray,
    event: BoolArray,
    entry: FloatArray | None = None,
    strata: IntArray | None = None,
) -> RiskSets:
    """Sort once and describe every risk set.

    Parameters
    ----------
    entry : array (n,), optional
        Time from which each row is under observation.
    strata : array of int (n,), optional
        Only rows of one stratum share risk sets. `group_time` is then not a time.
    """
    if strata is not None:
        time, entry = _one_after_another(time, entry, strata)
    order = np.argsort(time)  # ties are treated alike, so the faster unstable sort will do
    t, e = time[order], event[order]
    deaths = np.flatnonzero(e)
    death_time = t[deaths]
    new = np.concatenate(([True], death_time[1:] != death_time[:-1]))[: len(deaths)]
    group = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    size = np.diff(np.append(first, len(deaths)))
    fraction = (np.arange(len(deaths)) - first[group]) / size[group]
    starts = np.searchsorted(t, death_time, side="left")
    reach = np.searchsorted(death_time, t, side="right")
    tied = bool(len(first) < len(deaths))
    late = None
    if entry is not None:
        begin = entry[order]
        by_entry = np.argsort(begin)
        late = LateEntry(
            by_entry,
            np.searchsorted(begin[by_entry], death_time, side="left"),
            np.searchsorted(death_time, begin, side="right"),
        )
    return RiskSets(
        order, t, e, deaths, starts, fraction, group, first, death_time[first], reach, tied, late
    )


def _one_after_another(
    time: FloatArray, entry: FloatArray | None, strata: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Times and entries by rank, each stratum's after all of the one before it."""
    distinct, rank = np.unique(time, return_inverse=True)
    offset = strata.astype(np.float64) * (len(distinct) + 1)
    begin = np.zeros(len(time)) if entry is None else np.searchsorted(distinct, entry, side="right")
    return offset + rank + 1.0, offset + begin


class _Terms(NamedTuple):
    """Quantities at one value of the linear predictor, all in sorted order."""

    risk: FloatArray  # w * exp(eta - shift), per row
    weight: FloatArray  # mean weight of each death's tied group
    denominator: FloatArray  # Efron's risk-set sum, per death
    shift: float


def _suffix(values: FloatArray) -> FloatArray:
    return np.cumsum(values[::-1], axis=0)[::-1]


def _at_risk(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Sum of `values` over each death's risk set."""
    total = _suffix(values)[sets.starts]
    if sets.late is None:
        return np.asarray(total)
    pad = np.zeros((1, *values.shape[1:]))
    outside = np.concatenate((_suffix(values[sets.late.order]), pad))[sets.late.starts]
    return np.asarray(total - outside)


def _group_sum(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Sum over each tied group, given back per death."""
    return np.add.reduceat(values, sets.group_first, axis=0)[sets.group]


def _group_mean(sets: RiskSets, values: FloatArray) -> FloatArray:
    """Mean over each tied group, given back per death: tied deaths are treated alike."""
    if not sets.tied:
        return values
    size = np.diff(np.append(sets.group_first, len(sets.deaths)))[sets.group]
    return np.asarray(_group_sum(sets, values).T / size).T


def _terms(sets: RiskSets, eta: FloatArray, w: FloatArray | None) -> _Terms:
    shift = float(eta.max())
    # a floor far below any real risk: late risk sets must not underflow to nothing
    risk = np.exp(np.maximum(eta - shift, -300.0))
    if w is not None:
        risk = risk * w
    denominator = _at_risk(sets, risk)
    if sets.late is not None:  # a difference of sums: no smaller than the deaths in it
        denominator = np.maximum(denominator, _group_sum(sets, risk[sets.deaths]))
    weight = np.ones(len(sets.deaths)) if w is None else w[sets.deaths]
    if sets.tied:
        denominator = denominator - sets.fraction * _group_sum(sets, risk[sets.deaths])
        weight = _group_mean(sets, weight)
    # a resampled row may carry weight 0, and so may a whole risk set: it then counts for nothing
    denominator = np.where(weight > 0, denominator, 1.0)
    return _Terms(risk, weight, denominator, shift)


def _means(sets: RiskSets, x: FloatArray, terms: _Terms) -> FloatArray:
    """Weighted covariate mean over each death's (Efron) risk set, (deaths, p)."""
    rx = terms.risk[:, None] * x
    top = _at_risk(sets, rx)
    if sets.tied:
        top = top - sets.fraction[:, None] * _group_sum(sets, rx[sets.deaths])
    return np.asarray(top / terms.denominator[:, None])


def _accumulate(sets: RiskSets, increments: FloatArray) -> FloatArray:
    """Per sorted row: the increments of all deaths while it is at risk, less Efron's share of its own.

    A tied death belongs to the l-th term of its group with factor 1 - l/d only.
    """
    pad = np.zeros((1, *increments.shape[1:]))
    running = np.concatenate((pad, np.cumsum(increments, axis=0)))
    total = running[sets.reach]
    if sets.late is not None:
        total = total - running[sets.late.missed]
    if sets.tied:
        share = sets.fraction.reshape((-1,) + (1,) * (increments.ndim - 1)) * increments
        total[sets.deaths] -= _group_sum(sets, share)
    return np.asarray(total)


def _log_likelihood(sets: RiskSets, eta: FloatArray, w: FloatArray | None, terms: _Terms) -> float:
    death_eta = eta[sets.deaths]
    own = death_eta.sum() if w is None else (w[sets.deaths] * death_eta).sum()
    return float(own - (terms.weight * (np.log(terms.denominator) + terms.shift)).sum())


def cox_fit(
    x: FloatArray,
    sets: RiskSets,
    w: FloatArray | None = None,
    *,
    ridge: float = 0.0,
    start: FloatArray | None = None,
    max_iter: int = 50,
    tol: float = 1e-10,
) -> CoxFit:
    r"""Maximise the (weighted) Efron partial likelihood, less ``ridge/2 * |beta|^2``.

    Parameters
    ----------
    x : array (n, p)
        Covariates in the input's row order; `w` likewise.
    sets : RiskSets
        From `risk_sets(time, event)`.

    Notes
    -----
    Newton's method with step halving. The information needs no matrix-valued cumulative sum:
    :math:`\sum_k S^{(2)}_k/S^{(0)}_k = X'\,\mathrm{diag}(r_j A_j)\,X` with :math:`A_j` the summed
    inverse denominators of the risk sets that hold row j.
    `converged` is False where the likelihood has no maximum (complete separation).
    """
    centre = x.mean(axis=0)
    z = (x - centre)[sets.order]
    weight = None if w is None else w[sets.order]
    p = z.shape[1]
    beta = np.zeros(p) if start is None else start.astype(float)
    penalty = ridge * np.eye(p)
    death_mass = np.ones(len(sets.deaths)) if weight is None else weight[sets.deaths]
    unit = float(death_mass.mean())  # the weights' scale decides nothing
    death_sum = (death_mass[:, None] * z[sets.deaths]).sum(axis=0)

    def objective(candidate: FloatArray) -> tuple[float, _Terms]:
        eta = z @ candidate
        terms = _terms(sets, eta, weight)
        value = _log_likelihood(sets, eta, weight, terms)
        return value - 0.5 * ridge * float(candidate @ candidate), terms

    value, terms = objective(beta)
    converged, iterations = False, 0
    information = penalty
    for _ in range(max_iter):
        iterations += 1
        means = _means(sets, z, terms)
        gradient = death_sum - terms.weight @ means - ridge * beta
        rows = terms.risk * _accumulate(sets, terms.weight / terms.denominator)
        information = (z.T * rows) @ z - (means.T * terms.weight) @ means + penalty
        step = _solve(information, gradient)
        decrement = float(gradient @ step)
        if not np.isfinite(decrement):
            break
        # the step from the last gradient is still taken: quadratic convergence is nearly free
        done = decrement <= tol * max(unit, abs(value))
        scale = 1.0
        proposal, proposed = objective(beta + step)
        while proposal < value - 1e-9 * abs(value) and scale > 1e-6:
            scale /= 2
            proposal, proposed = objective(beta + scale * step)
        beta, value, terms = beta + scale * step, proposal, proposed
        if done:
            converged = True
            break
    return CoxFit(beta, information, value, converged, iterations)


def cox_slope(
    x: FloatArray, sets: RiskSets, w: FloatArray | None = None
) -> tuple[float, float, bool]:
    """The maximum for one covariate, its information, and whether it is finite.

    The score is monotone, so that its root is bracketed: a Newton step never leaves the bracket,
    and a root far out, where the likelihood is nearly flat, is found too.
    """
    z = (x - x.mean())[sets.order]
    weight = None if w is None else w[sets.order]
    mass = np.ones(len(sets.deaths)) if weight is None else weight[sets.deaths]
    total = float(mass @ z[sets.deaths])
    both = np.column_stack((z, z * z))

    def score(beta: float) -> tuple[float, float]:
        terms = _terms(sets, beta * z, weight)
        means = _means(sets, both, terms)
        gradient = total - float(terms.weight @ means[:, 0])
        return gradient, float(terms.weight @ (means[:, 1] - means[:, 0] ** 2))

    return concave_maximum(score, limit=250.0 / (float(np.ptp(z)) or 1.0))


def _solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    if matrix.shape == (1, 1):  # a constant covariate leaves no information and no slope
        return vector / matrix[0, 0] if matrix[0, 0] > 0 else np.full(1, np.nan)
    try:
        return np.asarray(np.linalg.solve(matrix, vector))
    except np.linalg.LinAlgError:
        return np.full(len(vector), np.nan)


def cox_score_residuals(
    x: FloatArray, sets: RiskSets, beta: FloatArray, w: FloatArray | None = None
) -> FloatArray:
    """Each row's (weighted) share of the score, in input order, (n, p); columns sum to the score.

    The sandwich variance is I^-1 (sum_i u_i u_i') I^-1 (Lin & Wei 1989).
    """
    z = (x - x.mean(axis=0))[sets.order]
    weight = None if w is None else w[sets.order]
    terms = _terms(sets, z @ beta, weight)
    means = _means(sets, z, terms)
    increment = terms.weight / terms.denominator
    drift = z * _accumulate(sets, increment)[:, None]
    drift -= _accumulate(sets, increment[:, None] * means)
    residual = -terms.risk[:, None] * drift
    mass = np.ones(len(sets.deaths)) if weight is None else weight[sets.deaths]
    residual[sets.deaths] += mass[:, None] * (z[sets.deaths] - _group_mean(sets, means))
    out: FloatArray = np.empty_like(residual)
    out[sets.order] = residual
    return out


def cox_baseline(
    sets: RiskSets, eta: FloatArray, w: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Baseline cumulative hazard at the distinct event times, given each row's log-hazard `eta`.

    :math:`H_0(t)=\sum_{t_k\le t} 1/\sum_{j\in R_k} e^{\eta_j}` (Breslow; Efron's form at ties).
    """
    weight = None if w is None else w[sets.order]
    terms = _terms(sets, eta[sets.order], weight)
    increment = terms.weight / terms.denominator * np.exp(-terms.shift)
    jumps = np.add.reduceat(increment, sets.group_first)
    return sets.group_time, np.cumsum(jumps)


def cox_hazard_influence(
    x: FloatArray,
    sets: RiskSets,
    fit: CoxFit,
    horizon: float,
    at: FloatArray,
    w: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""log H(t | z) at the rows of `at`, and each subject's influence on it.

    :math:`\log H(t|z)=\log H_0(t)+z'\beta`. Influence of subject i, in the sum convention:
    :math:`(z-\bar e(t))'\,I^{-1}u_i + H_0(t)^{-1}\int_0^t dM_i(u)/S^{(0)}(u)` with
    :math:`\bar e(t)=\int_0^t E\,dH_0/H_0(t)`.

    Returns
    -------
    log_hazard : array (m,)
    influence : array (n, m)
    """
    centre = x.mean(axis=0)
    z = (x - centre)[sets.order]
    weight = None if w is None else w[sets.order]
    terms = _terms(sets, z @ fit.beta, weight)
    means = _means(sets, z, terms)
    inside = sets.time[sets.deaths] <= horizon
    increment = np.where(inside, terms.weight / terms.denominator, 0.0)
    total = float(increment.sum())
    mean_path = increment @ means / total
    own = np.zeros(len(z))
    mass = np.ones(len(sets.deaths)) if weight is None else weight[sets.deaths]
    own[sets.deaths] = np.where(inside, mass * _group_mean(sets, 1.0 / terms.denominator), 0.0)
    squared = np.where(inside, terms.weight / terms.denominator**2, 0.0)
    martingale = own - terms.risk * _accumulate(sets, squared)
    hazard_part = np.empty(len(z))
    hazard_part[sets.order] = martingale / total
    scores = cox_score_residuals(x, sets, fit.beta, w)
    beta_part = scores @ np.linalg.inv(fit.information)
    grid = at - centre
    log_hazard = np.log(total) - terms.shift + grid @ fit.beta
    return log_hazard, beta_part @ (grid - mean_path).T + hazard_part[:, None]
