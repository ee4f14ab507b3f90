"""The `cje` command: assembles the sub-commands; each lives in a module of its own."""

from __future__ import annotations

import sys
from typing import Any

import typer

from cje.cli.analyze import analyze
from cje.cli.classifier import app as classifier_app
from cje.cli.convert import convert
from cje.cli.demo import demo
from cje.cli.doctor import doctor
from cje.cli.drift import drift
from cje.cli.ending import run_to_the_end
from cje.cli.examples import epilog
from cje.cli.exit_codes import error_code
from cje.cli.findings import findings
from cje.cli.gate import gate
from cje.cli.judge import judge
from cje.cli.label import label
from cje.cli.labels import app as labels_app
from cje.cli.monitor import monitor
from cje.cli.plan import plan
from cje.cli.run import resume, run, status, validate
from cje.cli.score import score
from cje.cli.show import show
from cje.cli.survival import app as survival_app
from cje.hints import command_line_hints
from cje.terminal import say

app = typer.Typer(
    name="cje",
    help="Is the new model better, by how much, and how sure are we?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version, and those of the main dependencies."
    ),
) -> None:
    context.with_resource(command_line_hints())  # in every message of every command
    if version:
        from cje._clash import clash_message
        from cje._version import version_report

        say(version_report())
        if clash := clash_message():
            say(clash, err=True)
        raise typer.Exit


app.command()(analyze)
app.command()(convert)
app.command()(demo)
app.command()(doctor)
app.command()(judge)
app.command()(label)
app.command()(gate)
app.command()(findings)
app.command()(monitor)
app.command()(drift)
app.command()(plan)
app.command()(run)
app.command()(resume)
app.command()(score)
app.command()(show)
app.command()(status)
app.command()(validate)
for command in app.registered_commands:
    command.epilog = epilog(getattr(command.callback, "__name__", ""))
for name, group in (
    ("labels", labels_app), ("survival", survival_app), ("classifier", classifier_app),
):  # fmt: skip
    app.add_typer(group, name=name, epilog=epilog(name))
    for command in group.registered_commands:
        member = command.name or getattr(command.callback, "__name__", "")
        command.epilog = epilog(f"{name} {member}")

# Typer carries its own copy of click in newer releases and imports click in older ones: the base of
# its errors is found through one it exports.
_UsageProblem: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main() -> None:
    """Run the command; it ends with a message and a documented exit code (`cje.cli.ending`)."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    code = error_code(command)
    sys.exit(run_to_the_end(lambda: app(standalone_mode=False), _UsageProblem, typer.Abort, code))


if __name__ == "__main__":
    main()
