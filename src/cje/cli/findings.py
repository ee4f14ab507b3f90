"""`cje findings`: the registry of findings."""

from __future__ import annotations

from typing import Annotated

import typer

from cje.terminal import say

__all__ = ["findings"]


def findings(
    code: Annotated[
        str | None, typer.Argument(help="Show only the finding with this code.")
    ] = None,
) -> None:
    """List every finding: its meaning, severity and thresholds, and what to do."""
    from cje.errors import CJEError
    from cje.findings import RULES, describe

    if code is None:
        say(describe(), end="")
        return
    if code not in RULES:
        raise CJEError("unknown finding", value=code, hint=f"known codes: {', '.join(RULES)}")
    say("\n".join(RULES[code].plain()))
