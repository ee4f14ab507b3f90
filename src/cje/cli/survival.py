"""`cje survival`: check a model's predictions, and the survival calibration experiment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cje.cli.exit_codes import ANSWERED, REFUSED
from cje.cli.options import AsJson, Level, ReportFile
from cje.cli.output import write_report
from cje.errors import CJEError
from cje.terminal import console, say

if TYPE_CHECKING:
    import polars as pl

app = typer.Typer(help="Calibration of survival models.", no_args_is_help=True)


@app.command()
def check(
    predictions: Annotated[Path, typer.Argument(help="CSV or Parquet file, one row per subject.")],
    time: Annotated[str, typer.Option(help="Column of the time of event or censoring.")],
    event: Annotated[
        str, typer.Option(help="Column of the event: 0 censored, 1 event (or codes, with --cause).")
    ],
    horizons: Annotated[str, typer.Option(help="Horizons, separated by commas: 1,3,5.")],
    risk: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of predicted risk, {t} for the horizon: 'risk_{t}' (the default). Name "
            "two patterns to compare two models."
        ),
    ] = None,
    survival: Annotated[
        list[str] | None,
        typer.Option(help="Columns of predicted survival instead of risk: 'survival_{t}'."),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Column of the linear predictor, for the slope and C.")
    ] = None,
    own: Annotated[
        str | None,
        typer.Option(help="Column of predicted survival at each subject's own time, for O/E."),
    ] = None,
    own_at_entry: Annotated[
        str | None,
        typer.Option(help="Column of predicted survival at entry, for O/E with --entry."),
    ] = None,
    cause: Annotated[
        int | None, typer.Option(help="Code of the event of interest; others compete with it.")
    ] = None,
    entry: Annotated[str | None, typer.Option(help="Column of the time of (late) entry.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column that names each row's cluster.")
    ] = None,
    level: Level = 0.95,
    as_json: AsJson = False,
    report: ReportFile = None,
) -> None:
    """Calibration, discrimination, Brier score and net benefit of predictions in a file.

    Exit code 0: no finding; 2: a finding to read; 1: it could not run.
    """
    import json

    from cje.survival import compare_survival, survival_report

    frame = _read(predictions)
    grid = _horizons(horizons)
    models = _models(frame, grid, risk or [], survival or [])
    y = (_column(frame, time), _column(frame, event))
    options: dict[str, Any] = {
        "cause": cause,
        "entry": None if entry is None else _column(frame, entry),
        "sample_weight": None if weight is None else _column(frame, weight),
        "groups": None if groups is None else _column(frame, groups),
        "level": level,
    }
    names = list(models)
    result: Any
    if len(names) == 1:
        result = survival_report(
            models[names[0]],
            y,
            grid,
            risk_scores=None if score is None else _column(frame, score),
            survival_at_own_time=None if own is None else _column(frame, own),
            survival_at_entry=None if own_at_entry is None else _column(frame, own_at_entry),
            **options,
        )
        findings = result.findings
    else:
        if score is not None or own is not None or own_at_entry is not None:
            raise CJEError(
                "--score, --own and --own-at-entry belong to one model, but two are compared",
                hint="leave them out, or check one model at a time",
            )
        result = compare_survival(
            models[names[0]], models[names[1]], y, grid, names=(names[0], names[1]), **options
        )
        findings = (*result.first.findings, *result.second.findings)
    say(json.dumps(result.to_dict(), allow_nan=False) if as_json else str(result))
    if report is not None:
        write_report(report, result.report())
    raise typer.Exit(REFUSED if any(f.severity == "refuse" for f in findings) else ANSWERED)


def _read(path: Path) -> pl.DataFrame:
    import polars as pl

    if not path.is_file():
        raise CJEError("there is no such file", where=str(path))
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema_length=None, encoding="utf8")
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise CJEError(f"the file cannot be read as a table: {error}", where=str(path),
                       hint="CSV with a header line, or Parquet") from error  # fmt: skip


def _column(frame: pl.DataFrame, name: str) -> Any:
    if name not in frame.columns:
        raise CJEError("there is no such column", value=name,
                       hint=f"available columns: {', '.join(frame.columns)}")  # fmt: skip
    return frame[name].to_numpy()


def _horizons(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise CJEError("--horizons must be numbers separated by commas", value=text,
                       hint="such as --horizons 1,3,5") from error  # fmt: skip


def _models(
    frame: pl.DataFrame, grid: list[float], risk: list[str], survival: list[str]
) -> dict[str, dict[float, Any]]:
    """Predicted survival by pattern and horizon."""
    if not risk and not survival:
        usual = [p for p in ("risk_{t}", "survival_{t}") if _named(p, grid[0]) in frame.columns]
        if len(usual) != 1:
            raise CJEError(
                "the columns of predictions are not recognised",
                where=f"horizon {grid[0]:g}",
                value=frame.columns,
                hint="name them risk_1, risk_3, ... (or survival_1, ...), or give the pattern: "
                "--risk 'p_{t}' or --survival 's_{t}'",
            )
        risk, survival = (usual, []) if usual[0].startswith("risk") else ([], usual)
    if len(risk) + len(survival) > 2:
        raise CJEError("at most two models can be compared", value=[*risk, *survival])
    out = {}
    for pattern in (*risk, *survival):
        if "{t}" not in pattern and len(grid) > 1:
            raise CJEError("a pattern needs {t} in place of the horizon", value=pattern,
                           hint="such as 'risk_{t}'")  # fmt: skip
        out[pattern] = {
            t: _numbers(frame, _named(pattern, t), one_minus=pattern in risk) for t in grid
        }
    return out


def _named(pattern: str, t: float) -> str:
    return pattern.replace("{t}", f"{t:g}")


def _numbers(frame: pl.DataFrame, name: str, *, one_minus: bool) -> Any:
    from cje.checks import finite_array

    values = finite_array(name, _column(frame, name))
    return 1.0 - values if one_minus else values


@app.command()
def example() -> None:
    """Print a configuration file to start from."""
    from cje.survival.experiment.config import EXAMPLE

    say(EXAMPLE, end="")


@app.command()
def run(
    config: Path = typer.Argument(..., help="YAML file; print one with: cje survival example"),
    out: Path | None = typer.Option(None, help="Folder to write to; overrides the file's `out`."),
    processes: int | None = typer.Option(None, min=1, help="Processes; overrides the file."),
) -> None:
    """Simulate, fit, evaluate and write CSV tables and figures; finished runs are not repeated.

    Exit code 0: every run is done; 2: some runs failed (failures.csv says why) and are missing from
    the tables and figures; 1: it could not run.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from cje.survival.experiment import load_config, run_experiment

    settings = load_config(config)
    changes = {"out": out, "processes": processes}
    settings = settings.model_copy(update={k: v for k, v in changes.items() if v is not None})
    columns = ("runs", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr)) as bar:
        task = bar.add_task("runs", total=None)
        paths = run_experiment(
            settings, on_progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    for path in paths.values():
        say(str(path))
    if "failures" in paths:
        say(
            f"some runs failed: see {paths['failures']}; run the same command again to retry them",
            err=True,
        )
        raise typer.Exit(2)
