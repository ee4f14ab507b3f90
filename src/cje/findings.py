"""`Finding`: one plain statement about the data or a result, with what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """How much a finding restricts what may be claimed."""

    INFO = "info"  # worth knowing; restricts nothing
    WARNING = "warning"  # the number stands, with the stated care
    REFUSE = "refuse"  # the number must not be used for a decision


@dataclass(frozen=True)
class Finding:
    """What was seen, how bad it is, and what to do next.

    Parameters
    ----------
    code : str
        Stable machine-readable name, such as ``"low-ess"``.
    message : str
        What was seen, with its numbers, in plain words.
    severity : Severity
        ``info``, ``warning`` or ``refuse``.
    action : str
        What the reader can do next.
    subject : str, optional
        The policy, class or column concerned.
    details : dict
        The numbers behind the message (JSON-serialisable).

    Examples
    --------
    >>> print(Finding("low-ess", "ESS is 0.8%", Severity.REFUSE, "use fresh draws", "b"))
    [refuse] b: ESS is 0.8%. Next: use fresh draws
    """

    code: str
    message: str
    severity: Severity
    action: str
    subject: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        who = f"{self.subject}: " if self.subject else ""
        return f"[{self.severity}] {who}{self.message}. Next: {self.action}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain JSON types."""
        return asdict(self) | {"severity": str(self.severity)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """The inverse of `to_dict`."""
        return cls(**(data | {"severity": Severity(data["severity"])}))
