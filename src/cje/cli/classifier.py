"""`cje classifier`: calibration of a classifier from a file of its predictions."""

from __future__ import annotations

from pathlib import Path

import typer

from cje.cli.options import Level, ReportFile
from cje.cli.output import write_report
from cje.terminal import say

app = typer.Typer(help="Calibration of classifiers.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Calibration of classifiers."""


@app.command()
def check(
    predictions: Path = typer.Argument(..., help="CSV, JSONL or Parquet: one row per prediction."),
    label: str = typer.Option("label", help="Column of the true label."),
    predicted: str = typer.Option("predicted", help="Column of the predicted label."),
    confidence: str = typer.Option("confidence", help="Column of the confidence in that label."),
    probability: str = typer.Option(
        "probability", help="Column of the probability of the positive label."
    ),
    pos_label: str | None = typer.Option(None, help="The positive label, which counts as 1."),
    prefix: str = typer.Option("p_", help="Prefix of the probability columns, one per class."),
    groups: str | None = typer.Option(None, help="Column of clusters (prompt, patient, session)."),
    by: str | None = typer.Option(None, help="Column of subgroups, each checked separately."),
    bins: int = typer.Option(15, min=1, help="Number of bins."),
    level: Level = 0.95,
    calibrator: str = typer.Option("isotonic", help="Method that fits the recalibration map."),
    save_map: Path | None = typer.Option(None, "--map", help="Write the recalibration map (JSON)."),
    report: ReportFile = None,
) -> None:
    """Is this classifier calibrated? Metrics with intervals, classes, subgroups, findings.

    The file has a column of labels and one of: a probability column per class, named PREFIX +
    label; the predicted label and its confidence; the probability of the positive label.
    """
    from cje.classification.check import check_predictions

    found = check_predictions(
        predictions, label=label, predicted=predicted, confidence=confidence,
        probability=probability, pos_label=pos_label, prefix=prefix, groups=groups, by=by,
        n_bins=bins, level=level, calibrator=calibrator,
    )  # fmt: skip
    say(found.text())
    if save_map is not None:
        found.map.save(save_map)
        say(f"Recalibration map: {save_map}")
    if report is not None:
        write_report(report, found.report())
