"""`cje demo`: an answer on shipped data, then an offline pipeline run, each with the truth."""

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
    from cje.pipeline.demo_question import Question

__all__ = ["demo"]


def demo(
    out: Path = typer.Option(Path("demo"), "--out", help="Folder for the files and the run."),
    pipeline: str = typer.Option(
        "logged",
        "--pipeline",
        help="Pipeline run after the first answer: logged (values estimated from one policy's "
        "log), direct (every policy writes its own responses), or none.",
    ),
) -> None:
    """Answer a question on shipped data, then run the pipeline, and compare both with the truth."""
    if pipeline not in ("logged", "direct", "none"):
        raise typer.BadParameter("use logged, direct or none", param_hint="--pipeline")
    from cje.pipeline.demo_question import ask, question_report

    began = time.monotonic()
    console = safe_console()
    question = ask(out)
    _answer(console, question, out)
    report, rows = out / "report.html", []
    question_report(question).to_html(report)
    if pipeline != "none":
        rows = _run(console, out, direct=pipeline == "direct")
        if pipeline == "logged":
            question_report(question, rows).to_html(report)
    _close(console, rows, out, began)


def _answer(console: Console, question: Question, out: Path) -> None:
    """Print the judge's ranking, the calibrated one, and the truth."""
    from rich.table import Table

    from cje.results.headline import headline

    data = question.result.metadata
    console.print(
        f"A support desk has {sum(data['n_rows'].values()):,} judged answers of "
        f"{len(question.truth)} prompts, {sum(data['n_labels'].values())} of them rated by people. "
        "Is a candidate better than prod?\n"
    )
    table = Table(title="Points from 1 to 5")
    for name in ("version", "mean judge score", "calibrated", "95% interval", "truth"):
        table.add_column(name, justify="left" if name == "version" else "right")
    for name, score, value, low, high, truth in question.rows():
        limits = f"{low:.2f} to {high:.2f}"
        table.add_row(safe(name), f"{score:.2f}", f"{value:.2f}", limits, f"{truth:.2f}")
    console.print(table)
    order = sorted(question.naive, key=lambda name: -question.naive[name])
    console.print(f"The judge alone says {' > '.join(map(safe, order))}: it prefers long answers.")
    for line in headline(question.result):
        console.print(safe(line), style="bold")
    console.print(f"To repeat it: cje analyze {out / 'evals.csv'} --baseline prod\n")


def _run(console: Console, out: Path, *, direct: bool) -> list[DemoRow]:
    """Run the pipeline on small language models, and compare it with the brute-force truth."""
    from cje.pipeline.demo import run_demo
    from cje.pipeline.progress import make_reporter

    words = "no responses" if direct else "only a log of another policy's responses"
    console.print(f"The same with {words}: seven stages on small language models.")
    result, rows = run_demo(out, make_reporter(), direct=direct)
    if direct:
        console.print(f"\n{result.n_rows} responses, written by {len(rows)} policies.\n")
        console.print(safe(result.first.summary(), lines=True))
        console.print()
        console.print(_estimates(rows, "the policies' own responses"))
        return rows
    console.print(
        f"\n{result.n_rows} logged responses, scored by a biased, noisy judge; "
        f"{result.first.metadata['n_labels']['near']} of them have an oracle label.\n"
    )
    console.print(_weights(result.weights))
    console.print(_estimates(rows, "the log"))
    for row in rows:
        if row.refused is not None:
            console.print(safe(f"No value is reported for '{row.policy}': {row.refused}."))
    return rows


def _close(console: Console, rows: list[DemoRow], out: Path, began: float) -> None:
    from cje.pipeline.demo import RUN_REPORT

    claimed = [row for row in rows if row.refused is None]
    if claimed:
        covered = sum(row.covered for row in claimed)
        console.print(
            f"{covered} of {len(claimed)} claimed intervals contain the truth (nominal 95%)."
        )
        console.print(
            f"Configuration, store and results of the run are in {out}; its report is "
            f"{out / RUN_REPORT}, and `cje status {out / 'config.yaml'}` describes it."
        )
    console.print(
        f"Open {out / 'report.html'} in a browser: the report needs no network. "
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
        name = f"{safe(row.policy)} (wrote the log)" if row.logging else safe(row.policy)
        if row.refused is not None:
            table.add_row(name, "refused", "", f"{row.truth:.4f}", "refused by the gate")
        else:
            interval = f"{row.low:.4f} to {row.high:.4f}"
            table.add_row(name, f"{row.estimate:.4f}", interval, f"{row.truth:.4f}", verdict)
    return table
