"""`cje classifier`: calibration of a classifier from a file of its predictions."""

from __future__ import annotations

from pathlib import Path

import typer

from cje.cli.output import check_report_path, write_report
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
    confidence: str = typer.Option("confidence", help="Column of its confidence."),
    probability: str = typer.Option("probability", help="Column of the probability of 1."),
    pos_label: str | None = typer.Option(None, help="The label that counts as 1."),
    prefix: str = typer.Option("p_", help="Start of the names of one column per class."),
    groups: str | None = typer.Option(None, help="Column of clusters (prompt, patient, session)."),
    by: str | None = typer.Option(None, help="Column of subgroups to check one by one."),
    bins: int = typer.Option(15, min=1, help="Number of bins."),
    level: float = typer.Option(0.95, help="Confidence level."),
    calibrator: str = typer.Option("isotonic", help="How the recalibration map is fitted."),
    save_map: Path | None = typer.Option(None, "--map", help="Write the recalibration map (JSON)."),
    report: Path | None = typer.Option(None, help="Write a page: .html or .pdf."),
) -> None:
    """Is this classifier calibrated? Metrics with intervals, classes, subgroups, findings.

    The file has a column of labels and either one column per class named PREFIX + label, or the
    predicted label and its confidence, or the probability of the positive label.
    """
    from cje.classification.check import check_predictions

    check_report_path(report)
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
