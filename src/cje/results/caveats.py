"""Warnings and caveats about one policy of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje.findings import Severity

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["caveats_about", "warnings_about"]


def warnings_about(result: EstimationResult, name: str) -> tuple[str, ...]:
    """Warnings about one policy, except that its calibration is borrowed."""
    return tuple(
        finding.message
        for finding in result.findings
        if finding.severity is Severity.WARNING
        and finding.subject == name
        and finding.code != "borrowed-calibration"
    )


def caveats_about(result: EstimationResult, name: str) -> tuple[str, ...]:
    """The caveat that a policy has almost no labels of its own."""
    if name not in result.metadata.get("borrowed", ()):
        return ()
    count = result.metadata.get("n_labels", {}).get(name) or 0
    own = {0: "no labels", 1: "1 label"}.get(count, f"{count} labels")
    return (f"{name} rests on borrowed calibration ({own} of its own)",)
