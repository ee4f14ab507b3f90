"""Anytime intervals of a result: of every value and difference, valid at every look."""

from __future__ import annotations

import math
from typing import Any

from cje.findings.labels import NO_LOOK_YET
from cje.inference import Finding
from cje.inference.sequential import AnytimeRule, Look, anytime_intervals
from cje.results.result import EstimationResult

__all__ = ["TUNED_AT", "with_anytime"]

TUNED_AT = 500
"""Labels at which an anytime interval is narrowest unless the planned number is given."""


def with_anytime(
    result: EstimationResult, n_labels: int, rule: AnytimeRule | None = None
) -> EstimationResult:
    """The result with ``metadata["anytime"]``: one entry per value and per difference.

    Refused values have none.

    Parameters
    ----------
    result : EstimationResult
    n_labels : int
        Labels so far, over all policies.
    rule : AnytimeRule, optional
        Fixed before the first look. By default a mixture tuned to 500 labels.
    """
    rule = rule or AnytimeRule(TUNED_AT, level=result.level)
    refused = result.refused()
    usable = [name for name in result.influence.names if name not in refused]
    looks: list[Look] = []
    if usable:
        kept = result.influence.select(usable)
        looks += anytime_intervals(kept, n_labels, rule)
        if len(usable) > 1:
            looks += anytime_intervals(kept.all_pairs(), n_labels, rule)
    entries = [_entry(look) for look in looks]
    closed = [entry["name"] for entry in entries if not entry["open"]]
    findings: tuple[Finding, ...] = ()
    if closed:
        look = NO_LOOK_YET.finding(
            closed=f"{', '.join(closed[:3])}{' and others' if len(closed) > 3 else ''}",
            first_look=rule.first_look,
            details={"names": closed, "labels": n_labels},
        )
        findings = (look,)
    return result.with_(
        metadata={"anytime": {"labels": n_labels, "tuned_at": rule.tuned_at,
                              "method": rule.method, "level": rule.level, "looks": entries}},
        findings=findings,
    )  # fmt: skip


def _entry(look: Look) -> dict[str, Any]:
    ends = [end if math.isfinite(end) else None for end in look.interval]
    return {
        "name": look.name, "value": look.value, "low": ends[0], "high": ends[1], "open": look.open
    }  # fmt: skip
