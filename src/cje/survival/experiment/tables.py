"""CSV tables of the experiment: one row per run and split, one per summary."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cje.survival.experiment.evaluator import METRICS

__all__ = ["aggregate", "flatten", "write_csv"]

GROUP = ("scenario", "model", "width", "weight_decay", "n_parameters", "split")


def flatten(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per run and split."""
    rows = []
    for record in records:
        run = record["run"]
        for part in record["rows"]:
            rows.append(
                {
                    "scenario": run["scenario"],
                    "model": run["model"],
                    "width": run["width"],
                    "weight_decay": json.loads(run["settings"]).get("weight_decay"),
                    "n_parameters": record["n_parameters"],
                    "seed": run["seed"],
                    "split": part["split"],
                    "n": part["n"],
                    "n_events": part["n_events"],
                    "n_train_events": record["n_train_events"],
                    "censored_share": record["censored_share"],
                    **{name: part[name] for name in METRICS},
                    "undefined": "; ".join(f"{k}: {v}" for k, v in part["reasons"].items()),
                }
            )
    return rows


def aggregate(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean, sd, standard error and n over seeds, per scenario, model, width, split and metric.

    A metric undefined in some runs is averaged over the others, and n says how many those are.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    out = []
    for key, members in groups.items():
        for metric in METRICS:
            values = np.array([m[metric] for m in members if m[metric] is not None], dtype=float)
            n = len(values)
            sd = float(values.std(ddof=1)) if n > 1 else None
            out.append(
                dict(zip(GROUP, key, strict=True))
                | {
                    "metric": metric,
                    "mean": float(values.mean()) if n else None,
                    "sd": sd,
                    "se": None if sd is None else sd / math.sqrt(n),
                    "n": n,
                    "n_runs": len(members),
                    "n_train_events": float(np.mean([m["n_train_events"] for m in members])),
                }
            )
    return out


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal fields; an empty cell is a missing value. The write is atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)
