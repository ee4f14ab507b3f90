"""Pictures of the demo's answer for the README and the site: run `make demo` first.

python scripts/answer_pictures.py    (needs Chromium: scripts/setup_system.sh)
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "demo" / "report.html"
# name, width, colour scheme, the element in front of which the picture ends
PICTURES = (
    ("demo", 1000, "light", "h2:has-text('Where they differ')"),
    ("demo-dark", 1000, "dark", "h2:has-text('Where they differ')"),
    ("demo-phone", 400, "light", "h2:has-text('What you cannot say')"),
    ("demo-phone-dark", 400, "dark", "h2:has-text('What you cannot say')"),
)


def picture(browser: Any, name: str, width: int, scheme: str, before: str) -> None:
    """One screenshot of the report's top, without its button."""
    context = browser.new_context(
        viewport={"width": width, "height": 1600},
        color_scheme=scheme,
        device_scale_factor=1.5,
        bypass_csp=True,
    )
    page = context.new_page()
    page.goto(REPORT.as_uri())
    page.add_style_tag(content="header button { visibility: hidden } nav { display: none }")
    end = page.locator(before).first.bounding_box()
    assert end is not None
    size = {"x": 0, "y": 0, "width": width, "height": end["y"] - 26}
    page.screenshot(path=str(ROOT / "docs" / "img" / f"{name}.png"), clip=size)
    context.close()


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, width, scheme, before in PICTURES:
            picture(browser, name, width, scheme, before)
        browser.close()


if __name__ == "__main__":
    main()
