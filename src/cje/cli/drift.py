"""`cje drift`: has the judge changed between two runs over the same rows?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cje.cli.options import AsJson
from cje.cli.reading import reads
from cje.terminal import say

__all__ = ["drift"]


@reads("labels", "on", "wide", "repeats", "skip_bad_rows")
def drift(
    old: Annotated[Path, typer.Argument(help="The old run: rows with judge scores and labels.")],
    new: Annotated[Path, typer.Argument(help="The new run over the same rows.")],
    on: Annotated[
        str, typer.Option(help="Column that identifies a row in both files.")
    ] = "prompt_id",
    margin: Annotated[
        float | None,
        typer.Option(help="Largest acceptable shift, on the label's scale (default: 2% of it)."),
    ] = None,
    level: Annotated[float, typer.Option(help="Joint confidence level of all answers.")] = 0.95,
    as_json: AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Compare two runs of a judge: its scores, their relation to labels, and the old calibration.

    Exit code 0: PASS, no shift beyond the margin; 1: FAIL; 2: UNDECIDED; 3: an error.
    """
    from cje.analysis.drift import drift as compare
    from cje.inference import Decision

    found = compare(old, new, on=on, margin=margin, level=level, **reading)
    say(json.dumps(found.to_dict(), indent=2, default=str) if as_json else found.summary())
    code = {Decision.PASS: 0, Decision.FAIL: 1, Decision.UNDECIDED: 2}[found.decision]
    if code:
        raise typer.Exit(code)
