"""What commands write to files: reports, and text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cje.errors import CJEError
from cje.terminal import say

if TYPE_CHECKING:
    from cje.report import Report

__all__ = ["check_report_path", "write_report", "write_text"]


def check_report_path(path: Path | None) -> Path | None:
    """Return `path` if a report can be written there; checked before anything is computed.

    Raises
    ------
    CJEError
        A folder, a folder that does not exist, or a PDF where no browser can print one.
    """
    if path is not None:
        from cje.report import check_report_file

        check_report_file(path)
    return path


def write_report(path: Path, page: Report) -> None:
    """Write the page, as PDF under a name that ends in .pdf, and print its path."""
    page.save(path)
    say(f"report: {path}", err=True, lines=False)


def write_text(path: Path, text: str) -> None:
    """Write a text file.

    Raises
    ------
    CJEError
        It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CJEError("cannot write the file", where=str(path), value=error) from error
