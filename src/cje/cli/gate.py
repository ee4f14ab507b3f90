"""`cje gate`: PASS, FAIL or UNDECIDED for a candidate, as an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cje.cli.options import Anytime, AsJson, PlannedLabels, ReportFile, Seed
from cje.cli.output import write_report, write_text
from cje.cli.reading import given_source, reads
from cje.terminal import safe, say

if TYPE_CHECKING:
    from cje.analysis.gate import GateResult

__all__ = ["gate"]


@reads()
def gate(
    data: Annotated[
        list[str],
        typer.Argument(help="Files or a folder; several files are several versions."),
    ],
    baseline: Annotated[str, typer.Option(help="The version in use.")],
    candidate: Annotated[
        str | None,
        typer.Option(help="The version that may replace it; optional if there are only two."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Largest acceptable loss, on the label's scale.")
    ] = None,
    min_gain: Annotated[
        float | None, typer.Option(help="Smallest gain required, on the label's scale.")
    ] = None,
    by: Annotated[list[str] | None, typer.Option(help="Subgroup column(s) to report.")] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every level of the --by columns must also pass.")
    ] = False,
    undecided: Annotated[
        str, typer.Option(help="What UNDECIDED counts as: undecided (exit 2), pass or fail.")
    ] = "undecided",
    calibration: Annotated[
        Path | None, typer.Option(help="Further labelled rows to calibrate the judge on.")
    ] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="Column(s) that help to predict the label.")
    ] = None,
    anytime: Anytime = False,
    planned_labels: PlannedLabels = None,
    seed: Seed = 42,
    as_json: AsJson = False,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a summary in Markdown, for a pull request.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    report: ReportFile = None,
    *,
    reading: dict[str, Any],
) -> None:
    """May the candidate replace the baseline?

    PASS if the whole 95% interval of candidate minus baseline lies above 0 (above minus --margin,
    or above --min-gain), FAIL if it lies below, otherwise UNDECIDED. With --anytime the interval
    holds at every look: ask as often as you like while labels arrive.

    Exit code 0: PASS; 1: FAIL; 2: UNDECIDED; 3: an error.
    """
    from cje.analysis import analyze_dataset
    from cje.analysis.gate import candidate_of
    from cje.analysis.gate import gate as decide
    from cje.analysis.gate_formats import to_junit, to_markdown
    from cje.inference import GateRule

    rule = GateRule(margin, min_gain)
    if undecided not in ("undecided", "pass", "fail"):
        raise typer.BadParameter("use undecided, pass or fail", param_hint="--undecided")
    if each and not by:
        raise typer.BadParameter("needs --by COLUMN", param_hint="--each")
    result = analyze_dataset(
        given_source(data),
        **reading,
        calibration_data=calibration,
        covariates=covariate or (),
        by=by or (),
        baseline=baseline,
        text=report is not None,
        judge_card=report is not None,
        anytime=anytime,
        planned_labels=planned_labels,
        seed=seed,
    )
    result = result.with_(metadata={"margin": margin or None, "min_gain": min_gain or None})
    who = candidate_of(result, baseline, candidate)
    found = decide(result, who, baseline, rule=rule, each=each, undecided=undecided)  # type: ignore[arg-type]
    say(json.dumps(found.to_dict(), indent=1, allow_nan=False) if as_json else _words(found))
    if markdown is not None:
        write_text(markdown, to_markdown(found))
    if junit is not None:
        write_text(junit, to_junit(found))
    if report is not None:
        from cje.results.report_parts import make_report, with_decision

        page = make_report(result, title=f"Gate: {found.decision}")
        open_ = found.decision == "UNDECIDED"
        write_report(report, with_decision(page, found.sentences(), open_))
    raise typer.Exit(found.exit_code)


def _words(found: GateResult) -> str:
    lines = [*found.sentences(), *found.cautions()]
    for row in found.rows[1:]:
        if row.low is None:
            lines.append(f"  {row.group}: {row.decision} ({row.reason})")
        else:
            lines.append(
                f"  {row.group}: {row.decision} ({row.difference:+.4g}, adjusted interval "
                f"{row.low:+.4g} to {row.high:+.4g})"
            )
    if found.exit_code != 2 and found.decision == "UNDECIDED":
        lines.append(f"Undecided counts as {found.undecided} (--undecided {found.undecided}).")
    return "\n".join(safe(line) for line in lines)
