"""`cje monitor`: the value and the judge over time, with alarms that are seldom false."""

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

__all__ = ["monitor"]


def monitor(
    files: Annotated[list[Path], typer.Argument(help="Labelled, judged rows; one or more files.")],
    time: Annotated[
        str | None,
        typer.Option(help="Column with dates or numbers; without it a file is a period."),
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="Column that is 1 on rows the judge scores in each period.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels to join, as for analyze.")] = None,
    level: Annotated[
        float,
        typer.Option(help="One minus the probability that a stream ever gives a false alarm."),
    ] = 0.95,
    field: Field = None,
    policy_column: PolicyColumn = None,
    label_map: LabelMap = None,
    sheet: Sheet = None,
    judge_scale: JudgeScale = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the streams to this file (.png, .svg, .pdf).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The value by period, and whether it or the judge's relation to the labels has changed.

    Run it after each period, as often as you like: with probability --level a stream in which
    nothing changes never alarms. Exit code 0: no alarm; 2: an alarm; 1: an error.
    """
    from cje.analysis.monitor import monitor as watch

    found = watch(files, time=time, anchor=anchor, labels=labels, level=level,
                  judge_scale=judge_scale,
                  **reading_options(field, policy_column, label_map, sheet))  # fmt: skip
    say(json.dumps(found.to_dict(), indent=2) if as_json else found.summary())
    if picture is not None:
        found.plot(picture)
        say(f"picture: {picture}", err=True)
    if found.alarms:
        raise typer.Exit(2)
