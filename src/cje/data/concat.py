"""Rows of several data sets as one: what `Dataset.concat` does, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.data.arrays import frozen
from cje.data.codes import Codes, Strings
from cje.data.columns import ARRAYS, all_missing
from cje.data.raters import RaterLabels
from cje.errors import CJEError
from cje.hints import by_interface
from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from cje.data.dataset import Dataset

__all__ = ["concat_datasets"]


def concat_datasets(parts: Sequence[Dataset]) -> Dataset:
    """Rows of all parts in order; see `Dataset.concat`."""
    from cje.data.dataset import Dataset

    first = parts[0]
    for other in parts[1:]:
        for name in ("judge_scale", "oracle_scale"):
            if getattr(other, name) != getattr(first, name):
                raise CJEError(
                    f"cannot concatenate: {name} differs",
                    value=(str(getattr(first, name)), str(getattr(other, name))),
                    hint=f"read both with the same {name}",
                )
    targets = tuple(dict.fromkeys(name for part in parts for name in part.target_policies))
    has_targets = any(part.target_policy_logprobs is not None for part in parts)
    return Dataset.from_arrays(
        prompt_id=first.prompt_id.concat(*(p.prompt_id for p in parts[1:])),
        policy=first.policy.concat(*(p.policy for p in parts[1:])),
        draw_idx=np.concatenate([p.draw_idx for p in parts]),
        target_policy_logprobs=(
            frozen(np.vstack([_aligned(p, targets) for p in parts]), np.float64)
            if has_targets
            else None
        ),
        target_policies=targets if has_targets else None,
        rater_labels=_concat_raters(parts),
        covariates={
            name: _joined([p.covariates.get(name) for p in parts], parts)
            for name in dict.fromkeys(n for p in parts for n in p.covariates)
        },
        groups=_concat_groups(parts),
        prompt=_concat_text([p.prompt for p in parts]),
        response=_concat_text([p.response for p in parts]),
        judge_scale=first.judge_scale,
        oracle_scale=first.oracle_scale,
        metadata=_concat_metadata(parts),
        cluster=_concat_clusters(parts),
        **{
            name: _joined([getattr(p, name) for p in parts], parts)
            for name in ARRAYS
            if name not in ("draw_idx", "target_policy_logprobs")
            and _enough(name, [getattr(p, name) is not None for p in parts])
        },
    )


def _enough(name: str, present: Sequence[bool]) -> bool:
    """Whether a column is kept: rewards cannot be missing, the others can."""
    return all(present) if name == "rewards" else any(present)


def _joined(blocks: Sequence[FloatArray | None], parts: Sequence[Dataset]) -> FloatArray:
    filled = [
        all_missing(len(part)) if block is None else block
        for block, part in zip(blocks, parts, strict=True)
    ]
    return frozen(np.concatenate(filled), np.float64)


def _aligned(part: Dataset, targets: Sequence[str]) -> FloatArray:
    """The part's target log-probabilities with the columns of `targets`, NaN where it has none."""
    matrix = np.full((len(part), len(targets)), np.nan)
    if part.target_policy_logprobs is not None:
        where = [targets.index(name) for name in part.target_policies]
        matrix[:, where] = part.target_policy_logprobs
    return matrix


def _concat_raters(parts: Sequence[Dataset]) -> RaterLabels | None:
    """All single labels; a part without raters keeps its labels as those of one rater each."""
    if all(p.rater_labels is None for p in parts):
        return None
    rows, values, raters = [], [], []
    offset = 0
    for part in parts:
        labels = part.rater_labels
        if labels is None:
            row = np.flatnonzero(part.is_labelled)
            labels = RaterLabels.from_arrays(row, part.oracle_label[row])
        rows.append(labels.row + offset)
        values.append(labels.value)
        raters.append(labels.rater)
        offset += len(part)
    return RaterLabels.from_arrays(
        np.concatenate(rows), np.concatenate(values), raters[0].concat(*raters[1:])
    )


def _concat_groups(parts: Sequence[Dataset]) -> dict[str, Codes]:
    groups: dict[str, Codes] = {}
    for name in dict.fromkeys(n for p in parts for n in p.groups):
        if any(name not in p.groups for p in parts):
            raise CJEError(
                f"cannot concatenate: group {name!r} is missing in one part",
                hint="a subgroup cannot be unknown: add the column to every part or drop it",
            )
        groups[name] = parts[0].groups[name].concat(*(p.groups[name] for p in parts[1:]))
    return groups


def _concat_clusters(parts: Sequence[Dataset]) -> Codes | None:
    kept = [p.cluster for p in parts if p.cluster is not None]
    if not kept:
        return None
    if len(kept) < len(parts):
        raise CJEError(
            "cannot concatenate: cluster is missing in one part",
            hint="add the column to every part, or remove it"
            + by_interface(": with_columns(cluster=None)", ""),
        )
    return kept[0].concat(*kept[1:])


def _concat_text(columns: Sequence[Strings | None]) -> Strings | None:
    kept = [column for column in columns if column is not None]
    # text is only displayed: kept only where every part has it
    return kept[0].concat(*kept[1:]) if kept and len(kept) == len(columns) else None


def _concat_metadata(parts: Iterable[Dataset]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.metadata.items():
            if key in ("reading", "findings") and key in merged:
                merged[key] = (*merged[key], *value)
            else:
                merged.setdefault(key, value)
    return merged
