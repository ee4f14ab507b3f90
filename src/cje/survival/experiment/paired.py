"""Effects tested over the seeds: two arms see the same data under each seed, so they are paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

__all__ = ["paired_effects", "threshold_regions"]

METRICS = ("calibration_in_the_large", "calibration_slope", "ici", "c_index", "ibs")
# A network fits the order of its training events: its training C passes these values.
INTERPOLATION = (0.95, 0.999)
Rows = Sequence[Mapping[str, Any]]
Arm = tuple[str, int | None, float | None]


def paired_effects(rows: Rows, *, split: str = "test", level: float = 0.95) -> list[dict[str, Any]]:
    """Differences between two models, or two penalties of one network, over the seeds.

    For O/E and the slope the difference is that of the distance from one (on the log scale), so
    that negative means better calibrated. t interval and test over the seeds that both arms have;
    p-values are adjusted by Holm within scenario and metric.

    Parameters
    ----------
    rows : sequence of mapping
        Of `flatten`.
    """
    here = [row for row in rows if row["split"] == split]
    out: list[dict[str, Any]] = []
    for scenario in dict.fromkeys(row["scenario"] for row in here):
        for metric in METRICS:
            values = _by_arm([r for r in here if r["scenario"] == scenario], metric)
            family = [
                {"scenario": scenario, "split": split, "metric": metric}
                | _names(first, second)
                | _effect(values[first], values[second], level)
                for first, second in itertools.combinations(values, 2)
                if _comparable(first, second)
            ]
            _adjust([row for row in family if row["p"] is not None])
            out += family
    return out


def _by_arm(rows: Rows, metric: str) -> dict[Arm, dict[int, float]]:
    values: dict[Arm, dict[int, float]] = {}
    for row in rows:
        arm = (row["model"], row["width"], row["weight_decay"])
        here = values.setdefault(arm, {})
        value = row[metric]
        if value is None:
            continue
        if metric in ("calibration_in_the_large", "calibration_slope"):
            value = abs(math.log(value)) if value > 0 else None
        if value is not None:
            here[row["seed"]] = float(value)
    return values


def _comparable(first: Arm, second: Arm) -> bool:
    """Two models without a width, or one network with two penalties."""
    if first[1] is None and second[1] is None:
        return True
    return first[:2] == second[:2]


def _names(first: Arm, second: Arm) -> dict[str, Any]:
    def name(arm: Arm) -> str:
        model, width, penalty = arm
        return model if width is None else f"{model}-{width} (weight decay {penalty:g})"

    return {"first": name(first), "second": name(second)}


def _effect(a: Mapping[int, float], b: Mapping[int, float], level: float) -> dict[str, Any]:
    """Mean of first minus second over the seeds both have."""
    gap = np.array([a[seed] - b[seed] for seed in a if seed in b])
    n = len(gap)
    empty = {"difference": None, "low": None, "high": None, "p": None, "p_holm": None, "n": n}
    if n == 0:
        return empty
    mean = float(gap.mean())
    if n < 2:
        return empty | {"difference": mean}
    se = float(gap.std(ddof=1)) / math.sqrt(n)
    reach = float(stdtrit(n - 1, 0.5 + level / 2)) * se
    p = 1.0 if mean == 0 else 0.0 if se == 0 else 2.0 * float(stdtr(n - 1, -abs(mean) / se))
    return empty | {"difference": mean, "low": mean - reach, "high": mean + reach, "p": p}


def _adjust(family: list[dict[str, Any]]) -> None:
    """Holm's step-down adjustment, in place."""
    ordered = sorted(family, key=lambda row: row["p"])
    running = 0.0
    for k, row in enumerate(ordered):
        running = max(running, min(1.0, (len(ordered) - k) * row["p"]))
        row["p_holm"] = running


def threshold_regions(summary: Rows) -> list[dict[str, Any]]:
    """Where the network begins to interpolate: counted, and measured on the training rows.

    Counted: parameters between half and twice the training events. Measured: the numbers of
    parameters at which mean training concordance first reaches 0.95 and 0.999; empty where the
    sweep does not reach it.

    Parameters
    ----------
    summary : sequence of mapping
        Of `aggregate`.
    """
    fits = [
        row for row in summary
        if row["width"] is not None and row["split"] == "train" and row["metric"] == "c_index"
    ]  # fmt: skip
    out = []
    for key in dict.fromkeys((row["scenario"], row["weight_decay"]) for row in fits):
        line = [row for row in fits if (row["scenario"], row["weight_decay"]) == key]
        line = sorted(
            (row for row in line if row["mean"] is not None), key=lambda row: row["n_parameters"]
        )
        if not line:
            continue
        events = line[0]["n_train_events"]
        reached = [
            next((row["n_parameters"] for row in line if row["mean"] >= c), None)
            for c in INTERPOLATION
        ]
        out.append({
            "scenario": key[0], "weight_decay": key[1], "n_train_events": events,
            "counted_low": events / 2, "counted_high": 2 * events,
            "measured_low": reached[0], "measured_high": reached[1],
        })  # fmt: skip
    return out
