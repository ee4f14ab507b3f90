"""Does the gate err as rarely, and pass as often, as promised? ``python -m benchmarks.gate``

At the threshold a candidate must not pass in more than 5% of repetitions; further above it, it must
pass as often as `cje plan` says. And labels that were selected by score, length or time are held by
the model of the labelling, or refused, in at least 95%.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.timing import main
from studies.gate import WORLDS, gap_of_power, judge_quality, run_gates
from studies.selection import DRIVERS, STRENGTHS, held_or_refused

LABELS = (50, 100, 200, 500)  # of both versions together
N_PROMPTS = 600
POWERS = (0.5, 0.8, 0.9)
SEED = 1_000_000
SELECTION_SEED = 7_000_000


def run(quick: bool = True) -> list[dict[str, Any]]:
    """False PASS and FAIL at the threshold, power against the plan, and selected labels."""
    reps = 200 if quick else 4000
    rows = [row for name in WORLDS for n in LABELS for row in _cell(name, n, reps, quick)]
    rows += [
        _selection(how, strength, 60 if quick else 1000)
        for how in DRIVERS
        for strength in STRENGTHS
    ]
    for row in rows:
        print(f"{'ok ' if row['ok'] else 'BAD'} {row['bar']:66s} {row['value']:.3f}  {row['note']}")
    return rows


def _cell(name: str, n_labels: int, reps: int, quick: bool) -> list[dict[str, Any]]:
    world = WORLDS[name]
    runs, quality = run_gates(world, n_labels, N_PROMPTS, reps, SEED), judge_quality(world)
    passed, failed = runs.shares(0.0)
    noise = 2.0 * (0.25 / reps) ** 0.5 if quick else 0.0
    what = f"{name}, {n_labels} labels"
    rows = [
        {"bar": f"{what}: {word} at the threshold", "value": share, "limit": "<= 0.05",
         "ok": share <= 0.05 + noise, "note": f"{reps} repetitions"}
        for word, share in (("false PASS", passed), ("false FAIL", failed))
    ]  # fmt: skip
    for power in POWERS:
        gap = gap_of_power(quality, n_labels, N_PROMPTS, power)
        off = runs.shares(gap)[0] - power
        rows.append({"bar": f"{what}: power minus the plan's {power}", "value": off,
                     "limit": "within 0.03", "ok": abs(off) <= 0.03 + noise,
                     "note": f"threshold {gap:.3f} below the truth"})  # fmt: skip
    return rows


def _selection(how: str, strength: float, reps: int) -> dict[str, Any]:
    held, refused = held_or_refused(how, strength, reps, SELECTION_SEED)
    return {"bar": f"labels selected by {how}, strength {strength:g}: held or refused",
            "value": held, "limit": ">= 0.95", "ok": held >= 0.95 - (0.05 if reps < 1000 else 0.0),
            "note": f"{reps} repetitions, refused {refused:.0%}"}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
