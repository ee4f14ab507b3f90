"""The `cje` command: assembles the sub-commands; each lives in a module of its own."""

from __future__ import annotations

import sys

import typer

from cje.errors import CJEError

app = typer.Typer(
    name="cje",
    help="Is the new model better, by how much, and how sure are we?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from cje import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: a CJEError is printed as one message, without a traceback, with exit code 1."""
    try:
        app()
    except CJEError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
