"""`cje show`: a saved result again, as text, JSON or a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cje.cli.analyze import has_refusal, show_result
from cje.cli.exit_codes import ANSWERED, REFUSED
from cje.cli.output import check_report_path, write_report
from cje.terminal import say

__all__ = ["show"]


def show(
    saved: Annotated[Path, typer.Argument(help="File written by `cje analyze --save`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print how the files were read.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write the report again: .html or .pdf.")
    ] = None,
) -> None:
    """Show a saved result. The report of a saved result has no samples: JSON keeps no rows.

    Exit code 0: answered; 2: a value in it was refused; 1: an error.
    """
    from cje.results.result import EstimationResult

    check_report_path(report)
    result = EstimationResult.from_json(saved)
    if as_json:
        say(result.to_json(influence=False))
    else:
        show_result(result, verbose=verbose)
    if report is not None:
        from cje.results.report_parts import make_report

        write_report(report, make_report(result))
    raise typer.Exit(REFUSED if has_refusal(result) else ANSWERED)
