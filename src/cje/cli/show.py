"""`cje show`: print a saved result, or write its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cje.cli.analyze import conclude
from cje.cli.options import AsJson, ReportFile, Verbose

__all__ = ["show"]


def show(
    saved: Annotated[Path, typer.Argument(help="File written by `cje analyze --save`.")],
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: ReportFile = None,
) -> None:
    """Show a saved result. Its report has no samples of text: the file keeps no rows.

    Exit code 0: answered; 2: a value in it was refused; 1: an error.
    """
    from cje.results.result import EstimationResult

    result = EstimationResult.from_json(saved)
    conclude(result, as_json=as_json, verbose=verbose, report=report)
