"""Times cje's ICI and SurvivalEVAL's in one process; run by benchmarks/survival.py."""

from __future__ import annotations

import json
import sys

import numpy as np
from SurvivalEVAL import integrated_calibration_index as peer_ici

from benchmarks.timing import interleaved, ratio
from cje.survival import integrated_calibration_index


def work(n: int) -> dict[str, float]:
    """Ratios of time and the two values."""
    rng = np.random.default_rng(1)
    risk = rng.normal(size=n)
    latent, limit = rng.exponential(np.exp(-risk)), rng.exponential(2.0, n)
    time, event = np.minimum(latent, limit), latent <= limit
    horizon = float(np.median(time[event]))
    survival = np.exp(-1.3 * horizon * np.exp(risk))
    calls = {
        "default": lambda: integrated_calibration_index(survival, time, event, horizon),
        "cox_rcs": lambda: integrated_calibration_index(
            survival, time, event, horizon, method="cox_rcs"
        ),
        "peer": lambda: peer_ici(1 - survival, time, event, horizon),
    }
    seconds = interleaved(calls, 7)
    mine, other = float(calls["cox_rcs"]()), float(calls["peer"]()["ICI"])
    return {
        "ratio_default": ratio(seconds, "default", "peer"),
        "ratio_cox_rcs": ratio(seconds, "cox_rcs", "peer"),
        "difference": abs(mine - other),
        "cje": mine,
        "peer": other,
    }


if __name__ == "__main__":
    print(json.dumps(work(int(sys.argv[1]))))
