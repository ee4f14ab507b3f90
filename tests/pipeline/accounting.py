"""Does every request that the server received stand in the books, at what it was billed?"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Books", "assert_accounts", "attempts_booked", "read_books", "requests_received"]

_FREE = ("/tokenize", "/extras/tokenize")


@dataclass(frozen=True)
class Books:
    """What a store says has been asked and used."""

    attempts: int
    finished: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


def read_books(work_dir: Path) -> Books:
    """The sums over all recipes of a store, read without this package's own code."""
    store = work_dir / "store.sqlite"
    if not store.is_file():
        return Books(0, 0, 0, 0, 0.0)
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as db:
        row = db.execute(
            "SELECT coalesce(sum(attempts), 0), coalesce(sum(calls), 0),"
            " coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),"
            " coalesce(sum(cost), 0.0) FROM recipes"
        ).fetchone()
        stored = db.execute("SELECT count(*) FROM calls").fetchone()[0]
    assert stored == row[1], "the totals and the calls themselves disagree"
    return Books(*row)


def requests_received(report: Mapping[str, Any]) -> int:
    """What a server was asked that costs something."""
    free = sum(n for path, n in report["by_path"].items() if path in _FREE)
    return sum(report["calls"].values()) - free


def attempts_booked(store: Path) -> int:
    """Attempts in the books of one store."""
    return read_books(store.parent).attempts


def assert_accounts(
    report: Mapping[str, Any], work_dir: Path, *, in_flight: int = 0, exact: bool = True
) -> Books:
    """Received by the server = booked + in flight at a kill; tokens booked = tokens billed.

    Parameters
    ----------
    report : mapping
        The server's counts.
    in_flight : int
        The most requests that can have been under way when the run was killed.
    exact : bool
        False where answers were lost on their way or lied about their tokens: then the books hold
        at most the true tokens (the difference is booked as money, at the most it can be).
    """
    books = read_books(work_dir)
    received = requests_received(report)
    assert 0 <= received - books.attempts <= in_flight, (received, books)
    billed = report["billed"].get("prompt_tokens", 0), report["billed"].get("completion_tokens", 0)
    booked = books.prompt_tokens, books.completion_tokens
    if exact and not in_flight:
        assert booked == billed
    else:
        assert booked <= billed
    return books
