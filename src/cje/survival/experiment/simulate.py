"""Simulated survival data: covariates from a Gaussian copula, Weibull times, tuned censoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from cje.checks import check_seed
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray
from cje.survival.experiment.config import ScenarioName

__all__ = ["SimulatedData", "simulate_survival"]

N_PREDICTIVE, N_NOISE = 10, 10
N_CATEGORICAL = 5


@dataclass(frozen=True)
class SimulatedData:
    """Covariates, follow-up and the truth: S(t|x) = exp(-(t/scale)^shape e^log_risk)."""

    x: FloatArray
    time: FloatArray
    event: BoolArray
    log_risk: FloatArray
    latent_time: FloatArray
    scale: float
    shape: float

    def true_survival(self, t: float | FloatArray) -> FloatArray:
        """Each subject's true survival at `t` (one time, or each subject's own)."""
        hazard = (np.asarray(t, dtype=np.float64) / self.scale) ** self.shape
        return np.asarray(np.exp(-hazard * np.exp(self.log_risk)))

    def rows(self, index: NDArray[Any]) -> SimulatedData:
        """The subjects named by `index`."""
        return SimulatedData(
            self.x[index], self.time[index], self.event[index], self.log_risk[index],
            self.latent_time[index], self.scale, self.shape,
        )  # fmt: skip


def gaussian_copula(n: int, p: int, correlation: float, rng: np.random.Generator) -> FloatArray:
    """Latent normals with correlation ``correlation ** |j - k|`` between columns j and k.

    Marginals are then put on top; the dependence stays that of this Gaussian.
    """
    lag = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    root = np.linalg.cholesky(correlation**lag)  # 0 ** 0 is 1: no correlation is the identity
    return np.asarray(rng.standard_normal((n, p)) @ root.T)


def _linear(z: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """10 predictive columns with coefficients uniform in [-1, 1], 10 noise columns."""
    beta = np.concatenate((rng.uniform(-1, 1, N_PREDICTIVE), np.zeros(N_NOISE)))
    return z, z @ beta


def _lognormal(z: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Log-normal marginals, standardised by their population mean and standard deviation."""
    mean, sd = np.exp(0.5), np.sqrt((np.e - 1) * np.e)
    return _linear((np.exp(z) - mean) / sd, rng)


def _categorical(
    z: FloatArray, rng: np.random.Generator, levels: int
) -> tuple[FloatArray, FloatArray]:
    """Five variables of equally likely levels, one-hot; every level has its own effect."""
    level = np.minimum((ndtr(z) * levels).astype(int), levels - 1)
    effects = rng.uniform(-1, 1, (N_CATEGORICAL, levels))
    log_risk = effects[np.arange(N_CATEGORICAL), level].sum(axis=1)
    return np.eye(levels)[level].reshape(len(z), -1), log_risk


def _nonlinear(z: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Linear, quadratic and sine terms of five covariates each way, and an interaction."""
    beta = rng.uniform(-1, 1, N_PREDICTIVE)
    linear = z[:, :4] @ beta[:4]
    quadratic = ((z[:, 4:7] ** 2 - 1) / np.sqrt(2)) @ beta[4:7]
    waves = np.sin(2 * z[:, 7:10]) @ beta[7:10]
    return z, linear + quadratic + waves + z[:, 0] * z[:, 1]


_COVARIATES = {
    "gaussian": _linear,
    "lognormal": _lognormal,
    "heavy_censoring": _linear,
    "nonlinear": _nonlinear,
}


def simulate_survival(
    scenario: ScenarioName = "gaussian",
    n: int = 1000,
    *,
    seed: int,
    censoring: float = 0.3,
    correlation: float = 0.3,
    scale: float = 2.0,
    shape: float = 2.0,
    levels: int = 10,
) -> SimulatedData:
    """Draw one data set.

    Parameters
    ----------
    scenario : str
        ``gaussian``, ``lognormal``, ``categorical``, ``heavy_censoring`` (Gaussian covariates; pass
        the rate as `censoring`) or ``nonlinear``.
    censoring : float
        Expected share of censored subjects; censoring times are exponential and independent, with
        their rate solved for by root bracketing on the drawn event times.
    correlation : float
        Correlation of neighbouring columns in the Gaussian copula.
    levels : int
        Levels of each categorical variable.

    Examples
    --------
    >>> data = simulate_survival("gaussian", 2000, seed=1, censoring=0.5)
    >>> bool(abs(1 - data.event.mean() - 0.5) < 0.03)
    True
    """
    if scenario not in get_args(ScenarioName):
        raise CJEError("unknown scenario", where="scenario", value=scenario,
                       hint=f"use one of {', '.join(get_args(ScenarioName))}")  # fmt: skip
    rng = check_seed(seed)
    columns = N_CATEGORICAL if scenario == "categorical" else N_PREDICTIVE + N_NOISE
    z = gaussian_copula(n, columns, correlation, rng)
    if scenario == "categorical":
        x, log_risk = _categorical(z, rng, levels)
    else:
        x, log_risk = _COVARIATES[scenario](z, rng)
    latent = scale * (rng.exponential(size=n) * np.exp(-log_risk)) ** (1.0 / shape)
    limit = _censoring_times(latent, censoring, rng)
    event = latent <= limit
    return SimulatedData(x, np.minimum(latent, limit), event, log_risk, latent, scale, shape)


def _censoring_times(latent: FloatArray, target: float, rng: np.random.Generator) -> FloatArray:
    """Exponential censoring times whose expected censored share is `target`."""
    unit = rng.exponential(size=len(latent))  # always drawn: a rate of 0 shifts no stream
    if target == 0:
        return np.full(len(latent), np.inf)

    def excess(log_rate: float) -> float:
        return float(np.mean(-np.expm1(-np.exp(log_rate) * latent)) - target)

    middle = -float(np.log(np.median(latent)))
    rate = np.exp(brentq(excess, middle - 40, middle + 40))
    return np.asarray(unit / rate)
