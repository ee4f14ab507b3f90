"""What the caller wants of the columns (`Request`), and what is read from where (`Plan`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Plan", "Request"]


@dataclass(frozen=True)
class Request:
    """Options of `read` that concern columns."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    covariates: Collection[str] = ()
    groups: Collection[str] = ()
    keys: Collection[str] = ()  # raw columns to join labels on
    require: Collection[str] = ("prompt_id", "judge_score")
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # more synonyms, by role
    text: bool = False
    target_policies: Sequence[str] | None = None
    label_map: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Canonical column -> path in the source, and the sentences that explain it.

    Canonical columns are roles, and the families ``target:NAME``, ``rater:NAME``,
    ``covariate:NAME``, ``group:NAME`` and ``key:NAME``.
    """

    columns: Mapping[str, tuple[str, ...]]
    bools: frozenset[str] = frozenset()  # number columns in which true/false was seen
    notes: tuple[str, ...] = ()
    prompt_from_text: bool = False
    label_map: Mapping[str, float | None] = field(default_factory=dict)  # values of words
    unused: tuple[tuple[str, ...], ...] = ()  # columns that play no role
