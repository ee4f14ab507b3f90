"""Writes `tests/fixtures/arena_like/`: simulated judge data with the layout of the Arena sample.

Same files, fields and difficulties (a near-copy of the logging policy, one moderate shift, one
hopeless one that the judge overrates), other numbers: everything is drawn from the seed below.

    python scripts/arena_like.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "arena_like"
N_PROMPTS, N_PROBE, SEED = 400, 40, 20_261_118
# Policy: (shift of quality, points by which the judge overrates it).
POLICIES = {
    "base": (0.0, 0.0),
    "clone": (0.0, 0.0),
    "parallel_universe_prompt": (0.02, 0.0),
    "unhelpful": (-0.62, 0.1),
}
# Target: (mean, sd) of log p_target - log p_base.
LOG_RATIOS = {
    "clone": (-0.9, 1.3),
    "parallel_universe_prompt": (-6.0, 4.0),
    "unhelpful": (-27.0, 8.0),
}

Row = dict[str, Any]


def draw(rng: np.random.Generator, ability: np.ndarray, policy: str) -> tuple[Any, Any]:
    """Labels on a grid of 0.01 and judge scores on a grid of 0.05 for every prompt."""
    shift, overrated = POLICIES[policy]
    label = np.clip(0.74 + shift + 0.16 * ability + 0.10 * rng.normal(size=ability.size), 0, 1)
    judge = np.clip(label + overrated + 0.09 * rng.normal(size=ability.size) + 0.05, 0, 1)
    return label.round(2), (judge * 20).round() / 20


def main() -> None:
    """Write all files."""
    rng = np.random.default_rng(SEED)
    ability = rng.normal(size=N_PROMPTS)
    prompt_chars = np.exp(rng.normal(4.5, 1.0, N_PROMPTS)).astype(int) + 5
    base_rows: list[Row] = []
    for policy in POLICIES:
        label, judge = draw(rng, ability, policy)
        chars = np.exp(rng.normal(6.8, 0.8, N_PROMPTS)).astype(int) + 10
        labelled = rng.random(N_PROMPTS) < (0.48 if policy == "base" else 0.0)
        rows = [
            {
                "prompt_id": f"prompt_{i}",
                "draw_idx": 0,
                "judge_score": float(judge[i]),
                "oracle_label": float(label[i]) if labelled[i] else None,
                "prompt_chars": int(prompt_chars[i]),
                "response_chars": int(chars[i]),
            }
            for i in range(N_PROMPTS)
        ]
        write(FOLDER / "fresh_draws" / f"{policy}.jsonl", rows)
        if policy == "base":
            base_rows = rows
            continue
        probed = rng.choice(N_PROMPTS, N_PROBE, replace=False)
        probe = [rows[i] | {"oracle_label": float(label[i])} for i in sorted(probed)]
        write(FOLDER / "probe_slice" / f"{policy}.jsonl", probe)
    logprob = -np.exp(rng.normal(3.0, 0.6, N_PROMPTS))
    ratios = {name: rng.normal(m, s, N_PROMPTS) for name, (m, s) in LOG_RATIOS.items()}
    logged = []
    for i, row in enumerate(base_rows):
        targets = {k: round(float(logprob[i] + v[i]), 6) for k, v in ratios.items()}
        kept = {k: v for k, v in row.items() if k != "draw_idx"}
        kept |= {"base_policy_logprob": round(float(logprob[i]), 6)}
        logged.append(kept | {"target_policy_logprobs": targets})
    write(FOLDER / "logged.jsonl", logged)


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
