"""What a `Dataset` holds, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cje.kernels.arrays import BoolArray
from cje.kernels.clusters import cluster_means

if TYPE_CHECKING:
    from cje.data.dataset import Dataset

__all__ = ["describe"]


def describe(data: Dataset) -> str:
    """A table of policies and a list of what else is there."""
    scored = np.isfinite(data.judge_score)
    lines = [
        f"{_count(len(data), 'row')}, {_count(data.policy.n_names, 'policy', 'policies')}, "
        f"{_count(data.n_prompts, 'prompt')}, "
        f"{data.n_labelled:,} labelled ({_share(data.n_labelled, len(data))})",
        f"judge scale {data.judge_scale}, label scale {data.oracle_scale} (means below are on it)",
        "",
    ]
    lines += _policy_table(data, scored)
    extras = _extras(data)
    if extras:
        lines += ["", *extras]
    return "\n".join(lines)


def _policy_table(data: Dataset, scored: BoolArray) -> list[str]:
    names = data.policy.names
    codes, k = data.policy.codes, len(names)
    rows = np.bincount(codes, minlength=k)
    labelled = data.is_labelled
    score = cluster_means(data.judge_scale.from_unit(data.judge_score[scored]), codes[scored], k)
    label = cluster_means(
        data.oracle_scale.from_unit(data.oracle_label[labelled]), codes[labelled], k
    )
    labels = np.bincount(codes[labelled], minlength=k)
    width = max([len("policy"), *(min(len(name), 40) for name in names)])
    table = [f"{'policy':<{width}} {'rows':>9} {'labels':>8} {'judge mean':>11} {'label mean':>11}"]
    for i, name in enumerate(names):
        shown = name if len(name) <= 40 else name[:37] + "..."
        table.append(
            f"{shown:<{width}} {rows[i]:>9,} {labels[i]:>8,} "
            f"{_number(score[i]):>11} {_number(label[i]):>11}"
        )
    return table


def _extras(data: Dataset) -> list[str]:
    out = []
    if len(data) and int(data.draw_idx.max()) > 0:
        out.append(f"draws: up to {int(data.draw_idx.max()) + 1} per policy and prompt")
    if data.cluster is not None:
        out.append(f"clusters: {data.cluster.compact().n_names:,}")
    if data.judge_variance is not None:
        out.append("judge variances: yes")
    if data.rater_labels is not None:
        raters = data.rater_labels
        out.append(f"raters: {raters.rater.n_names}, {len(raters):,} single labels")
    if data.label_propensity is not None:
        out.append("label propensities: yes")
    if data.target_policies:
        out.append(f"log-probabilities under: {', '.join(data.target_policies)}")
    if data.rewards is not None:
        out.append("calibrated rewards: yes")
    if data.covariates:
        out.append(f"covariates: {', '.join(data.covariates)}")
    if data.groups:
        out.append(f"groups: {', '.join(data.groups)}")
    notes = data.metadata.get("reading", ())
    if notes:
        out += ["reading:", *(f"  - {note}" for note in notes)]
    return out


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0%"
