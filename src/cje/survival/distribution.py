"""Calibration of the whole predicted distribution: D-calibration and KM-calibration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from cje.checks import (
    check_choice,
    check_level,
    check_probabilities,
    check_weights,
    check_whole_number,
)
from cje.inference.intervals import Interval
from cje.kernels.arrays import FloatArray
from cje.kernels.kaplan_meier import km_influence
from cje.survival.arguments import SMALLEST_SHARE, check_groups
from cje.survival.bands import gaussian_draws
from cje.survival.censoring import censoring_findings
from cje.survival.ipcw import refuse_entry
from cje.survival.observed import covariance_of
from cje.survival.result import MetricEstimate
from cje.survival.sample import (
    SurvivalSample,
    check_events,
    check_informative,
    check_matrix,
    check_times,
    survival_sample,
)

__all__ = ["d_calibration", "km_calibration"]


def d_calibration(
    survival_probs: ArrayLike,
    event_indicators: ArrayLike,
    *,
    n_bins: int = 10,
    test: Literal["robust", "pearson"] = "robust",
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> MetricEstimate:
    r"""D-calibration: are the predicted survival probabilities at the event times uniform?

    An event counts in the bin that holds :math:`\hat S(T_i|x_i)`. A subject censored at
    :math:`c_i=\hat S(T_i|x_i)` has its one count spread evenly over [0, c_i], where a calibrated
    model places the future event (Haider et al. 2020). For a calibrated model each bin then has
    expectation n / `n_bins`, whatever the censoring.

    Parameters
    ----------
    survival_probs : array (n,)
        :math:`\hat S(T_i|x_i)`: each subject's predicted survival at its own observed time.
    test : {"robust", "pearson"}
        ``"pearson"`` is the original chi-square, exact without censoring only: spread counts
        vary less than whole ones, so under censoring it almost never rejects. ``"robust"`` refers
        the same statistic to a scaled chi-square with the mean and variance that the subjects'
        own rows imply (Rao & Scott 1981), and keeps its size under censoring.
    groups : array of labels (n,), optional
        Cluster of each row; the variance then counts clusters.
    level : float
        Coverage of the interval of the value.

    Returns
    -------
    MetricEstimate
        The value is the mean absolute deviation of the bins' shares from 1 / `n_bins`, with an
        interval by test inversion; ``details`` holds the shares, statistic, df and p-value.
    """
    event = check_events(event_indicators)
    n = len(event)
    check_level(level)
    survival = check_probabilities("survival_probs", survival_probs, n=n)
    weight = check_weights("sample_weight", sample_weight, n, smallest_share=SMALLEST_SHARE)
    check_informative(event, weight)
    check_whole_number("n_bins", n_bins, least=2, most=1000)
    check_choice("test", test, ("robust", "pearson"))
    mass = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    rows = _spread(survival, event, n_bins)
    share = mass @ rows
    gap = share - 1.0 / n_bins
    frame = SurvivalSample(np.zeros(n), event, cluster=check_groups(groups, n))
    inflation = n / max(n - 1, 1) if frame.cluster is None else 1.0
    covariance = covariance_of(mass[:, None] * (rows - share), frame) * inflation
    draws = np.abs(gaussian_draws(covariance, 2000, seed, frame.df)).mean(axis=1)
    statistic = float(gap @ gap) * n_bins / float(mass @ mass)
    df, scale = float(n_bins - 1), 1.0
    if test == "robust":
        null = covariance_of(mass[:, None] * (rows - 1.0 / n_bins), frame)
        df, scale = _rao_scott(null * n_bins / float(mass @ mass))
    radius, value = float(np.quantile(draws, level)), float(np.abs(gap).mean())
    return MetricEstimate(
        "D-calibration",
        value,
        Interval(max(0.0, value - radius), value + radius, level, "test"),
        n,
        None,
        {
            "shares": share.tolist(),
            "statistic": statistic,
            "df": df,
            "p_value": float(chdtrc(df, statistic / scale)),
            "test": test,
            "null_reference": float(draws.mean()),
        },
    )


def _rao_scott(covariance: FloatArray) -> tuple[float, float]:
    """df and scale of the chi-square that has the mean and variance of |Z|^2, Z ~ N(0, cov)."""
    trace, square = float(np.trace(covariance)), float((covariance * covariance).sum())
    return trace**2 / square, square / trace


def _spread(survival: FloatArray, event: NDArray[np.bool_], n_bins: int) -> FloatArray:
    """Each subject's one count over the bins of survival, (n, n_bins)."""
    edges = np.arange(n_bins) / n_bins
    # the part of [0, c] that lies in each bin, as a share of c; a censored 0 is in the first bin
    part = np.clip(survival[:, None] - edges, 0.0, 1.0 / n_bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        censored = part / survival[:, None]
    censored[survival == 0] = np.eye(n_bins)[0]
    own = np.minimum((survival * n_bins).astype(int), n_bins - 1)
    return np.where(event[:, None], np.eye(n_bins)[own], censored)


def km_calibration(
    survival_probs: ArrayLike,
    times: ArrayLike,
    event_times: ArrayLike,
    event_indicators: ArrayLike,
    *,
    entry: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> MetricEstimate:
    r"""KM-calibration: distance between the mean predicted curve and Kaplan-Meier.

    .. math:: \frac{1}{t_m-t_1}\int_{t_1}^{t_m}\big(\bar S(t)-\hat S_{KM}(t)\big)^2\,dt

    by the trapezoidal rule over `times`. The interval inverts the test based on the same norm (see
    `cje.survival.bands`), so that it covers zero for a calibrated model. Kaplan-Meier assumes
    censoring independent of the covariates; where it follows the predicted risk at the last time,
    a finding says so.

    Parameters
    ----------
    survival_probs : array (n, m)
        Predicted survival at each of `times`.
    groups : array of labels (n,), optional
        Cluster of each row.

    Raises
    ------
    CJEError
        Invalid input; delayed entry (`entry`): one Kaplan-Meier curve of all rows is then not the
        mean of the predictions.
    """
    check_level(level)
    sample = survival_sample(
        event_times, event_indicators, sample_weight, entry=entry, groups=groups
    )
    refuse_entry(sample, "KM-calibration", "use observed_expected_at_horizon")
    grid = check_times(times, sample)
    matrix = check_matrix(survival_probs, sample, grid)
    mass = sample.mass / sample.mass.sum()
    curve, derivative = km_influence(sample.time, sample.event, grid, sample.weight)
    mean = mass @ matrix
    influence = mass[:, None] * (matrix - mean) - sample.mass[:, None] * derivative
    step = np.diff(grid)
    node = np.concatenate((step, [0.0])) / 2 + np.concatenate(([0.0], step)) / 2
    node /= node.sum()
    gap = mean - curve
    draws = gaussian_draws(covariance_of(influence, sample), 2000, seed, sample.df)
    norms = np.sqrt((draws * draws) @ node)
    distance = float(np.sqrt((gap * gap) @ node))
    radius = float(np.quantile(norms, level))
    return MetricEstimate(
        "KM-calibration",
        distance**2,
        Interval(max(0.0, distance - radius) ** 2, (distance + radius) ** 2, level, "test"),
        len(sample),
        None,
        {
            "times": grid.tolist(),
            "mean_predicted": mean.tolist(),
            "kaplan_meier": curve.tolist(),
            "max_difference": float(np.abs(gap).max()),
            "p_value": float((1 + (norms >= distance).sum()) / (1 + len(norms))),
        },
        censoring_findings(matrix[:, -1], sample, float(grid[-1]), "KM-calibration"),
    )
