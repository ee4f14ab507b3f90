"""The reference design: data with their true model, which every calibration metric must pass."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from cje.kernels.arrays import FloatArray
from cje.survival.experiment.simulate import SimulatedData, simulate_survival

__all__ = ["Reference", "dependent_censoring", "perfect_model"]


class Reference(NamedTuple):
    """A data set with its true model's predictions."""

    data: SimulatedData
    own: FloatArray  # S(T_i | x_i)
    horizon: float
    at_horizon: FloatArray


def perfect_model(seed: int, censoring: float, n: int = 1000) -> Reference:
    """X ~ N(0, I_20), ten coefficients uniform in [-1, 1], S = exp(-(t/2)^2 e^{x'b})."""
    data = simulate_survival("gaussian", n, seed=seed, censoring=censoring, correlation=0.0)
    return _reference(data)


def dependent_censoring(seed: int, censoring: float = 0.55, n: int = 1000) -> Reference:
    """The same model; subjects at high risk are censored early."""
    data = simulate_survival("gaussian", n, seed=seed, censoring=0.0, correlation=0.0)
    rng = np.random.default_rng([seed, 9])
    pull = np.exp(0.5 * data.log_risk)
    unit = rng.exponential(size=n) / pull
    speed = pull * data.latent_time
    log_rate = brentq(lambda r: float(np.mean(-np.expm1(-np.exp(r) * speed))) - censoring, -30, 30)
    limit = unit / np.exp(log_rate)
    return _reference(
        replace(data, time=np.minimum(data.latent_time, limit), event=data.latent_time <= limit)
    )


def _reference(data: SimulatedData) -> Reference:
    horizon = float(np.median(data.time[data.event]))
    return Reference(data, data.true_survival(data.time), horizon, data.true_survival(horizon))
