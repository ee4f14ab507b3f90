"""A page as PDF, printed by a Chromium that is on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cje.errors import CJEError
from cje.hints import by_interface

__all__ = ["find_browser", "need_browser", "print_page"]

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
    "microsoft-edge", "msedge",
)  # fmt: skip
# The page needs no network, and these options stop the browser from using it for itself.
_OPTIONS = (
    "--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-quic", "--no-pdf-header-footer", "--disable-dev-shm-usage",
)  # fmt: skip
_SECONDS = 120
_FAILED = "the browser could not print the PDF"


def find_browser() -> str | None:
    """The first Chromium or Chrome on the path."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def need_browser() -> str:
    """The browser that prints PDFs.

    Raises
    ------
    CJEError
        No Chromium is installed.
    """
    browser = find_browser()
    if browser is None:
        raise CJEError(
            "a PDF needs Chromium or Chrome, and none is installed",
            hint="install one (on Debian and Ubuntu: apt install chromium), or write an HTML page"
            + by_interface("", " (--report report.html)")
            + " and print it from any browser",
        )
    return browser


def print_page(page: str) -> bytes:
    """The PDF of a complete HTML page.

    Raises
    ------
    CJEError
        No Chromium is installed, or it failed.
    """
    browser = need_browser()
    with tempfile.TemporaryDirectory(prefix="cje-pdf-") as folder:
        place = Path(folder)
        (place / "report.html").write_text(page, encoding="utf-8")
        made = place / "report.pdf"
        command = [browser, *_OPTIONS, f"--user-data-dir={place / 'profile'}",
                   f"--print-to-pdf={made}", (place / "report.html").as_uri()]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # its sandbox does not start as root
            command.insert(1, "--no-sandbox")
        try:
            ended = subprocess.run(
                command, capture_output=True, timeout=_SECONDS, check=False, cwd=folder
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CJEError(_FAILED, where=browser, value=error, hint=_instead()) from error
        if not made.is_file():
            said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            last = said[-1] if said else f"exit code {ended.returncode}"
            raise CJEError(_FAILED, where=browser, value=last, hint=_instead())
        return made.read_bytes()


def _instead() -> str:
    return "write an HTML page instead" + by_interface("", ": --report report.html")
