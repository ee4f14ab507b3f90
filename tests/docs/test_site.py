"""The site builds in strict mode without a network, and its reference has every public name."""

from __future__ import annotations

import html
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

import cje

ROOT = Path(__file__).resolve().parents[2]
# Every connection is refused: a build that wants the network fails.
_OFFLINE = """
import socket, sys
def refused(*_, **__):
    raise OSError("no network in this test")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from mkdocs.__main__ import cli
sys.exit(cli(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", _OFFLINE, "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def _public() -> dict[str, set[str]]:
    """Every public class and function, by the name where it is defined: the names offered."""
    found: dict[str, set[str]] = {}
    packages = [info.name for info in pkgutil.iter_modules(cje.__path__) if info.name[0] != "_"]
    for module in (cje, *(importlib.import_module(f"cje.{name}") for name in packages)):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            kind = inspect.isclass(value) or inspect.isfunction(value)
            if kind and value.__module__.startswith("cje"):  # not an alias of a foreign type
                offered = found.setdefault(f"{value.__module__}.{name}", set())
                offered.add(f"{module.__name__}.{name}")
    return found


def test_the_reference_has_every_public_class_and_function(site: Path) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in site.glob("api/**/*.html"))
    anchors = set(re.findall(r'id="(cje[\w.]*)"', pages))
    # The simulators are documented where they are offered: one level above their own files.
    anchors |= {a.replace("cje.data.simulate", "cje.simulate") for a in anchors}
    missing = [home for home, offered in _public().items() if not {home, *offered} & anchors]
    assert missing == []


def test_every_link_inside_the_site_is_a_file(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # served from anywhere: its links start at the root
            continue
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            target = urlsplit(html.unescape(link))
            if target.scheme or target.netloc or not target.path:
                continue
            # a folder is no page when nothing serves it
            if not (page.parent / unquote(target.path)).is_file():
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_the_navigation_names_every_page_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = re.findall(r":\s+(\S+\.md)$", text, re.MULTILINE)
    there = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages) == sorted(there)


def test_no_page_loads_anything_from_another_address(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)="(https?://[^"]+)"')
    found = {
        address
        for page in site.rglob("*.html")
        for address in loaded.findall(page.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.browser
def test_the_search_box_finds_pages_from_disk(site: Path) -> None:
    """Opened as a file, without a server: browsers start no worker there."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium: run scripts/setup_system.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_page()
        page.goto((site / "methods" / "survival.html").as_uri())
        page.fill("input.md-search__input", "competing risks")
        found = page.locator(".md-search-result__item", has_text="Competing events").first
        found.wait_for(timeout=15_000)
        assert found.locator("a").first.get_attribute("href")
        browser.close()


def test_the_page_of_commands_has_every_command_and_its_options(site: Path) -> None:
    page = html.unescape((site / "commands.html").read_text(encoding="utf-8"))
    for words in ("analyze", "labels sheet", "survival check", "classifier check"):
        assert f"Usage: cje {words}" in page
    assert "--transport-margin" in page
