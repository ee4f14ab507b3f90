"""`--help`: every command ends with examples, and every example is a valid command line."""

from __future__ import annotations

import shlex

import pytest
import typer.main

from cje.cli.examples import EXAMPLES
from cje.cli.main import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_every_command_has_examples() -> None:
    groups = {"labels", "survival", "classifier"}
    assert set(EXAMPLES) == set(COMMANDS) - groups


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_valid_command_line(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    context = COMMANDS[name].make_context(name, arguments)
    assert line in COMMANDS[name].get_help(context)
