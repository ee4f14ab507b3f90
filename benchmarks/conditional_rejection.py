"""How often ICI calls a perfect log-logistic model, whose hazards cross, miscalibrated.

python -m benchmarks.conditional_rejection METHOD N REPETITIONS FRAC
"""

from __future__ import annotations

import sys

import numpy as np

from cje.survival import integrated_calibration_index
from cje.survival.observed import METHODS, Method

SEED, SHAPE, HORIZON = 20_261_200, 2.0, 1.0


def rejection(method: Method, n: int, n_reps: int, frac: float) -> float:
    """Share of samples in which the test of perfect calibration has p < 0.05."""
    rejected = 0
    for rep in range(n_reps):
        rng = np.random.default_rng(SEED + rep)
        scale, u = np.exp(-0.7 * rng.standard_normal(n)), rng.random(n)
        death, censoring = scale * (u / (1.0 - u)) ** (1.0 / SHAPE), rng.exponential(2.0, n)
        survival = 1.0 / (1.0 + (HORIZON / scale) ** SHAPE)
        time, event = np.minimum(death, censoring), death <= censoring
        found = integrated_calibration_index(
            survival, time, event, HORIZON, method=method, frac=frac, seed=rep
        )
        rejected += found.p_value < 0.05
    return rejected / n_reps


if __name__ == "__main__":
    chosen: Method = METHODS[METHODS.index(sys.argv[1])]  # type: ignore[assignment]
    print(rejection(chosen, int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
