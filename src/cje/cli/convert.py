"""`cje convert`: any file that can be read, as one table with the usual names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
from cje.terminal import say

__all__ = ["convert"]


def convert(
    files: Annotated[list[str], typer.Argument(help="Files to read, then the file to write.")],
    labels: Annotated[Path | None, typer.Option(help="Labels to join.")] = None,
    on: Annotated[list[str] | None, typer.Option(help="Key column(s): id, or id=other.")] = None,
    field: Field = None,
    policy_column: PolicyColumn = None,
    label_map: LabelMap = None,
    sheet: Sheet = None,
    wide: Wide = None,
    judge_scale: JudgeScale = None,
    oracle_scale: OracleScale = None,
    skip_bad_rows: SkipBadRows = False,
) -> None:
    """Write what was read as one table: .parquet, .csv, .jsonl or .arrow.

    Example: cje convert prod.csv cand.csv all.parquet
    """
    from cje.data import read
    from cje.data.export import write_table

    if len(files) < 2:
        raise typer.BadParameter("name the files to read and the file to write")
    data = read(
        given_source(files[:-1]),
        labels=labels,
        on=on or None,
        text=True,
        require=(),
        min_rows=1,
        judge_scale=judge_scale,
        oracle_scale=oracle_scale,
        skip_bad_rows=skip_bad_rows,
        **reading_options(field, policy_column, label_map, sheet, wide),
    )
    write_table(data, Path(files[-1]))
    say(data.summary())
