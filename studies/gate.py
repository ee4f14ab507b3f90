"""How often does the gate err? False PASS and FAIL at the threshold, and its power.

Shared by ``python -m benchmarks.gate`` and the tests (short versions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import cje.simulate as simulate
from cje import analyze_dataset
from cje.analysis.label_plan import Goal, JudgeQuality, achieved
from cje.inference import Decision, GateRule
from cje.kernels.arrays import FloatArray

__all__ = ["WORLDS", "Runs", "World", "gap_of_power", "judge_quality", "run_gates"]

_TRUTH_SEED, _TRUTH_ROWS = 99, 200_000


@dataclass(frozen=True)
class World:
    """A judge and its labels: the judge's curve, its number of scores, how labels scatter."""

    shape: Literal["monotone", "non_monotone"] = "monotone"
    levels: int | None = None
    concentration: float | None = 8.0  # None: labels are 0 or 1

    def options(self) -> dict[str, Any]:
        """Arguments of the simulator."""
        return dict(self.__dict__)


WORLDS: dict[str, World] = {
    "smooth scores and labels": World(),
    "labels 0 or 1": World(concentration=None),
    "five scores": World(levels=5),
    "non-monotone judge": World("non_monotone"),
}


@dataclass(frozen=True)
class Runs:
    """Intervals of candidate minus baseline over repetitions, and the true difference."""

    low: FloatArray
    high: FloatArray
    truth: float

    def shares(self, gap: float) -> tuple[float, float]:
        """Shares of PASS and FAIL of a gate whose threshold lies `gap` below the truth."""
        threshold = self.truth - gap
        rule = GateRule(min_gain=threshold) if threshold > 0 else GateRule(margin=-threshold)
        found = [rule.decide(*pair) for pair in zip(self.low, self.high, strict=True)]
        return tuple(
            sum(decision is wanted for decision in found) / len(found)
            for wanted in (Decision.PASS, Decision.FAIL)
        )  # type: ignore[return-value]


def run_gates(world: World, n_labels: int, n_prompts: int, reps: int, seed: int = 0) -> Runs:
    """Evaluate two versions `reps` times with `n_labels` labels in all."""
    low, high, truth = np.zeros(reps), np.zeros(reps), 0.0
    for k in range(reps):
        made = simulate.policies_on_shared_prompts(
            n_prompts, 2, n_labels // 2, seed=seed + k, **world.options()
        )
        truth = made.truth["candidate_1"] - made.truth["base"]
        pair = analyze_dataset(made.dataset).compare_policies("candidate_1", "base")
        low[k], high[k] = pair.interval
    return Runs(low, high, truth)


def judge_quality(world: World) -> JudgeQuality:
    """The judge's quality, from many rows with every label."""
    made = simulate.policies_on_shared_prompts(
        _TRUTH_ROWS, 2, 100, seed=_TRUTH_SEED, **world.options()
    )
    y = made.outcomes.reshape(2, -1)
    f = simulate.true_curve(world.shape)(made.dataset.judge_score).reshape(2, -1)
    r2 = float((f.var(axis=1) / y.var(axis=1)).mean())
    sd = float(np.sqrt(y.var(axis=1).mean()))
    return JudgeQuality(sd, r2, float(np.corrcoef(f)[0, 1]))


def gap_of_power(quality: JudgeQuality, n_labels: int, n_prompts: int, power: float) -> float:
    """The distance from the threshold at which `cje plan` promises this power."""
    low, high = 1e-4, 10.0 * quality.sd
    for _ in range(60):
        middle = 0.5 * (low + high)
        goal = Goal("power", middle, power=power)
        promised = achieved(quality, goal, n_prompts, n_labels // 2).power
        assert promised is not None
        low, high = (middle, high) if promised < power else (low, middle)
    return high
