"""Pairs and ranking as plain rows: what text, JSON and report show beside the win rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from cje.estimators.pairwise.bradley_terry import BradleyTerry
from cje.inference import InfluenceEstimate, holm
from cje.results.result import EstimationResult

__all__ = ["head_to_head", "ranking_rows"]

ELO = 400.0 / np.log(10.0)
ELO_MEAN = 1000.0
_MOST_EXACT = 15  # versions whose differences keep their influence by prompt


def head_to_head(
    result: EstimationResult,
    estimate: Callable[[str, str], InfluenceEstimate],
    counts: Mapping[tuple[str, str], tuple[int, int]],
    min_labels: int,
) -> dict[str, Any]:
    """Each pair's win rate, tested against one half; p-values adjusted for their number (Holm).

    A pair with a refused version, or with fewer human verdicts than `min_labels`, has no number.
    """
    refused = result.refused()
    numbers: dict[tuple[str, str], dict[str, Any]] = {}
    for (a, b), (_, n) in counts.items():
        if n >= min_labels and a not in refused and b not in refused:
            one = estimate(a, b)
            low, high = one.intervals(result.level)[0]
            numbers[a, b] = {
                "win_rate": float(one.values[0]), "low": low, "high": high,
                "p_even": float(one.p_values(0.5)[0]),
            }  # fmt: skip
    adjusted = holm([row["p_even"] for row in numbers.values()]) if numbers else np.zeros(0)
    for row, p in zip(numbers.values(), adjusted.tolist(), strict=True):
        better = "better" if row["win_rate"] > 0.5 else "worse"
        row["p_adjusted"] = p
        row["verdict"] = better if p < 1.0 - result.level else "inconclusive"
    nothing = dict.fromkeys(("win_rate", "low", "high", "p_even", "p_adjusted"))
    return {
        "pairs": [
            {"a": pair[0], "b": pair[1], "comparisons": rows, "human_verdicts": n}
            | numbers.get(pair, nothing | {"verdict": "refused"})
            for pair, (rows, n) in counts.items()
        ]
    }


def ranking_rows(
    result: EstimationResult, ranking: BradleyTerry | None, reason: str
) -> dict[str, Any]:
    """Strengths, ranks, win probabilities and style coefficients, without the refused versions.

    Limits of ranks are joint: the lower one is one plus the number of versions that are better at
    the joint level (max-t over all pairs).
    """
    refused = result.refused()
    if ranking is None:
        return {"ranking": None, "ranking_reason": reason}
    names = [name for name in ranking.strengths.names if name not in refused]
    if len(names) < 2:
        return {"ranking": None, "ranking_reason": "fewer than two versions have a value"}
    strengths = ranking.strengths.select(names)
    gaps = (_by_covariance(strengths) if len(names) > _MOST_EXACT else strengths).all_pairs()
    joint = gaps.simultaneous_intervals(result.level)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    above = dict.fromkeys(names, 0)
    below = dict.fromkeys(names, 0)
    for (a, b), (low, high) in zip(pairs, joint, strict=True):  # the gap is b minus a
        if low > 0.0:
            above[a] += 1
            below[b] += 1
        elif high < 0.0:
            above[b] += 1
            below[a] += 1
    order = np.argsort(-strengths.values, kind="stable")
    rank = {names[k]: place + 1 for place, k in enumerate(order.tolist())}
    own = strengths.intervals(result.level)
    rows = [
        {
            "policy": name, "rank": rank[name], "rank_low": 1 + above[name],
            "rank_high": len(names) - below[name], "strength": float(strengths.values[k]),
            "low": own[k].low, "high": own[k].high,
            "elo": ELO_MEAN + ELO * float(strengths.values[k]),
        }
        for k, name in enumerate(names)
    ]  # fmt: skip
    single = gaps.intervals(result.level)
    chances = [
        {
            "a": a, "b": b, "probability": float(expit(-gaps.values[k])),
            "low": float(expit(-single[k].high)), "high": float(expit(-single[k].low)),
        }
        for k, (a, b) in enumerate(pairs)
    ]  # fmt: skip
    return {
        "ranking": sorted(rows, key=lambda row: row["rank"]),
        "ranking_reason": "",
        "win_probabilities": chances,
        "style": _style(ranking.style, result.level),
    }


def _by_covariance(estimate: InfluenceEstimate) -> InfluenceEstimate:
    """The same by its covariance alone: many differences would each need an influence by prompt."""
    df = float(estimate.degrees_of_freedom().min())
    return InfluenceEstimate.from_covariance(
        estimate.names, estimate.values, estimate.covariance(), df=df
    )


def _style(style: InfluenceEstimate | None, level: float) -> list[dict[str, Any]]:
    if style is None:
        return []
    return [
        {"covariate": name, "coefficient": float(value), "low": limit.low, "high": limit.high}
        for name, value, limit in zip(
            style.names, style.values, style.intervals(level), strict=True
        )
    ]
