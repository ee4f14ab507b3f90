"""`cje plan`: how many labels, prompts and judge calls for a width or a detectable difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cje.cli.options import AsJson, Level, ReportFile
from cje.cli.output import write_report
from cje.cli.reading import reads
from cje.errors import CJEError
from cje.terminal import say

if TYPE_CHECKING:
    from cje.analysis.label_plan import Goal, JudgeQuality, UnitCosts
    from cje.report import Report

__all__ = ["plan"]


@reads("labels", "on", "repeats", "skip_bad_rows")
def plan(
    pilot: Annotated[
        Path | None, typer.Argument(help="A pilot evaluation with labels on a slice.")
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Full width of each value's interval, on the label's scale."),
    ] = None,
    difference_width: Annotated[
        float | None, typer.Option(help="Full width of a paired difference's interval.")
    ] = None,
    detect: Annotated[
        float | None, typer.Option(help="A difference to detect with probability --power.")
    ] = None,
    transport: Annotated[
        float | None,
        typer.Option(
            help="A transport margin: plan the labels that a probe of a new policy needs."
        ),
    ] = None,
    calibration_labels: Annotated[
        int | None, typer.Option(help="Labels of the calibration (--transport, no pilot).")
    ] = None,
    power: Annotated[float, typer.Option(help="Power for --detect and --transport.")] = 0.8,
    level: Level = 0.95,
    sd: Annotated[
        float | None, typer.Option(help="Assumed standard deviation of the labels (no pilot).")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Assumed share of ones among 0/1 labels, in place of --sd.")
    ] = None,
    r2: Annotated[
        float | None,
        typer.Option(help="Assumed share of the labels' variance the judge explains (no pilot)."),
    ] = None,
    correlation: Annotated[
        float, typer.Option(help="Assumed correlation of policies on one prompt (no pilot).")
    ] = 0.0,
    label_cost: Annotated[float, typer.Option(help="Cost of one label.")] = 1.0,
    response_cost: Annotated[
        float, typer.Option(help="Cost of one response, generated and judged.")
    ] = 0.01,
    policies: Annotated[int | None, typer.Option(help="Number of policies.")] = None,
    max_prompts: Annotated[
        int | None, typer.Option(help="Largest number of prompts available.")
    ] = None,
    as_json: AsJson = False,
    report: ReportFile = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Plan a study: the cheapest number of prompts and labels that meets a goal."""
    from cje.analysis.label_plan import UnitCosts
    from cje.analysis.transport_plan import plan_probe

    if transport is not None:
        if (width, difference_width, detect) != (None, None, None) or report is not None:
            raise CJEError("--transport cannot be combined with another goal or with --report",
                           hint="cje plan pilot.csv --transport 0.1")  # fmt: skip
        quality, behind = _judge_of(pilot, (sd, rate, r2), calibration_labels, reading)
        probe = plan_probe(
            quality, transport, calibration_labels=behind, n_policies=policies or 1, level=level,
            power=power,
        )  # fmt: skip
        say(json.dumps(probe.to_dict(), indent=2) if as_json else probe.words())
        return
    goal = _goal(width, difference_width, detect, level, power)
    costs = UnitCosts(label_cost, response_cost)
    if pilot is not None:
        found, text, page = _from_pilot(pilot, goal, costs, policies, max_prompts, reading)
    else:
        found, text, page = _from_assumptions(
            goal, costs, _assumed(sd, rate, r2, correlation), policies, max_prompts
        )
    say(json.dumps(found, indent=2) if as_json else text)
    if report is not None:
        write_report(report, page)


def _goal(
    width: float | None,
    difference_width: float | None,
    detect: float | None,
    level: float,
    power: float,
) -> Goal:
    from cje.analysis.label_plan import Goal

    given = [x for x in (width, difference_width, detect) if x is not None]
    if len(given) != 1:
        raise CJEError(
            "give one goal",
            value=len(given),
            hint="--width 0.05, or --difference-width 0.05, or --detect 0.03 --power 0.8, or "
            "--transport 0.1",
        )
    if width is not None:
        return Goal("value", width, level)
    if difference_width is not None:
        return Goal("difference", difference_width, level)
    return Goal("power", given[0], level, power)


def _assumed(
    sd: float | None, rate: float | None, r2: float | None, correlation: float
) -> JudgeQuality:
    from cje.analysis.label_plan import JudgeQuality

    if r2 is None or (sd is None) == (rate is None):
        raise CJEError(
            "without a pilot file the judge's quality must be assumed",
            hint="cje plan --sd 0.25 --r2 0.5 --width 0.05, with --rate 0.1 in place of --sd for "
            "labels of 0 and 1, or cje plan pilot.csv --width 0.05",
        )
    if rate is not None:
        return JudgeQuality.of_rate(rate, r2, reward_correlation=correlation)
    assert sd is not None
    return JudgeQuality(sd, r2, correlation)


def _judge_of(
    pilot: Path | None,
    assumed: tuple[float | None, float | None, float | None],
    behind: int | None,
    reading: dict[str, Any],
) -> tuple[JudgeQuality, int]:
    """Judge quality and the number of calibration labels: from a pilot, or assumed."""
    from cje.analysis.pilot import measure_pilot
    from cje.data import read

    if pilot is not None:
        found = measure_pilot(read(pilot, **reading), n_draws=0)
        return found.quality, found.n_labels if behind is None else behind
    if behind is None:
        raise CJEError(
            "without a pilot file the judge's quality must be assumed",
            hint="cje plan --sd 0.25 --r2 0.5 --calibration-labels 200 --transport 0.1, or "
            "cje plan pilot.csv --transport 0.1",
        )
    return _assumed(*assumed, correlation=0.0), behind


def _from_assumptions(
    goal: Goal,
    costs: UnitCosts,
    quality: JudgeQuality,
    policies: int | None,
    max_prompts: int | None,
) -> tuple[dict[str, Any], str, Report]:
    from cje.analysis.label_plan import plan_study
    from cje.analysis.label_plan_report import plan_report

    count = policies or (1 if goal.kind == "value" else 2)
    design = plan_study(quality, goal, costs, n_policies=count, max_prompts=max_prompts)
    found = design.to_dict()
    return found, _words(found), plan_report(design, goal, quality)


def _from_pilot(
    path: Path,
    goal: Goal,
    costs: UnitCosts,
    policies: int | None,
    max_prompts: int | None,
    reading: dict[str, Any],
) -> tuple[dict[str, Any], str, Report]:
    from cje.analysis.label_plan_report import plan_report
    from cje.analysis.pilot import plan_from_pilot
    from cje.data import read

    planned = plan_from_pilot(
        read(path, **reading), goal, costs, n_policies=policies, max_prompts=max_prompts
    )
    found = planned.to_dict()
    quality = found["quality"]
    text = (
        f"pilot: {found['pilot_labels']} labels, sd {quality['sd']:.3g}, "
        f"the judge explains {quality['r2']:.0%} of the variance\n\n"
        + _words(found["design"])
        + "\n\n80% planning range: "
        f"{found['labels_range'][0]:,} to {found['labels_range'][1]:,} labels, "
        f"{found['prompts_range'][0]:,} to {found['prompts_range'][1]:,} prompts per policy\n"
        f"cautious design: {found['cautious']['n_labels']:,} labels and "
        f"{found['cautious']['n_prompts']:,} prompts per policy"
    )
    if goal.kind != "value" and quality["residual_correlation"] > 0:
        text += "\nthe plan assumes that the same prompts are labelled for every policy"
    return found, text, plan_report(planned.design, goal, planned.pilot.quality, planned)


def _each(count: int) -> str:
    return "for the policy" if count == 1 else f"for each of {count} policies"


def _words(design: dict[str, Any]) -> str:
    lines = [
        f"{_each(design['n_policies'])}: {design['n_prompts']:,} prompts, "
        f"{design['n_labels']:,} of them labelled",
        f"in all: {design['judge_calls']:,} judge calls, {design['total_labels']:,} labels, "
        f"cost {design['cost']:,.2f}",
        f"expected interval width {design['width']:.4g}",
    ]
    if design["power"] is not None:
        lines.append(f"power {design['power']:.1%}")
    return "\n".join(lines)
