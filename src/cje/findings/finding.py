"""`Finding`: one statement about the data or a result; `Rule`: what it says and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from string import Formatter
from typing import Any

from cje.errors import CJEError
from cje.hints import by_interface

__all__ = ["Finding", "Rule", "Severity"]


class Severity(StrEnum):
    """How much a finding restricts what may be claimed."""

    INFO = "info"  # information; restricts nothing
    WARNING = "warning"  # the number stands, with the stated caution
    REFUSE = "refuse"  # the number must not be used for a decision


@dataclass(frozen=True)
class Finding:
    """What was seen, how severe it is, and what to do next; written by a `Rule`.

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

    def as_error(self) -> CJEError:
        """The finding as an error, where nothing can be computed."""
        return CJEError(self.message, where=self.subject, hint=self.action)


@dataclass(frozen=True)
class Rule:
    """One code of the registry: its severity, thresholds, wording and meaning.

    Parameters
    ----------
    code : str
        Stable machine-readable name.
    message, action : str
        Templates of the finding's two sentences, in the syntax of `str.format`.
    meaning : str
        What the finding says about the result, for the documentation.
    severities : tuple of Severity
        Those the finding can have, the usual one first.
    thresholds : mapping name -> number
        The limits that decide whether, and how severely, the finding appears.
    command_action : str, optional
        `action` where the reader runs the command and the syntax differs from Python's.
    """

    code: str
    message: str
    action: str
    meaning: str
    severities: tuple[Severity, ...] = (Severity.WARNING,)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    command_action: str = ""

    def __getitem__(self, name: str) -> float:
        """A threshold by name."""
        return self.thresholds[name]

    def finding(
        self,
        subject: str | None = None,
        *,
        severity: Severity | None = None,
        details: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Finding:
        """The finding with `values` in its sentences; details are the values unless given."""
        chosen = self.severities[0] if severity is None else severity
        assert chosen in self.severities, f"{self.code} cannot be {chosen}"
        return Finding(
            self.code,
            self.message.format(**values),
            chosen,
            self._action().format(**values),
            subject,
            dict(values if details is None else details),
        )

    def plain(self) -> list[str]:
        """The rule as lines of a terminal."""
        lines = [f"  {self.code} [{self._levels()}]", f"    {self.meaning}"]
        if self.thresholds:
            lines.append(f"    thresholds: {self._limits()}")
        return [*lines, f"    next: {_without_formats(self._action())}"]

    def markdown(self) -> list[str]:
        """The rule as lines of a page."""
        lines = [f"### `{self.code}`", "", f"*{self._levels()}.* {self.meaning}", ""]
        lines += [f"> {_without_formats(self.message)}", ""]
        if self.thresholds:
            lines += [f"Thresholds: {self._limits()}.", ""]
        lines.append(f"Next: {_without_formats(self.action)}.")
        if self.command_action:
            lines += ["", f"On the command line: {_without_formats(self.command_action)}."]
        return lines

    def _action(self) -> str:
        return by_interface(self.action, self.command_action or self.action)

    def _levels(self) -> str:
        return " or ".join(map(str, self.severities))

    def _limits(self) -> str:
        return ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in self.thresholds.items())


def _without_formats(template: str) -> str:
    """A template with `{name:.2f}` shown as `{name}`."""
    parts = Formatter().parse(template)
    return "".join(text + (f"{{{name}}}" if name else "") for text, name, _, _ in parts)
