"""Options that several commands share; those of reading files are in `cje.cli.reading`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cje.cli.output import check_report_path

__all__ = ["Anytime", "AsJson", "Level", "PlannedLabels", "Quiet", "ReportFile", "Seed", "Verbose"]

Anytime = Annotated[
    bool,
    typer.Option("--anytime", help="Use intervals that stay valid however often you look."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Level = Annotated[float, typer.Option(help="Confidence level.")]
PlannedLabels = Annotated[
    int | None,
    typer.Option(help="With --anytime: labels at which the intervals are narrowest (500)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        callback=check_report_path,
        help="Write a report: one page that needs no network (.html), or a .pdf.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the folds.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print how the files were read.")]
