"""`cje analyze`: files in; the answer, its tables and findings out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from cje.cli.exit_codes import ANSWERED, REFUSED
from cje.cli.options import Anytime, AsJson, Level, PlannedLabels, ReportFile, Seed, Verbose
from cje.cli.output import write_report
from cje.cli.reading import Data, given_source, reads
from cje.cli.tables import print_tables, wide_console
from cje.errors import CJEError
from cje.terminal import safe, say

if TYPE_CHECKING:
    from cje.results.result import EstimationResult

__all__ = ["analyze", "conclude"]


@reads()
def analyze(
    data: Data = None,
    logged: Annotated[
        Path | None, typer.Option(help="Logged rows with log-probs under the target policies.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Further labelled rows to calibrate the judge on.")
    ] = None,
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
            help="random: treat the raters as a sample of many (default for three or more); "
            "fixed: the result is about these raters only."
        ),
    ] = None,
    win_rate_against: Annotated[
        str | None, typer.Option(help="The judge compared with this opponent: report win rates.")
    ] = None,
    level: Level = 0.95,
    same_as_logging: Annotated[
        list[str] | None,
        typer.Option(help="Target configured exactly like the logging policy (an A/A check)."),
    ] = None,
    seed: Seed = 42,
    as_json: AsJson = False,
    verbose: Verbose = False,
    save: Annotated[Path | None, typer.Option(help="Write the whole result to this file.")] = None,
    anytime: Anytime = False,
    planned_labels: PlannedLabels = None,
    engine: Annotated[
        str,
        typer.Option(
            help="memory; streaming: one Parquet file in parts, in a few GB however many rows; "
            "auto: in parts from 20 million rows on, where possible."
        ),
    ] = "auto",
    report: ReportFile = None,
    *,
    reading: dict[str, Any],
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
    result = analyze_dataset(
        source,
        **reading,
        logged_data=logged,
        calibration_data=calibration,
        estimator=estimator,
        by=by or (),
        baseline=baseline,
        margin=margin,
        covariates="auto" if covariate == ["auto"] else covariate or (),
        text_model=text_model,
        win_rate_against=win_rate_against,
        level=level,
        text=report is not None,
        transport_margin=transport_margin,
        judge_card=report is not None or save is not None,
        seed=seed,
        estimator_options=_options(same_as_logging=same_as_logging, raters=raters),
        anytime=anytime,
        planned_labels=planned_labels,
        engine=cast(Any, engine),
    )
    conclude(result, as_json=as_json, verbose=verbose, save=save, report=report)


def _options(**given: Any) -> dict[str, Any]:
    """The options of the estimator that were given."""
    return {name: value for name, value in given.items() if value}


def conclude(
    result: EstimationResult,
    *,
    as_json: bool,
    verbose: bool,
    report: Path | None,
    save: Path | None = None,
) -> NoReturn:
    """Print the result, write the files that were asked for, and end with the exit code."""
    if as_json:
        say(result.to_json(influence=False))
    else:
        _show(result, verbose=verbose)
    if save is not None:  # after the answer is shown: a wrong path does not lose it
        result.to_json(save)
    if report is not None:
        from cje.results.report_parts import make_report

        write_report(report, make_report(result))
    refused = any(part.refused() for part in (result, *result.subgroups.values()))
    raise typer.Exit(REFUSED if refused else ANSWERED)


def _show(result: EstimationResult, *, verbose: bool) -> None:
    """Print the answer, tables and findings by importance; with `verbose` how files were read."""
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
