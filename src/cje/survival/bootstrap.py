"""Bootstrap draws of O/E, slope and ICI, fast enough for routine use.

The sorts, risk sets and smoothing windows are prepared once; a draw is then a reweighting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import (
    check_choice,
    check_level,
    check_probabilities,
    check_seed,
    check_whole_number,
)
from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.kernels.cox import cox_fit, risk_sets
from cje.kernels.kaplan_meier import pseudo_observations
from cje.kernels.local_linear import LocalLinear, cell_means, local_linear, smoother_matrix
from cje.survival.arguments import check_frac
from cje.survival.sample import (
    SurvivalSample,
    check_horizon,
    check_scores,
    cluster_codes,
    open_unit,
    survival_sample,
)

__all__ = ["CalibrationDraws", "bootstrap_calibration"]


@dataclass(frozen=True)
class CalibrationDraws:
    """Bootstrap draws; rows of the three arrays belong to the same resample."""

    in_the_large: FloatArray
    slope: FloatArray
    ici: FloatArray

    def interval(self, metric: str, level: float = 0.95) -> Interval:
        """Percentile interval of ``"in_the_large"`` or ``"slope"``.

        Refused for ``"ici"``: noise keeps an average of absolute values above zero, so the
        percentile interval of a perfect model lies wholly above its true value, zero. Use the
        interval of `integrated_calibration_index`.
        """
        check_level(level)
        check_choice("metric of a percentile interval", metric, ("in_the_large", "slope"))
        low, high = np.quantile(getattr(self, metric), [(1 - level) / 2, (1 + level) / 2])
        return Interval(float(low), float(high), level, "percentile bootstrap")


def bootstrap_calibration(
    survival_probs: ArrayLike,
    risk_scores: ArrayLike,
    survival_probs_at_t: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    time_horizon: float | None = None,
    *,
    n_draws: int = 500,
    frac: float = 0.3,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    seed: int = 0,
) -> CalibrationDraws:
    """Resample subjects, with their weights, and recompute O/E, slope and pseudo-observation ICI.

    Parameters
    ----------
    survival_probs : array (n,)
        Predicted survival at each subject's own time, for O/E.
    risk_scores : array (n,)
        Log-hazard scale, for the slope.
    survival_probs_at_t : array (n,)
        Predicted survival at the horizon, for ICI.
    groups : array of labels (n,), optional
        Cluster of each row: whole clusters are resampled.

    Raises
    ------
    CJEError
        Invalid input; a resample without events, or in which the slope is undefined.
    """
    check_whole_number("n_draws", n_draws, least=2, most=1_000_000)
    unsorted = survival_sample(event_times, event_indicators, sample_weight, groups=groups)
    n = len(unsorted)
    horizon = check_horizon(time_horizon, unsorted)
    rng = check_seed(seed)
    own = check_probabilities("survival_probs", survival_probs, n=n)
    score, spread = check_scores(risk_scores, n)
    at_t = check_probabilities("survival_probs_at_t", survival_probs_at_t, n=n)
    # Sorted input makes every later sort cheap; rows that tie in every column are interchangeable,
    # so the order of the rows changes no draw.
    order = np.lexsort((at_t, score, own, unsorted.mass, unsorted.event, unsorted.time))
    sample = SurvivalSample(unsorted.time[order], unsorted.event[order], unsorted.mass[order])
    own, score, at_t = own[order], score[order], at_t[order]
    code = cluster_codes(unsorted, order)
    units = int(code.max()) + 1
    hazard = -np.log(np.where(own == 0, open_unit(own), own))
    x = (score / spread)[:, None]
    sets = risk_sets(sample.time, sample.event)
    start = cox_fit(x, sets, sample.weight).beta
    prepared = local_linear(1.0 - at_t, sample.mass, frac=check_frac(frac))
    draws = np.empty((n_draws, 3))
    for b in range(n_draws):
        drawn = np.bincount(rng.integers(0, units, units), minlength=units)
        weight = sample.mass * drawn[code]
        observed, expected = float(weight @ sample.event), float(weight @ hazard)
        fit = cox_fit(x, sets, weight, start=start, tol=1e-7)
        if not observed or not expected or fit.information[0, 0] <= 1e-12 * weight.sum():
            _refuse_resample(b, observed, expected)
        draws[b, 0], draws[b, 1] = observed / expected, fit.beta[0] / spread
        draws[b, 2] = _ici(prepared, sample, horizon, weight)
    return CalibrationDraws(draws[:, 0], draws[:, 1], draws[:, 2])


def _refuse_resample(draw: int, observed: float, expected: float) -> NoReturn:
    why = "its risk scores are the same wherever it has an event"
    if not expected:
        why = "the model expects no event in it"
    if not observed:
        why = "it has no event"
    raise CJEError(
        f"a metric is not defined on a bootstrap sample: {why}",
        where=f"sample {draw + 1}",
        hint="the data are too few to resample: use the intervals of the metrics themselves",
    )


def _ici(
    prepared: LocalLinear, sample: SurvivalSample, horizon: float, weight: FloatArray
) -> float:
    """ICI of a reweighted sample, with the windows of the original one."""
    pseudo = pseudo_observations(sample.time, sample.event, horizon, weight)
    cells = prepared.cells
    mass, mean = cell_means(cells, pseudo, weight)
    observed = np.clip(smoother_matrix(prepared, mass) @ mean, 0.0, 1.0)
    error = np.abs(prepared.interpolate @ observed - cells.x)
    return float(mass @ error / mass.sum())
