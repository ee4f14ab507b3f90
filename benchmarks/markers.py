"""Parts of pages that a record writes, between ``<!-- NAME: begin -->`` and its end."""

from __future__ import annotations

__all__ = ["replace_between", "text_between"]


def replace_between(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of `name`."""
    return page.replace(text_between(page, name), f"\n{text}\n")


def text_between(page: str, name: str) -> str:
    """What stands between the markers of `name`, with its line ends."""
    return page.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
