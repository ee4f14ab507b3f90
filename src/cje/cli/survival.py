"""`cje survival`: the survival calibration experiment."""

from __future__ import annotations

from pathlib import Path

import typer

from cje.terminal import console, say

app = typer.Typer(help="Calibration of survival models.", no_args_is_help=True)


@app.command()
def example() -> None:
    """Print a configuration file to start from."""
    from cje.survival.experiment.config import EXAMPLE

    say(EXAMPLE, end="")


@app.command()
def run(
    config: Path = typer.Argument(..., help="YAML file; print one with: cje survival example"),
    out: Path | None = typer.Option(None, help="Write here instead of the file's `out`."),
    processes: int | None = typer.Option(None, min=1, help="Processes; overrides the file."),
) -> None:
    """Simulate, fit, evaluate and write CSV tables and figures; finished runs are not repeated."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from cje.survival.experiment import load_config, run_experiment

    settings = load_config(config)
    changes = {"out": out, "processes": processes}
    settings = settings.model_copy(update={k: v for k, v in changes.items() if v is not None})
    columns = ("runs", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task("runs", total=None)
        paths = run_experiment(
            settings, on_progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    for path in paths.values():
        say(path, lines=False)
