"""The table of labels to a decision is the one that the record makes."""

from __future__ import annotations

from benchmarks import results
from benchmarks.decision_page import PAGE, PICTURE, table


def test_the_page_shows_the_recorded_numbers() -> None:
    assert table(results.load()) in PAGE.read_text(encoding="utf-8")
    assert PICTURE.exists()
