"""`cje analyze`: files in; the answer, its tables and findings out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cje.cli.exit_codes import ANSWERED, REFUSED
from cje.cli.output import check_report_path, write_report
from cje.cli.reading import (
    Data,
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
from cje.cli.tables import print_tables, wide_console
from cje.errors import CJEError
from cje.terminal import safe, say

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["analyze", "has_refusal", "show_result"]


def analyze(
    data: Data = None,
    logged: Annotated[
        Path | None, typer.Option(help="Logged rows with log-probs under the target policies.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Further labelled rows to calibrate the judge on.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels to join: a file, or a folder, one file per policy.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(help="Key column(s) the labels join by: id, or id=question_id."),
    ] = None,
    field: Field = None,
    policy_column: PolicyColumn = None,
    label_map: LabelMap = None,
    sheet: Sheet = None,
    wide: Wide = None,
    estimator: Annotated[str, typer.Option(help="auto, direct, stacked-dr, ...")] = "auto",
    by: Annotated[list[str] | None, typer.Option(help="Subgroup column(s).")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Version the others are compared with.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Non-inferiority margin, on the label's scale.")
    ] = None,
    transport_margin: Annotated[
        float | None,
        typer.Option(
            help="Largest acceptable error of a calibration borrowed from other policies."
        ),
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(
            help="Column(s) that help to predict the label; auto: length and format of the "
            "responses, where they help."
        ),
    ] = None,
    text_model: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a model2vec model: --covariate auto also tries the text of the "
            "responses."
        ),
    ] = None,
    raters: Annotated[
        str | None,
        typer.Option(
            help="random: the raters are a sample of many (default for three or more); fixed: "
            "only these."
        ),
    ] = None,
    win_rate_against: Annotated[
        str | None, typer.Option(help="The judge compared with this opponent: report win rates.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    judge_scale: JudgeScale = None,
    oracle_scale: OracleScale = None,
    repeats: Annotated[
        str,
        typer.Option(
            help="A second row for one policy and prompt is an error, or one of several draws."
        ),
    ] = "error",
    skip_bad_rows: SkipBadRows = False,
    same_as_logging: Annotated[
        list[str] | None,
        typer.Option(help="Target configured exactly like the logging policy (an A/A check)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 42,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of a table.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print how the files were read.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the whole result to this file.")] = None,
    anytime: Annotated[
        bool,
        typer.Option("--anytime", help="Add intervals that stay valid however often you look."),
    ] = False,
    planned_labels: Annotated[
        int | None,
        typer.Option(help="With --anytime: labels at which the intervals are narrowest (500)."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="memory; streaming: one Parquet file in parts, in a few GB however many rows; "
            "auto: in parts from 20 million rows on, where possible."
        ),
    ] = "auto",
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report: one page that needs no network (.html), or a .pdf."),
    ] = None,
) -> None:
    """Is a candidate better than the baseline, by how much, and how sure is that?

    Exit code 0: answered; 2: a requested value was refused; 1: an error.
    """
    from cje.analysis import analyze_dataset

    source = given_source(data)
    if source is None and logged is None:
        raise CJEError(
            "nothing to analyze",
            hint="name a file or folder of judged responses (cje analyze DATA), or logged rows "
            "(--logged FILE)",
        )
    check_report_path(report)
    keys: Any = {"error": "error", "draws": "draws"}.get(repeats)
    if keys is None:
        raise typer.BadParameter("use error or draws", param_hint="--repeats")
    result = analyze_dataset(
        source,
        **reading_options(field, policy_column, label_map, sheet, wide),
        logged_data=logged,
        calibration_data=calibration,
        labels=labels,
        on=on or None,
        estimator=estimator,
        by=by or (),
        baseline=baseline,
        margin=margin,
        covariates="auto" if covariate == ["auto"] else covariate or (),
        text_model=text_model,
        win_rate_against=win_rate_against,
        level=level,
        judge_scale=judge_scale,
        oracle_scale=oracle_scale,
        repeats=keys,
        skip_bad_rows=skip_bad_rows,
        text=report is not None,
        transport_margin=transport_margin,
        judge_card=report is not None or save is not None,
        seed=seed,
        estimator_options=_options(same_as_logging=same_as_logging, raters=raters),
        anytime=anytime,
        planned_labels=planned_labels,
        engine=cast(Any, engine),
    )
    if as_json:
        say(result.to_json(influence=False))
    else:
        show_result(result, verbose=verbose)
    if save is not None:  # after the answer is shown: a wrong path does not lose it
        result.to_json(save)
    if report is not None:
        from cje.results.report_parts import make_report

        write_report(report, make_report(result))
    raise typer.Exit(REFUSED if has_refusal(result) else ANSWERED)


def _options(**given: Any) -> dict[str, Any]:
    """The options of the estimator that were given."""
    return {name: value for name, value in given.items() if value}


def has_refusal(result: EstimationResult) -> bool:
    """Whether a value was refused, in the result or in one of its subgroups."""
    return any(part.refused() for part in (result, *result.subgroups.values()))


def show_result(result: EstimationResult, *, verbose: bool = False) -> None:
    """Print the answer, the tables, the findings by importance; with `verbose` how it was read."""
    from cje.results.headline import headline
    from cje.results.text import by_importance, tables

    console = wide_console()
    for line in headline(result):
        console.print(safe(line), style="bold")
    print_tables(console, tables(result))
    findings = by_importance(result.all_findings())
    if findings:
        console.print()
    for finding in findings:
        console.print(safe(finding), style=_STYLE[str(finding.severity)])
    note = result.metadata.get("baseline_note")
    if note:
        console.print(safe(note), style="dim")
    if verbose:
        for source, notes in result.metadata.get("reading", {}).items():
            for line in notes:
                console.print(safe(f"[read] {source}: {line}"), style="dim")


_STYLE = {"info": "dim", "warning": "yellow", "refuse": "bold red"}
