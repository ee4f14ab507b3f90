"""Exit codes of the commands; the table for users is in docs/howto/gate_a_release.md."""

from __future__ import annotations

from cje.cli.ending import EXIT_ERROR

__all__ = ["ANSWERED", "GATES", "REFUSED", "error_code"]

ANSWERED, REFUSED = 0, 2
GATES = {"gate": 3, "drift": 3}  # 0 pass, 1 fail, 2 undecided, 3 error


def error_code(command: str | None) -> int:
    """The exit code of an error, a usage error or an open question in `command`."""
    return GATES.get(command or "", EXIT_ERROR)
