"""`cje doctor`: what a file is, what it supports today, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cje.cli.exit_codes import REFUSED
from cje.cli.reading import (
    Field,
    JudgeScale,
    LabelMap,
    OracleScale,
    PolicyColumn,
    Sheet,
    SkipBadRows,
    Wide,
    given_source,
    reading_options,
)
from cje.errors import CJEError
from cje.terminal import say

__all__ = ["doctor"]


def doctor(
    files: Annotated[
        list[str], typer.Argument(help="Files or folders: evaluations, logged rows, exports.")
    ],
    labels: Annotated[
        Path | None, typer.Option(help="Labels to join: a file, or a labels file of cje label.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(help="Key column(s) the labels join by: id, or id=question_id."),
    ] = None,
    field: Field = None,
    policy_column: PolicyColumn = None,
    label_map: LabelMap = None,
    sheet: Sheet = None,
    wide: Wide = None,
    skip_bad_rows: SkipBadRows = False,
    judge_scale: JudgeScale = None,
    oracle_scale: OracleScale = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a file is, what it was read as, what it supports, and what is blocked.

    Exit code 0: it was read; 2: something it was asked for is refused; 1: it could not be read.
    """
    from cje.analysis.doctor import examine, examine_together

    if labels is not None and len(files) > 1:
        raise CJEError(
            "labels are joined to one source, and each file is examined by itself",
            value=files, hint="give one file, or the folder of the files",
        )  # fmt: skip
    options = {
        "judge_scale": judge_scale,
        "oracle_scale": oracle_scale,
        "skip_bad_rows": skip_bad_rows,
        "labels": labels,
        "on": on or None,
        **reading_options(field, policy_column, label_map, sheet, wide),
    }
    found = [examine(given_source([f]), **options) for f in files]
    logged = [d for d in found if d.facts["target_policies"]]
    if len(logged) == 1:
        found = [d if d is logged[0] else examine_together(d, logged[0]) for d in found]
    if as_json:
        say(json.dumps([d.to_dict() for d in found], indent=2))
    else:
        say("\n\n".join(d.summary() for d in found))
    if any(f.severity == "refuse" for d in found for f in d.findings):
        raise typer.Exit(REFUSED)
