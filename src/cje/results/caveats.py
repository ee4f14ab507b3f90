"""What a reader must know about one policy of a result besides its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje.findings import Severity

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["caveats_about", "warnings_about"]


def warnings_about(result: EstimationResult, name: str) -> tuple[str, ...]:
    """The warnings about one policy, except that it is borrowed."""
    return tuple(
        finding.message
        for finding in result.findings
        if finding.severity is Severity.WARNING
        and finding.subject == name
        and finding.code != "borrowed-calibration"
    )


def caveats_about(result: EstimationResult, name: str) -> tuple[str, ...]:
    """That a policy has next to no labels of its own."""
    if name not in result.metadata.get("borrowed", ()):
        return ()
    count = result.metadata.get("n_labels", {}).get(name) or 0
    own = {0: "no labels", 1: "1 label"}.get(count, f"{count} labels")
    return (f"{name} rests on borrowed calibration ({own} of its own)",)
