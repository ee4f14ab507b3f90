"""`cje labels export | import | sheet`: labels out of and into the labels file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cje.terminal import say

__all__ = ["app"]

app = typer.Typer(help="Export and import labels; make sheets for offline labelling.",
                  no_args_is_help=True)  # fmt: skip

_Store = Annotated[Path, typer.Argument(help="The labels file of cje label.")]


@app.command("export")
def export(
    labels: _Store,
    out: Annotated[Path, typer.Argument(help="A .csv, .parquet or .xlsx file.")],
    history: Annotated[
        bool, typer.Option("--history", help="Include changed, withdrawn and skipped answers.")
    ] = False,
) -> None:
    """Write the labels to a file."""
    from cje.label.files import export_labels

    say(f"{export_labels(labels, out, history=history):,} rows written to {out}")


@app.command("import")
def import_(
    labels: _Store,
    source: Annotated[
        Path, typer.Argument(help="A sheet, a CSV with prompt_id and policy, or Label Studio JSON.")
    ],
    rater: Annotated[
        str | None, typer.Option(help="Who labelled; needed if the file has no column 'rater'.")
    ] = None,
) -> None:
    """Import labels and check each one. Exit code 2 if some are refused."""
    from cje.label.files import import_labels

    done = import_labels(labels, source, rater=rater)
    say(f"{done.kept:,} labels kept, {done.empty:,} rows without a label")
    for line in done.refused:
        say(f"refused, {line}", err=True)
    if done.refused:
        raise typer.Exit(2)


@app.command("sheet")
def sheet(
    labels: _Store,
    out: Annotated[Path, typer.Argument(help="A .xlsx or .csv file.")],
    rater: Annotated[
        str, typer.Option(help="Who will label it; the items are reserved for this rater.")
    ],
) -> None:
    """Write the open items, blind, for one rater to label offline."""
    from cje.label.files import write_sheet

    say(f"{write_sheet(labels, out, rater):,} items written to {out}")
    say(f"when labelled: cje labels import {labels} {out} --rater {rater}")
