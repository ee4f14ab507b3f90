"""`cje convert`: write any file that can be read as one table with standard column names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cje.cli.reading import given_source, reads
from cje.terminal import say

__all__ = ["convert"]


@reads("repeats")
def convert(
    files: Annotated[list[str], typer.Argument(help="Files to read, then the file to write.")],
    *,
    reading: dict[str, Any],
) -> None:
    """Write the rows of the files as one table: .parquet, .csv, .jsonl or .arrow."""
    from cje.analysis.inputs import read_source
    from cje.data.export import write_table

    if len(files) < 2:
        raise typer.BadParameter("name the files to read and the file to write")
    data = read_source(
        given_source(files[:-1]),
        text=True,
        require=(),
        min_rows=1,
        **reading,
    )
    assert data is not None
    write_table(data, Path(files[-1]))
    say(data.summary())
