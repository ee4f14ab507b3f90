"""The evaluation that all exports hold: two versions, 60 prompts, labels on a random slice.

Everything is drawn from one seed; the true mean label of each version is known.
"""

from __future__ import annotations

import random
from typing import Any

__all__ = ["BASES", "POLICIES", "TRUTH"]

Row = dict[str, Any]
POLICIES = ("prod", "cand")
N_PROMPTS, SEED = 60, 20_261_119
_GAIN = {"prod": 0.0, "cand": 0.7}


def _rows(n_draws: int = 1) -> list[Row]:
    draw = random.Random(SEED)
    found = []
    for policy in POLICIES:
        for i in range(N_PROMPTS):
            for k in range(n_draws):
                quality = 2.6 + _GAIN[policy] + draw.gauss(0.0, 1.0)
                found.append(
                    {
                        "prompt_id": f"q{i:02d}",
                        "policy": policy,
                        **({"draw_idx": k} if n_draws > 1 else {}),
                        "prompt": f"How would you explain topic {i} to a customer?",
                        "response": f"Topic {i}, answered by {policy}" + (f" ({k})" * (k > 0)),
                        "quality": _point(quality),
                        "judge_score": _point(quality + draw.gauss(0.3, 0.7)),
                        "second": _point(quality + draw.gauss(-0.2, 0.7)),
                        "rated_by_ben": _point(quality + draw.gauss(0.0, 0.4)),
                        "chosen": draw.random() < 0.45,
                    }
                )
    return found


def _point(value: float) -> int:
    return min(5, max(1, round(value)))


def _plain(n_draws: int = 1) -> list[Row]:
    rows = _rows(n_draws)
    return [
        {name: value for name, value in row.items() if name in KEPT}
        | {"oracle_label": row["quality"] if row["chosen"] else None}
        for row in rows
    ]


KEPT = ("prompt_id", "policy", "draw_idx", "prompt", "response", "judge_score")


def _unit() -> list[Row]:
    """Scores and labels as shares."""
    return [
        row
        | {name: None if row[name] is None else (row[name] - 1) / 4
           for name in ("judge_score", "oracle_label")}
        for row in _plain()
    ]  # fmt: skip


def _binary() -> list[Row]:
    return [
        row | {"oracle_label": None if (y := row["oracle_label"]) is None else int(y >= 4)}
        for row in _plain()
    ]


def _judges() -> list[Row]:
    return [
        row | {"judge_score": {"gpt4": raw["judge_score"], "claude": raw["second"]}}
        for row, raw in zip(_plain(), _rows(), strict=True)
    ]


def _raters() -> list[Row]:
    return [
        row | {"oracle_label": {"anna": raw["quality"], "ben": raw["rated_by_ben"]}
               if raw["chosen"] else {"anna": None, "ben": None}}
        for row, raw in zip(_plain(), _rows(), strict=True)
    ]  # fmt: skip


BASES = {
    "plain": _plain(),
    "unit": _unit(),
    "binary": _binary(),
    "judges": _judges(),
    "raters": _raters(),
    "draws": _plain(2),
}


def _mean(rows: list[Row], policy: str, value: Any) -> float:
    values = [value(row) for row in rows if row["policy"] == policy]
    return sum(values) / len(values)


# Mean label of each version where every row were labelled.
TRUTH = {
    "plain": {p: _mean(_rows(), p, lambda r: r["quality"]) for p in POLICIES},
    "unit": {p: _mean(_rows(), p, lambda r: (r["quality"] - 1) / 4) for p in POLICIES},
    "binary": {p: _mean(_rows(), p, lambda r: float(r["quality"] >= 4)) for p in POLICIES},
    "judges": {p: _mean(_rows(), p, lambda r: r["quality"]) for p in POLICIES},
    "raters": {
        p: _mean(_rows(), p, lambda r: (r["quality"] + r["rated_by_ben"]) / 2) for p in POLICIES
    },
    "draws": {p: _mean(_rows(2), p, lambda r: r["quality"]) for p in POLICIES},
}
