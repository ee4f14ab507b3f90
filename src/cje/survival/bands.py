"""Intervals for folded quantities (mean or maximum of an absolute error) by inverting a test.

Let d = observed - predicted as a function of the predicted risk, and d^ its estimate with Gaussian
error of covariance V. For each candidate d0 the test "||d^ - d0|| is no larger than its 95%
quantile q" is exact, so the set of candidates it keeps is a ball around d^, and by the triangle
inequality every one of them has ||d0|| within q of ||d^||. The interval
[max(0, ||d^|| - q), ||d^|| + q] therefore covers ||d||, also at d = 0, where the percentile
bootstrap never does because it resamples the noise that keeps ||d^|| above zero.

ICI uses the mean norm; E50, E90 and Emax move by no more than the largest error, so they use
a simultaneous band.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from cje.checks import check_seed
from cje.kernels.arrays import FloatArray

__all__ = ["ErrorBand", "error_band", "gaussian_draws", "weighted_quantile_of"]


class ErrorBand(NamedTuple):
    """Quantiles of the estimation error of a calibration curve."""

    critical: float  # |error| <= critical * standard error everywhere, with probability `level`
    mean_radius: float  # mean |error| <= mean_radius, with probability `level`
    null_mean: float  # E of mean |error|: what a perfect model scores
    mean_draws: FloatArray  # sorted draws of mean |error|


def gaussian_draws(
    covariance: FloatArray, n_draws: int, seed: int, df: float = np.inf
) -> FloatArray:
    """Draws (n_draws, grid) of a centred Gaussian with this covariance (may be singular).

    With finite `df` (clusters less one) they are Student's t: a covariance of few clusters is
    itself uncertain.
    """
    rng = check_seed(seed)
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-10 * max(float(values[-1]), 1e-300)
    # The symmetric root: where eigenvalues agree, rounding decides their vectors, and must not
    # decide the draws.
    root = (vectors[:, keep] * np.sqrt(values[keep])) @ vectors[:, keep].T
    draws = np.asarray(rng.standard_normal((n_draws, len(values))) @ root)
    if np.isfinite(df):
        draws *= np.sqrt(df / rng.chisquare(df, n_draws))[:, None]
    return draws


def error_band(
    covariance: FloatArray,
    band_covariance: FloatArray,
    mass: FloatArray,
    level: float,
    *,
    n_draws: int = 1000,
    seed: int = 0,
    df: float = np.inf,
) -> ErrorBand:
    """Simulate the Gaussian error; `mass` (sum 1) weighs the grid points in the mean norm.

    `band_covariance` is that of the error on the scale on which the band is drawn.
    """
    se = np.sqrt(np.clip(np.diag(band_covariance), 0.0, None))
    draws = gaussian_draws(band_covariance, n_draws, seed, df)
    safe = np.where(se > 0, se, 1.0)
    studentised = np.abs(draws) / safe
    largest = np.max(studentised, axis=1)
    natural = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    mean = np.sort(studentised @ (natural * mass))
    # residuals that are all zero leave nothing to simulate: the band then has one normal quantile
    critical = float(np.quantile(largest, level)) if se.any() else float(ndtri(0.5 + level / 2))
    return ErrorBand(
        critical,
        float(np.quantile(mean, level)),
        float(mean.mean()),
        mean,
    )


def weighted_quantile_of(values: FloatArray, mass: FloatArray, q: float) -> float:
    """Quantile of `values` under weights `mass`: smallest value whose share reaches q."""
    order = np.argsort(values)
    share = np.cumsum(mass[order])
    index = int(np.searchsorted(share, q * share[-1] * (1 - 1e-12)))
    return float(values[order][min(index, len(values) - 1)])
