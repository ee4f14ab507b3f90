"""`cje analyze`: files in, a table of policy values, differences and findings out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cje.estimators.result import EstimationResult

__all__ = ["analyze"]


def analyze(
    data: Annotated[
        Path | None,
        typer.Argument(help="File, or folder with one file per policy (JSONL, CSV, Parquet)."),
    ] = None,
    logged: Annotated[
        Path | None, typer.Option(help="Logged rows with log-probs under the target policies.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Further labelled rows to calibrate the judge on.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels to join: a file, or a folder, one file per policy.")
    ] = None,
    on: Annotated[list[str] | None, typer.Option(help="Key column(s) the labels join by.")] = None,
    estimator: Annotated[str, typer.Option(help="auto, direct, stacked-dr, ...")] = "auto",
    by: Annotated[list[str] | None, typer.Option(help="Subgroup column(s).")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Non-inferiority margin, on the label's scale.")
    ] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="Column(s) that help to predict the label.")
    ] = None,
    win_rate_against: Annotated[
        str | None, typer.Option(help="The judge compared with this opponent: report win rates.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    judge_scale: Annotated[str | None, typer.Option(help="Range of the scores: '1-5'.")] = None,
    oracle_scale: Annotated[str | None, typer.Option(help="Range of the labels: '0-100'.")] = None,
    repeats: Annotated[
        str, typer.Option(help="A second row for one policy and prompt: error, or draws.")
    ] = "error",
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Drop bad rows, counted, instead of stopping.")
    ] = False,
    same_as_logging: Annotated[
        list[str] | None,
        typer.Option(help="Target configured exactly like the logging policy (an A/A check)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 42,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of a table.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the whole result to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report: one HTML page that needs no network.")
    ] = None,
) -> None:
    """Each policy's value, paired differences, and what the data cannot support.

    Exit code 0: no finding; 2: a finding to read; 1: it could not run.
    """
    from cje.analysis import analyze_dataset

    keys: Any = {"error": "error", "draws": "draws"}.get(repeats)
    if keys is None:
        raise typer.BadParameter("use error or draws", param_hint="--repeats")
    result = analyze_dataset(
        data,
        logged_data_path=logged,
        calibration_data_path=calibration,
        labels=labels,
        on=on or None,
        estimator=estimator,
        by=by or (),
        margin=margin,
        covariates=covariate or (),
        win_rate_against=win_rate_against,
        level=level,
        judge_scale=judge_scale,
        oracle_scale=oracle_scale,
        repeats=keys,
        skip_bad_rows=skip_bad_rows,
        text=report is not None,
        seed=seed,
        estimator_options={"same_as_logging": same_as_logging} if same_as_logging else None,
    )
    if save is not None:
        result.to_json(save)
    if as_json:
        typer.echo(result.to_json(influence=False))
    else:
        _show(result)
    if report is not None:
        result.to_html(report)
        typer.echo(f"report: {report}", err=True)
    raise typer.Exit(2 if _has_finding(result) else 0)


def _has_finding(result: EstimationResult) -> bool:
    """Anything beyond information, in the result or in one of its subgroups."""
    parts = (result, *result.subgroups.values())
    return any(finding.severity != "info" for part in parts for finding in part.findings)


def _show(result: EstimationResult) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe or a file has no width: do not cut the columns
        console = Console(highlight=False, width=max(console.width, 140))
    console.print(_estimates(result))
    if len(result.policies) > 1:
        console.print(_differences(result))
        console.print(f"best: {result.best_policy()}", markup=False)
    for column, part in result.subgroups.items():
        console.print(_subgroups(column, part))
    for finding in result.findings:
        console.print(str(finding), markup=False, style=_STYLE[str(finding.severity)])
    for source, notes in result.metadata.get("reading", {}).items():
        for note in notes:  # a guessed scale or column decides every number above
            console.print(f"[read] {source}: {note}", markup=False, style="dim")


_STYLE = {"info": "dim", "warning": "yellow", "refuse": "bold red"}


def _table(title: str, columns: list[str], rows: list[list[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: names are data, never markup
    return table


def _estimates(result: EstimationResult) -> RenderableType:
    from cje.estimators.result_text import marks

    quantity = result.metadata.get("quantity", "mean label")
    rows = [
        [r["policy"], f"{r['estimate']:.4g}", f"{r['low']:.4g}", f"{r['high']:.4g}",
         str(r["n_rows"] or ""), str(r["n_labels"] if r["n_labels"] is not None else ""), marks(r)]
        for r in result.rows()
    ]  # fmt: skip
    title = f"{result.estimator}: {quantity}, {result.level:.0%} intervals"
    return _table(title, ["policy", "estimate", "low", "high", "rows", "labels", ""], rows)


def _differences(result: EstimationResult) -> RenderableType:
    from cje.estimators.result_text import PAIRS_TITLE

    rows = [
        [f"{c.a} - {c.b}", f"{c.difference:+.4g}", f"{c.interval.low:+.4g}",
         f"{c.interval.high:+.4g}", f"{p:.3g}", c.verdict + (" *" if c.caveats else "")]
        for c, p in result.compare_all()
    ]  # fmt: skip
    return _table(PAIRS_TITLE, ["difference", "value", "low", "high", "p (Holm)", "verdict"], rows)


def _subgroups(column: str, part: EstimationResult) -> RenderableType:
    from cje.estimators.result_text import marks

    joint = part.influence.simultaneous_intervals(part.level)
    rows = [
        [r["policy"], f"{r['estimate']:.4g}", f"{limit.low:.4g}", f"{limit.high:.4g}", marks(r)]
        for r, limit in zip(part.rows(), joint, strict=True)
    ]
    title = f"by {column} (joint {part.level:.0%} intervals)"
    return _table(title, ["policy | level", "estimate", "low", "high", ""], rows)
