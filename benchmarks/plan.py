"""Does a planned study achieve what the plan promises? ``python -m benchmarks.plan [--quick]``"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.timing import main
from cje import analyze_dataset, simulate
from cje.analysis.label_plan import Design, Goal, JudgeQuality, UnitCosts, plan_study
from cje.analysis.pilot import plan_from_pilot
from cje.calibration import fit_reward_model
from cje.data.folds import get_folds

COSTS = UnitCosts(label=1.0, response=0.05)


def _truth() -> tuple[JudgeQuality, float]:
    sim = simulate.policies_on_shared_prompts(400_000, 2, 100, seed=99)
    y = sim.outcomes.reshape(2, -1)
    f = simulate.true_curve("monotone")(sim.dataset.judge_score).reshape(2, -1)
    r2 = float((f.var(axis=1) / y.var(axis=1)).mean())
    quality = JudgeQuality(float(np.sqrt(y.var(axis=1).mean())), r2, np.corrcoef(f)[0, 1])
    return quality, sim.truth["candidate_1"] - sim.truth["base"]


def _simulate(design: Design, reps: int) -> tuple[float, float]:
    """Mean width and rejection rate of the paired difference."""
    pairs = [
        analyze_dataset(
            simulate.policies_on_shared_prompts(
                design.n_prompts, 2, design.n_labels, seed=seed
            ).dataset
        ).compare_policies("candidate_1", "base")
        for seed in range(reps)
    ]
    width = np.mean([p.interval.high - p.interval.low for p in pairs])
    return float(width), float(np.mean([p.p_value < 0.05 for p in pairs]))


def run(quick: bool = True) -> list[dict[str, Any]]:
    """Width within 5%, power within 3 points, and how far a plan from 50 pilot labels is off."""
    quality, difference = _truth()
    reps = 200 if quick else 2000
    rows = []
    for size in (0.12, 0.08, 0.05):
        design = plan_study(quality, Goal("difference", size), COSTS)
        width, _ = _simulate(design, reps // 4)
        rows.append({"bar": f"planned width {size}, achieved / planned", "value": width / size,
                     "limit": "0.95-1.05", "ok": abs(width / size - 1) <= 0.05,
                     "note": f"{reps // 4} repetitions"})  # fmt: skip
    for power in (0.6, 0.8, 0.9):
        design = plan_study(quality, Goal("power", difference, power=power), COSTS)
        _, found = _simulate(design, reps)
        slack = 0.03 + (2 * np.sqrt(power * (1 - power) / reps) if quick else 0.0)
        rows.append({"bar": f"planned power {power}, achieved - planned",
                     "value": found - design.power, "limit": "within 0.03",
                     "ok": abs(found - design.power) <= slack,
                     "note": f"{reps} repetitions, {design.n_labels} labels"})  # fmt: skip
    rows.append(_pilot(quality, reps // 2))
    rows += [_fit_excess(shape, labels, reps) for shape in ("monotone", "non_monotone")
             for labels in (50, 100, 200)]  # fmt: skip
    for row in rows:
        print(f"{'ok ' if row['ok'] else 'BAD'} {row['bar']:60s} {row['value']:.3f}  {row['note']}")
    return rows


def _pilot(quality: JudgeQuality, reps: int) -> dict[str, Any]:
    goal = Goal("difference", 0.05)
    right = plan_study(quality, goal, COSTS).n_labels
    off, held = [], []
    for seed in range(reps):
        pilot = simulate.policies_on_shared_prompts(400, 2, 25, seed=seed).dataset
        plan = plan_from_pilot(pilot, goal, COSTS, n_draws=50)
        off.append(abs(plan.design.n_labels / right - 1) > 0.05)
        held.append(plan.labels_range[0] <= right <= plan.labels_range[1])
    return {"bar": "plans from 50 pilot labels whose 80% range holds the right number of labels",
            "value": float(np.mean(held)), "limit": ">= 0.7", "ok": np.mean(held) >= 0.7,
            "note": f"point plan off by more than 5% in {np.mean(off):.0%} of pilots"}  # fmt: skip


def _fit_excess(shape: str, labels: int, reps: int) -> dict[str, Any]:
    """Out-of-fold errors of a calibration over those of the true curve, against 1 + 10 / L.

    The pilot takes that factor out of the errors it sees (`cje.analysis.pilot`). It was fitted on
    the monotone judge; the other shape checks it.
    """
    seen = true = 0.0
    for seed in range(500_000, 500_000 + reps):
        sim = simulate.policies_on_shared_prompts(labels, 1, labels, seed=seed, shape=shape)
        data, y = sim.dataset, sim.dataset.oracle_label
        folds = get_folds(data.prompt_id, 5, 42)
        model = fit_reward_model(data.judge_score, y, folds=folds, n_folds=5)
        seen += float(np.mean((y - model.predict_oof(data.judge_score, folds)) ** 2))
        true += float(np.mean((y - simulate.true_curve(shape)(data.judge_score)) ** 2))
    factor = 1.0 + 10.0 / labels
    return {"bar": f"pilot's fit excess, {shape}, {labels} labels: measured / (1 + 10 / L)",
            "value": seen / true / factor, "limit": "0.9-1.1",
            "ok": abs(seen / true / factor - 1) <= 0.1,
            "note": f"measured {seen / true:.3f}, {reps} repetitions"}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
