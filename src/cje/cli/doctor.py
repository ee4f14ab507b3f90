"""`cje doctor`: what a file is, which analyses it supports, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cje.cli.exit_codes import REFUSED
from cje.cli.options import AsJson
from cje.cli.reading import given_source, reads
from cje.errors import CJEError
from cje.terminal import say

__all__ = ["doctor"]


@reads("repeats")
def doctor(
    files: Annotated[
        list[str], typer.Argument(help="Files or folders: evaluations, logged rows, exports.")
    ],
    as_json: AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show what a file is, how it is read, which analyses it supports, and what blocks the others.

    Exit code 0: it was read; 2: a finding refuses an answer; 1: it could not be read.
    """
    from cje.analysis.doctor import examine, examine_together

    if reading["labels"] is not None and len(files) > 1:
        raise CJEError(
            "labels can be joined to one file or folder only, and several were given",
            value=files, hint="give one file, or the folder of the files",
        )  # fmt: skip
    found = [examine(given_source([f]), **reading) for f in files]
    logged = [d for d in found if d.facts["target_policies"]]
    if len(logged) == 1:
        found = [d if d is logged[0] else examine_together(d, logged[0]) for d in found]
    if as_json:
        say(json.dumps([d.to_dict() for d in found], indent=2))
    else:
        say("\n\n".join(d.summary() for d in found))
    if any(f.severity == "refuse" for d in found for f in d.findings):
        raise typer.Exit(REFUSED)
