"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cje.terminal import console, safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cje.results.text import TextTable

__all__ = ["print_tables", "wide_console"]

_WIDTH = 140


def wide_console() -> Any:
    """The terminal, or a pipe or file taken as 140 characters wide or more."""
    found = console()
    return found if found.is_terminal else console(width=max(found.width, _WIDTH))


def print_tables(shown: Any, tables: Sequence[TextTable]) -> None:
    """Print each table with its title above and its foot below."""
    for table in tables:
        shown.print()
        shown.print(safe(table.title), style="bold")
        shown.print(_drawn(table))
        if table.foot:
            shown.print(safe(table.foot, lines=True))


def _drawn(text: TextTable) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(text.columns):
        table.add_column(safe(name), justify="left" if index == 0 else "right", no_wrap=index > 0)
    for row in text.rows:
        table.add_row(*(Text(safe(cell)) for cell in row))  # Text: names are data, never markup
    return table
