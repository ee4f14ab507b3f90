"""How often does the change detector alarm falsely over 500 looks, and how late is it?

python -m benchmarks.monitoring [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cje.inference.sequential import change_evidence
from cje.kernels.arrays import FloatArray

__all__ = ["run"]

LOOKS, PER_LOOK, CHANGE_AT = 500, 30, 100
DRAWS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "binary 20%": lambda rng, n: (rng.random(n) < 0.2).astype(float),
    "binary 50%": lambda rng, n: (rng.random(n) < 0.5).astype(float),
}


def _series(name: str, rng: np.random.Generator, looks: int) -> tuple[FloatArray, FloatArray]:
    y = DRAWS[name](rng, looks * PER_LOOK).reshape(looks, PER_LOOK)
    return y.mean(axis=1), y.std(axis=1, ddof=1) / np.sqrt(PER_LOOK)


def run(quick: bool) -> list[dict[str, Any]]:
    """False alarms of each kind of label, and delays for changes of 0.5 to 4 standard errors."""
    n = 40 if quick else 1_000
    rows = []
    for number, name in enumerate(DRAWS):
        rng = np.random.default_rng([7, number])
        alarms = 0
        for _ in range(n):
            value, se = _series(name, rng, LOOKS)
            alarms += change_evidence(value, se, PER_LOOK - 1.0).alarm is not None
        limit = 0.05 + (2.5 * (0.0475 / n) ** 0.5 if quick else 0.0)
        rows.append({"bar": f"false alarms over {LOOKS} looks: {name}", "value": alarms / n,
                     "limit": limit, "ok": alarms / n <= limit,
                     "note": f"{n} series, {PER_LOOK} labels per look"})  # fmt: skip
    for size in (0.5, 1.0, 2.0, 4.0):
        rng = np.random.default_rng([8, round(10 * size)])
        delays, early = [], 0
        for _ in range(max(n // 5, 20)):
            value, se = _series("normal", rng, 2 * CHANGE_AT)
            value[CHANGE_AT:] += size / np.sqrt(PER_LOOK)
            alarm = change_evidence(value, se, PER_LOOK - 1.0).alarm
            early += alarm is not None and alarm < CHANGE_AT
            delays.append(CHANGE_AT if alarm is None else max(alarm - CHANGE_AT, 0) + 1)
        rows.append({"bar": f"median looks to an alarm: a change of {size:g} standard errors",
                     "value": float(np.median(delays)), "limit": float(CHANGE_AT),
                     "ok": float(np.median(delays)) <= CHANGE_AT,
                     "note": f"after {CHANGE_AT} unchanged looks; early {early}"})  # fmt: skip
    return rows


def main() -> None:
    """Print every row."""
    for row in run("--quick" in sys.argv):
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.4g} (<= {row['limit']:.4g}) {row['note']}")


if __name__ == "__main__":
    main()
