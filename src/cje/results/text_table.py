"""`TextTable`: a table of text cells, for any renderer."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TextTable"]


@dataclass(frozen=True)
class TextTable:
    """A title, the columns' names and the cells, all text; the first column is aligned left."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    foot: str = ""
