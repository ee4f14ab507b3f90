"""Net benefit of acting on a predicted risk, and observed risk by tenth of predicted risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_probabilities, finite_array, refuse_rows
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.kernels.incidence import incidence_influence
from cje.survival.ipcw import refuse_entry
from cje.survival.result import logit_interval, normal_interval, spread_of
from cje.survival.sample import SurvivalSample, check_horizon, survival_sample

__all__ = ["NetBenefit", "RiskGroup", "net_benefit", "risk_groups"]


@dataclass(frozen=True)
class NetBenefit:
    """Net benefit at one threshold: of the model (with interval), and of treating everybody."""

    threshold: float
    value: float
    interval: Interval
    treat_all: float


@dataclass(frozen=True)
class RiskGroup:
    """One group of similar predicted risk: mean prediction, observed risk with interval, size."""

    predicted: float
    observed: float
    interval: Interval
    n: int


def net_benefit(
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    thresholds: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    cause: int | None = None,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
) -> tuple[NetBenefit, ...]:
    r"""Net benefit of acting where the predicted risk exceeds a threshold.

    .. math:: NB(p_t) = P(\hat p>p_t)\Big[F(t\mid \hat p>p_t)
        - \big(1-F(t\mid \hat p>p_t)\big)\frac{p_t}{1-p_t}\Big]

    with :math:`F` the Kaplan-Meier risk (Aalen-Johansen incidence) of those above the threshold.
    Acting on nobody has net benefit zero.

    Parameters
    ----------
    thresholds : sequence of float
        Strictly between 0 and 1.

    Raises
    ------
    CJEError
        Invalid input; delayed entry.

    References
    ----------
    Vickers, Cronin, Elkin & Gonen (2008), BMC Med Inform Decis Mak 8, 53.
    """
    sample = survival_sample(
        event_times, event_indicators, sample_weight, cause=cause, entry=entry, groups=groups
    )
    refuse_entry(sample, "net benefit", "judge calibration with integrated_calibration_index")
    risk = 1.0 - check_probabilities("survival_probs_at_t", survival_probs_at_t, n=len(sample))
    horizon = check_horizon(time_horizon, sample)
    cuts = finite_array("thresholds", thresholds)
    refuse_rows(cuts, (cuts <= 0) | (cuts >= 1), "a threshold must lie strictly between 0 and 1")
    everybody, _ = _benefit(np.ones(len(sample), dtype=bool), sample, horizon, cuts)
    out = []
    for k, cut in enumerate(cuts):
        values, influence = _benefit(risk > cut, sample, horizon, cuts[k : k + 1])
        spread = spread_of(influence, sample.cluster)
        value = float(values[0])
        out.append(NetBenefit(float(cut), value, normal_interval(value, spread, level),
                              float(everybody[k])))  # fmt: skip
    return tuple(out)


def _benefit(
    above: Any, sample: SurvivalSample, horizon: float, cuts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Net benefit at each cut, and row influences on the first of them."""
    odds = cuts / (1.0 - cuts)
    mass = sample.mass / sample.mass.sum()
    chosen = mass * above
    share = float(chosen.sum())
    if share <= 0:
        return np.zeros(len(cuts)), np.zeros(len(sample))
    f, derivative = incidence_influence(
        sample.time, sample.any_event, sample.event, np.array([horizon]), chosen
    )
    gain = f[0] * (1.0 + odds) - odds
    moved = share * (1.0 + odds[0]) * chosen * derivative[:, 0]
    return share * gain, (chosen - mass * share) * gain[0] + moved


def risk_groups(
    risk: FloatArray, sample: SurvivalSample, horizon: float, *, n_groups: int = 10,
    level: float = 0.95,
) -> tuple[RiskGroup, ...]:  # fmt: skip
    """Observed risk within groups of equal size by predicted risk; fewer where predictions tie."""
    edges = np.unique(np.quantile(risk, np.linspace(0, 1, n_groups + 1)[1:-1]))
    code = np.searchsorted(edges, risk, side="left")
    out = []
    for k in np.unique(code):
        inside = code == k
        weight = sample.mass * inside
        if weight.sum() <= 0:
            continue
        f, derivative = incidence_influence(
            sample.time, sample.any_event, sample.event, np.array([horizon]), weight, sample.entry
        )
        value = float(np.clip(f[0], 0.0, 1.0))
        spread = spread_of(weight * derivative[:, 0], sample.cluster)
        interval = logit_interval(value, spread, level, max(int(inside.sum()), 1))
        mean = float(weight @ risk / weight.sum())
        out.append(RiskGroup(mean, value, interval, int(inside.sum())))
    return tuple(out)
