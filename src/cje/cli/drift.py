"""`cje drift`: has the judge changed between two runs over the same rows?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cje.cli.reading import (
    Field,
    JudgeScale,
    LabelMap,
    PolicyColumn,
    Sheet,
    reading_options,
)
from cje.terminal import say

__all__ = ["drift"]


def drift(
    old: Annotated[Path, typer.Argument(help="The old run: rows with judge scores and labels.")],
    new: Annotated[Path, typer.Argument(help="The new run over the same rows.")],
    on: Annotated[str, typer.Option(help="Column that names a row in both.")] = "prompt_id",
    margin: Annotated[
        float | None,
        typer.Option(help="Largest shift that does not matter, on the label's scale (2% of it)."),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level, all answers together.")] = 0.95,
    field: Field = None,
    policy_column: PolicyColumn = None,
    label_map: LabelMap = None,
    sheet: Sheet = None,
    judge_scale: JudgeScale = None,
    oracle_scale: Annotated[str | None, typer.Option(help="Range of the labels: '0-100'.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Same scores, same relation to people, and does the stored calibration still hold?

    Exit code 0: PASS, no shift beyond the margin; 1: FAIL; 2: UNDECIDED; 3: an error.
    """
    from cje.analysis.drift import drift as compare
    from cje.inference import Decision

    found = compare(old, new, on=on, margin=margin, level=level, judge_scale=judge_scale,
                    oracle_scale=oracle_scale,
                    **reading_options(field, policy_column, label_map, sheet))  # fmt: skip
    say(json.dumps(found.to_dict(), indent=2, default=str) if as_json else found.summary())
    code = {Decision.PASS: 0, Decision.FAIL: 1, Decision.UNDECIDED: 2}[found.decision]
    if code:
        raise typer.Exit(code)
