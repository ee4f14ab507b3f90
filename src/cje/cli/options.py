"""Options that several commands share; those of reading files are in `cje.cli.reading`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cje.cli.output import check_report_path

__all__ = ["AsJson", "Level", "Quiet", "ReportFile", "Seed", "Verbose"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Level = Annotated[float, typer.Option(help="Confidence level.")]
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
