"""The table of labels to a decision is the one that the record makes."""

from __future__ import annotations

from benchmarks import results
from benchmarks.decision_page import PAGE, PICTURE, table


def test_the_page_shows_the_recorded_numbers() -> None:
    assert table(results.load()) in PAGE.read_text(encoding="utf-8")
    assert PICTURE.exists()


def test_the_readme_and_the_page_name_numbers_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    worlds: dict[str, dict[str, str]] = {}
    name = ""
    for row in table(results.load()).splitlines()[2:]:
        world, method, ship = (cell.strip() for cell in row.split("|")[1:4])
        name = world or name
        worlds.setdefault(name, {})[method] = ship.split()[0]
    arena, good = worlds["Arena sample"], worlds["good judge"]
    readme = " ".join((PAGE.parents[2] / "README.md").read_text(encoding="utf-8").split())
    for text in (readme, " ".join(page.split())):
        for found in (arena, good):
            assert f"{found['ours']} instead of {found['labels only']}" in text
