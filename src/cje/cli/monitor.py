"""`cje monitor`: the value and the judge over time, with a bounded rate of false alarms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cje.cli.options import AsJson
from cje.cli.reading import reads
from cje.terminal import say

__all__ = ["monitor"]


@reads("on", "wide", "oracle_scale", "repeats", "skip_bad_rows")
def monitor(
    files: Annotated[list[Path], typer.Argument(help="Labelled, judged rows; one or more files.")],
    time: Annotated[
        str | None,
        typer.Option(help="Column with dates or numbers; without it each file is a period."),
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="Column that is 1 on rows the judge scores in each period.")
    ] = None,
    level: Annotated[
        float,
        typer.Option(help="One minus the probability that a stream ever gives a false alarm."),
    ] = 0.95,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the streams to this file (.png, .svg, .pdf).")
    ] = None,
    as_json: AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show the value by period, and whether it or the judge's relation to the labels has changed.

    Run it after each period, as often as you like: with probability --level, a stream in which
    nothing changes never raises an alarm. Exit code 0: no alarm; 2: an alarm; 1: an error.
    """
    from cje.analysis.monitor import monitor as watch

    found = watch(files, time=time, anchor=anchor, level=level, **reading)
    say(json.dumps(found.to_dict(), indent=2) if as_json else found.summary())
    if picture is not None:
        found.plot(picture)
        say(f"picture: {picture}", err=True)
    if found.alarms:
        raise typer.Exit(2)
