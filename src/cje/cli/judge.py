"""`cje judge`: how good a judge is, and whether a saved judge card still holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cje.cli.exit_codes import ANSWERED, REFUSED
from cje.cli.options import AsJson, Level, ReportFile, Seed
from cje.cli.output import write_report, write_text
from cje.cli.reading import given_source, reads
from cje.cli.tables import print_tables, wide_console
from cje.terminal import safe, say

if TYPE_CHECKING:
    from cje.data import Dataset
    from cje.data.sources import Opened
    from cje.diagnostics.judge_identity import JudgeIdentity

__all__ = ["judge"]


@reads()
def judge(
    data: Annotated[
        list[str], typer.Argument(help="Judged responses with labels: files or a folder.")
    ],
    also: Annotated[
        list[str] | None, typer.Option(help="Column with the scores of a further judge.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Column(s) that the judge's errors may depend on.")
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="Numeric column(s) that the judge's errors may depend on."),
    ] = None,
    judge_name: Annotated[
        str | None, typer.Option("--judge", help="The judge's model, recorded in the card.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="Its template: a shipped one by name, or a file.")
    ] = None,
    rubric: Annotated[Path | None, typer.Option(help="File with its rubric.")] = None,
    card: Annotated[
        Path | None, typer.Option(help="A saved card: check that it describes this judge.")
    ] = None,
    level: Level = 0.95,
    seed: Seed = 42,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(help="Write the card (JSON) to this file.")] = None,
    report: ReportFile = None,
    *,
    reading: dict[str, Any],
) -> None:
    """How good is this judge, and how many labels does it save?

    Exit code 0: answered; 2: the card given with --card is about another judge; 1: an error.
    """
    from cje.analysis.inputs import read_source
    from cje.analysis.judge_report import judge_report
    from cje.data.sources import open_sources
    from cje.results.report_judge import judge_page, judge_sentences, judge_tables

    identity = _identity(judge_name, template, rubric)
    stale = [] if card is None else _stale(card, identity)
    source = open_sources(
        given_source(data), None, reading.get("sheet"), skip_bad_rows=reading["skip_bad_rows"]
    )
    found: Dataset | None = read_source(
        source,
        **reading,
        groups=[*(by or ()), *_positions(source, by)],
        covariates=[*(covariate or ()), *(also or ())],
        text=True,
    )
    assert found is not None
    cards = judge_report(found, also=also or (), identity=identity, level=level, seed=seed)
    if as_json:
        say(json.dumps(cards.to_dict(), indent=1, allow_nan=False))
    else:
        console = wide_console()
        for line in judge_sentences(cards):
            console.print(safe(line), style="bold")
        print_tables(console, judge_tables(cards))
        for finding in stale:
            console.print(safe(finding), style="yellow")
    if save is not None:
        write_text(save, json.dumps(cards.to_dict(), indent=1, allow_nan=False) + "\n")
    if report is not None:
        write_report(report, judge_page(cards, stale))
    raise typer.Exit(REFUSED if stale else ANSWERED)


def _identity(
    judge_name: str | None, template: str | None, rubric: Path | None
) -> JudgeIdentity | None:
    from cje.diagnostics.judge_identity import JudgeIdentity
    from cje.judges.template import load_template

    if judge_name is None:
        if template is not None or rubric is not None:
            raise typer.BadParameter("also give --judge NAME", param_hint="--template, --rubric")
        return None
    text = "" if template is None else load_template(template).text
    return JudgeIdentity.of(
        judge_name, template=text, rubric="" if rubric is None else _read(rubric)
    )


def _stale(card: Path, identity: JudgeIdentity | None) -> list[Any]:
    """Findings that a saved card describes another judge than the one in use."""
    from cje.diagnostics.judge_card import JudgeCards
    from cje.errors import CJEError

    saved = JudgeCards.from_json(_read(card)).cards[0]
    if identity is None:
        raise typer.BadParameter("also name the judge in use: --judge NAME", param_hint="--card")
    if saved.identity is None:
        raise CJEError(
            "the saved card does not name its judge", where=str(card),
            hint="make it again with --judge NAME --template FILE --rubric FILE",
        )  # fmt: skip
    return saved.identity.stale(identity)


def _read(path: Path) -> str:
    from cje.data.opening import open_file
    from cje.errors import CJEError

    with open_file(path) as file:
        try:
            return file.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise CJEError("the file is not UTF-8 text", where=str(path)) from error


def _positions(opened: Opened, named: list[str] | None) -> list[str]:
    """Columns of every file that are positions by their names, other than those in `named`."""
    from cje.analysis.judge_report import position_columns

    parts = [{leaf.display for leaf in part.table.leaves()} for part in opened.sources]
    shared = sorted(set.intersection(*parts)) if parts else []
    return [name for name in position_columns(shared) if name not in (named or ())]
