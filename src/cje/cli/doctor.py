"""`cje doctor`: what a file is, what it supports today, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cje.terminal import say

__all__ = ["doctor"]


def doctor(
    files: Annotated[
        list[Path], typer.Argument(help="Files or folders: evaluations, logged rows, exports.")
    ],
    judge_scale: Annotated[str | None, typer.Option(help="Range of the scores: '1-5'.")] = None,
    oracle_scale: Annotated[str | None, typer.Option(help="Range of the labels: '0-100'.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a file is, what it was read as, what it supports, and what is blocked.

    Exit code 0: no finding; 2: a finding to read; 1: it could not be read.
    """
    from cje.analysis.doctor import examine, examine_together

    found = [examine(f, judge_scale=judge_scale, oracle_scale=oracle_scale) for f in files]
    logged = [d for d in found if d.facts["target_policies"]]
    if len(logged) == 1:
        found = [d if d is logged[0] else examine_together(d, logged[0]) for d in found]
    if as_json:
        say(json.dumps([d.to_dict() for d in found], indent=2))
    else:
        say("\n\n".join(d.summary() for d in found))
    if any(d.findings for d in found):
        raise typer.Exit(2)
