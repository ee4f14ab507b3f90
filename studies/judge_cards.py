"""Do the intervals of a judge card cover? Prompts with two versions each, a judge with biases.

Shared by ``python -m benchmarks.judge_cards`` and the tests (short versions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.diagnostics.judge_card import JudgeCards
from cje.diagnostics.judge_measures import judge_cards
from cje.kernels.arrays import FloatArray

__all__ = ["KINDS", "card_of", "coverage", "statistics_of", "truth_of"]

KINDS = ("ratings", "two labels", "smooth")
_TRUTH_PROMPTS = 60_000


@dataclass(frozen=True)
class _Rows:
    judges: dict[str, FloatArray]
    labels: FloatArray
    prompts: FloatArray
    versions: list[str]
    ratings: FloatArray
    repeats: FloatArray
    factors: dict[str, Any]


def _rows(kind: str, n_prompts: int, n_labelled: int, seed: int) -> _Rows:
    """Two versions per prompt; all responses of the first `n_labelled` prompts have labels."""
    rng = np.random.default_rng(seed)
    n = 2 * n_prompts
    prompt, version = np.repeat(np.arange(n_prompts), 2), np.tile([0, 1], n_prompts)
    quality = 0.6 * np.repeat(rng.normal(size=n_prompts), 2) + 0.6 * rng.normal(size=n)
    quality += 0.3 * version
    length = rng.normal(size=n) + 0.5 * version

    def rate(values: FloatArray) -> FloatArray:
        if kind == "smooth":
            return values
        if kind == "two labels":
            return (values > 3.0).astype(np.float64)
        return np.clip(np.round(values), 1.0, 5.0)

    raters = np.stack([rate(3.2 + quality + 0.4 * rng.normal(size=n)) for _ in range(2)], axis=1)
    base = 3.2 + quality + 0.15 * length
    first, again = (rate(base + 0.5 * rng.normal(size=n)) for _ in range(2))
    other = rate(3.2 + quality + 0.7 * rng.normal(size=n))
    labels = np.where(prompt < n_labelled, raters.mean(axis=1), np.nan)
    raters = np.where((prompt < n_labelled)[:, None], raters, np.nan)
    return _Rows(
        {"one": first, "two": other}, labels, prompt, [f"v{v}" for v in version], raters,
        np.column_stack([first, again]),
        {"length": length, "position": ["AB"[k] for k in rng.integers(0, 2, n)]},
    )  # fmt: skip


def card_of(kind: str, n_prompts: int, n_labelled: int, seed: int) -> JudgeCards:
    """The card of one simulated evaluation."""
    rows = _rows(kind, n_prompts, n_labelled, seed)
    return judge_cards(
        rows.judges, rows.labels, prompts=rows.prompts, policies=rows.versions,  # type: ignore[arg-type]
        ratings=rows.ratings, repeats={"one": rows.repeats}, factors=rows.factors,
        threshold={"two labels": 0.5}.get(kind, 3.0),
    )  # fmt: skip


def statistics_of(cards: JudgeCards) -> dict[str, tuple[float, float | None, float | None]]:
    """Value and limits of every statistic, but what depends on the number of labels."""
    card = cards.cards[0]
    found = {m.name: (m.value, m.low, m.high) for m in (*card.measures, *cards.stacked)}
    found |= {f"error by {b.factor} {b.level}": (b.effect, b.low, b.high) for b in card.biases}
    return {name: values for name, values in found.items() if "labels saved" not in name}


def truth_of(kind: str) -> dict[str, float]:
    """The same on many labelled prompts."""
    cards = card_of(kind, _TRUTH_PROMPTS, _TRUTH_PROMPTS, 10**9)
    return {name: value for name, (value, _, _) in statistics_of(cards).items()}


def coverage(
    kind: str, n_labelled: int, reps: int, truth: Mapping[str, float], seed: int = 0
) -> dict[str, float]:
    """Share of repetitions whose interval holds the truth; one without an interval counts."""
    held = dict.fromkeys(truth, 0)
    for k in range(reps):
        found = statistics_of(card_of(kind, 3 * n_labelled, n_labelled, seed + k))
        for name, true in truth.items():
            _, low, high = found.get(name, (np.nan, None, None))
            held[name] += low is None or high is None or low <= true <= high
    return {name: count / reps for name, count in held.items()}
