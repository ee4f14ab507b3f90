"""`cje demo`: the whole pipeline offline, with the truth beside the estimates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cje.terminal import console as safe_console
from cje.terminal import safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from cje.pipeline.demo import DemoRow

__all__ = ["demo"]


def demo(
    out: Path = typer.Option(Path("demo"), "--out", help="Folder for the run and its files."),
    pipeline: str = typer.Option(
        "logged",
        "--pipeline",
        help="logged: value policies from one policy's log; "
        "direct: every policy writes its own responses.",
    ),
) -> None:
    """Run the pipeline offline and compare the estimates with the known truth."""
    if pipeline not in ("logged", "direct"):
        raise typer.BadParameter("use logged or direct", param_hint="--pipeline")
    from cje.pipeline.demo import run_demo
    from cje.pipeline.progress import make_reporter

    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    direct = pipeline == "direct"
    result, rows = run_demo(out, make_reporter(), direct=direct)
    console = safe_console()
    if direct:
        console.print(f"\n{result.n_rows} responses, written by {len(rows)} policies.\n")
        console.print(safe(result.first.summary(), lines=True))
        console.print()
        console.print(_estimates(rows, "the policies' own responses"))
        _close(console, rows, out, began)
        return
    console.print(
        f"\n{result.n_rows} logged responses, scored by a biased, noisy judge; "
        f"{result.first.metadata['n_labels']['near']} of them have an oracle label.\n"
    )
    console.print(_weights(result.weights))
    console.print(_estimates(rows, "the log"))
    for row in rows:
        if row.refused is not None:
            console.print(safe(f"'{row.policy}' is refused, not guessed: {row.refused}."))
    _close(console, rows, out, began)


def _close(console: Console, rows: list[DemoRow], out: Path, began: float) -> None:
    claimed = [row for row in rows if row.refused is None]
    covered = sum(row.covered for row in claimed)
    console.print(
        f"{covered} of {len(claimed)} claimed intervals contain the truth (nominal 95%).\n"
        f"Open {out / 'report.html'} in a browser: the report needs no network.\n"
        f"Configuration, store, chunks and results are in {out}; "
        f"`cje status {out / 'config.yaml'}` describes the run. "
        f"{time.monotonic() - began:.1f} s in all."
    )


def _weights(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(title="Importance weights of the logged responses")
    for name in ("target policy", "mean", "largest", "effective sample size"):
        table.add_column(name, justify="left" if name == "target policy" else "right")
    for row in rows:
        table.add_row(
            safe(row["policy"]),
            f"{row['mean']:.3f}",
            f"{row['max']:.2f}",
            f"{row['ess_share'] * row['n']:.0f} of {row['n']} ({100 * row['ess_share']:.1f}%)",
        )
    return table


def _estimates(rows: list[DemoRow], source: str) -> Table:
    from rich.table import Table

    table = Table(title=f"Policy values: estimated from {source}, and the truth by brute force")
    for name in ("policy", "estimate", "95% interval", "truth", "verdict"):
        table.add_column(name, justify="left" if name in ("policy", "verdict") else "right")
    for row in rows:
        verdict = "contains the truth" if row.covered else "misses the truth"
        if row.refused is not None:
            table.add_row(safe(row.policy), "-", "-", f"{row.truth:.4f}", "refused by the gate")
        else:
            interval = f"{row.low:.4f} to {row.high:.4f}"
            table.add_row(
                safe(row.policy), f"{row.estimate:.4f}", interval, f"{row.truth:.4f}", verdict
            )
    return table
