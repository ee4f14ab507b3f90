"""The labelling page in a real browser: keyboard, a killed server, tabs, hostile texts, a phone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cje.data.label_store import read_label_store
from tests.browser.conftest import TEXTS

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.browser

PROD, CAND, SCORE = "SENTINEL-prod", "SENTINEL-cand", 0.73914


class Server:
    """`cje label` in a process of its own, to be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "cje.cli.main", "label", "data.jsonl", "--port",
                   str(self.port), "--judge-scale", "0-1", *self.options]  # fmt: skip
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(2)]
        found = re.findall(r"http://\S+", "".join(lines))
        assert len(found) == 2, lines
        self.base, self.organiser = found[0].rstrip("/"), found[1]
        self.port = int(self.base.rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def labels(self) -> Path:
        return self.folder / "labels.db"


def write_data(folder: Path, texts: list[str] | None = None, n: int = 60) -> None:
    lines = []
    for i in range(n):
        for policy in (PROD, CAND):
            text = texts[i % len(texts)] if texts else f"answer {len(lines)}"
            lines.append(json.dumps({
                "prompt_id": f"SENTINEL-id-{i}", "policy": policy, "judge_score": SCORE,
                "prompt": f"question {i}", "response": text,
            }))  # fmt: skip
    (folder / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    started = []

    def begin(*options: str, texts: list[str] | None = None) -> Server:
        write_data(tmp_path, texts)
        started.append(Server(tmp_path, *options))
        return started[-1]

    yield begin
    for server in started:
        server.kill()


def until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait without `wait_for_function`, which needs the eval that the page forbids."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


class Rater:
    """A page in a context of its own, and everything it said, asked for and received."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        page.on("console", lambda m: self.problems.append(m.text))
        page.on("pageerror", lambda e: self.problems.append(str(e)))
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("response", lambda r: self.bodies.append(r))
        page.goto(url)
        until(lambda: self.progress() != "")

    def progress(self) -> str:
        return str(self.page.inner_text("#progress"))

    def state(self) -> str:
        return self.progress() + str(self.page.inner_text("#main"))

    def busy(self) -> bool:
        return self.page.get_attribute("body", "aria-busy") is not None

    def press(self, key: str) -> None:
        """A key, and its effect on the progress line."""
        before = self.state()
        self.page.keyboard.press(key)
        until(lambda: self.state() != before and not self.busy())


@pytest.fixture
def rater(browser: Any) -> Iterator[Any]:
    contexts = []

    def begin(url: str, *, width: int = 1280, theme: str = "light", context: Any = None) -> Rater:
        if context is None:
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=theme
            )
            contexts.append(context)
        return Rater(context.new_page(), url)

    yield begin
    for context in contexts:
        context.close()


def values(server: Server) -> list[float]:
    return [row["oracle_label"] for row in read_label_store(server.labels).rows]


def test_thirty_rows_by_keyboard_with_the_server_killed_in_the_middle(
    serve: Any, rater: Any
) -> None:
    server = serve("--count", "30", "--scale", "1-5")
    alice = rater(f"{server.base}/r/alice")
    for k in range(15):
        alice.press(str(1 + k % 5))
    server.kill()
    alice.page.keyboard.press("4")  # nobody is there to take it
    until(lambda: alice.page.inner_text("#problem") != "")
    server.start()
    until(lambda: alice.progress().startswith("16 ") and not alice.busy())
    for k in range(14):
        alice.press(str(1 + k % 5))
    assert "Nothing is left" in alice.page.inner_text("#finished")
    expected = [1.0 + k % 5 for k in range(15)] + [4.0] + [1.0 + k % 5 for k in range(14)]
    assert sorted(values(server)) == sorted(expected)


def test_skip_undo_note_and_going_back_by_keyboard(serve: Any, rater: Any) -> None:
    server = serve("--count", "10", "--scale", "pass/fail")
    alice = rater(f"{server.base}/r/alice")
    alice.press("y")
    alice.press("n")
    alice.press("s")
    assert "1 of them skipped" in alice.progress()
    alice.press("u")
    assert "skipped" not in alice.progress()
    alice.page.keyboard.press(",")
    alice.page.keyboard.type("unclear n y")
    alice.page.keyboard.press("Enter")
    alice.press("y")
    alice.press("ArrowLeft")
    assert "pass" in alice.page.inner_text("#current")
    assert alice.page.input_value("#note") == "unclear n y"
    alice.press("n")
    stored = read_label_store(server.labels)
    assert sorted(row["oracle_label"] for row in stored.rows) == [0.0, 0.0, 1.0]
    assert stored.skips == []
    assert alice.problems == []


def test_two_raters_and_two_tabs_at_once_label_no_row_twice(serve: Any, rater: Any) -> None:
    server = serve("--count", "24", "--scale", "1-5")
    alice = rater(f"{server.base}/r/alice")
    second = rater(f"{server.base}/r/alice", context=alice.page.context)
    bob = rater(f"{server.base}/r/bob")
    pages = [alice, second, bob]
    shown = {p.page.inner_text("#responses") for p in pages}
    assert len(shown) == 3
    for k in range(24):
        pages[k % 3].press("3")
    rows = read_label_store(server.labels).rows
    assert len({(r["prompt_id"], r["policy"]) for r in rows}) == len(rows) == 24
    assert {r["rater"] for r in rows} == {"alice", "bob"}


def test_hostile_texts_stay_text_and_nothing_leaves_the_page(serve: Any, rater: Any) -> None:
    texts = [t.replace("\u0000", "") for t in TEXTS]
    texts += [
        f"[x](javascript:window.pwned=1) ![i](https://example.invalid/{t[:20]})" for t in texts
    ]
    server = serve("--count", "120", "--scale", "1-5", texts=texts)
    alice = rater(f"{server.base}/r/alice")
    for k in range(45):
        alice.press(str(1 + k % 5))
        if k % 9 == 0:
            alice.page.keyboard.press("m")  # as plain text, too
    page = alice.page
    assert page.evaluate("window.pwned") is None
    assert alice.problems == []
    assert all(url.startswith(server.base) for url in alice.requests)
    assert page.locator("#main a, #main img, #main iframe, #main script, #main svg").count() == 0
    assert page.locator("head script").count() == 2


def test_no_byte_the_page_received_reveals_a_policy_or_a_score(serve: Any, rater: Any) -> None:
    server = serve("--count", "20", "--scale", "1-5", "--design", "paired", "--baseline", PROD,
                   "--candidate", CAND)  # fmt: skip
    alice = rater(f"{server.base}/r/alice")
    for _ in range(20):
        alice.press("4")
    received = ""
    for response in alice.bodies:
        received += str(response.all_headers())
        if response.status == 200:
            received += response.text()
    assert len(received) > 20_000
    assert "SENTINEL" not in received
    assert str(SCORE) not in received


def test_a_phone_shows_everything_within_its_width_and_by_touch(serve: Any, browser: Any) -> None:
    server = serve("--count", "10", "--scale", "0-100", texts=["long " * 400 + "x" * 300, "سلام"])
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    alice = Rater(context.new_page(), f"{server.base}/r/alice")
    page = alice.page
    for value in ("12.5", "80"):
        before = alice.progress()
        page.fill("#number", value)
        page.tap("#choices button")
        until(lambda before=before: alice.progress() != before and not alice.busy())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = page.evaluate(
        "[...document.querySelectorAll('#choices button, .more button')]"
        ".map(b => b.getBoundingClientRect()).map(r => Math.min(r.width, r.height))"
    )
    assert min(sizes) >= 36
    context.close()
    assert sorted(values(server)) == [12.5, 80.0]


def test_side_by_side_answers_by_keyboard(serve: Any, rater: Any) -> None:
    server = serve("--count", "12", "--pairs", "--baseline", PROD, "--candidate", CAND)
    alice = rater(f"{server.base}/r/alice")
    for k in range(12):
        left = int(alice.page.locator("#responses section").first.inner_text().split()[-1])
        assert alice.page.locator("#responses section").count() == 2
        alice.press("t" if k == 0 else "x" if k == 1 else "a" if left % 2 else "b")
    pairs = read_label_store(server.labels).pairs
    assert sorted(p["winner"] for p in pairs) == ["a"] * 10 + ["both bad", "tie"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(serve: Any, rater: Any, theme: str) -> None:
    server = serve("--count", "10", "--scale", "1-5", texts=["> quote\n\n`code` **b**\n- item"])
    alice = rater(f"{server.base}/r/alice", theme=theme)
    alice.press("4")
    alice.press("ArrowLeft")
    assert lowest_contrast(alice.page) >= 4.5
    organiser = rater_of_organiser(alice.page.context, server)
    assert lowest_contrast(organiser) >= 4.5


def rater_of_organiser(context: Any, server: Server) -> Any:
    page = context.new_page()
    page.goto(server.organiser)
    page.wait_for_selector("#facts dt")
    return page


def lowest_contrast(page: Any) -> float:
    """Least ratio of text to the first opaque background behind it."""
    return float(
        page.evaluate("""() => {
      const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => rgb(c).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
      const behind = (e) => {
        for (; e; e = e.parentElement) {
          const c = getComputedStyle(e).backgroundColor, parts = rgb(c);
          if (parts.length < 4 || parts[3] === 1) return c;
        }
        return "rgb(255, 255, 255)";
      };
      let least = 99;
      for (const e of document.querySelectorAll("body *")) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.getClientRects().length) continue;
        const a = light(getComputedStyle(e).color), b = light(behind(e));
        least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
      }
      return least;
    }""")
    )


def test_every_control_has_a_name_for_a_screen_reader(serve: Any, rater: Any) -> None:
    server = serve("--count", "10", "--scale", "1-5")
    page = rater(f"{server.base}/r/alice").page
    names = page.evaluate(
        "[...document.querySelectorAll('button, input')].map(e => (e.labels && e.labels.length"
        " ? e.labels[0].textContent : e.textContent).trim())"
    )
    assert all(names)
    assert page.get_attribute("html", "lang") == "en"
    assert page.get_by_role("group", name="Answer").count() == 1
    assert page.get_by_role("status").count() == 1


def test_the_organiser_sees_progress_and_a_rater_cannot_see_that_page(
    serve: Any, rater: Any
) -> None:
    server = serve("--count", "20", "--scale", "1-5", "--baseline", PROD, "--candidate", CAND,
                   "--design", "paired")  # fmt: skip
    alice = rater(f"{server.base}/r/alice")
    for k in range(12):
        alice.press(str(1 + k % 5))
    refused = alice.page.context.request.get(f"{server.base}/organiser")
    assert refused.status == 401
    context = alice.page.context.browser.new_context()
    page = rater_of_organiser(context, server)
    assert "token" not in page.url
    assert "12 of 20" in page.inner_text("#facts")
    assert "Keep labelling" in page.inner_text("#verdict")
    assert "Look as often as you like" in page.inner_text("#why")
    context.close()


def test_ctrl_c_ends_the_server_within_seconds(serve: Any) -> None:
    server = serve("--count", "5", "--scale", "1-5")
    server.process.send_signal(signal.SIGINT)
    started = time.monotonic()
    server.process.wait(timeout=30)
    assert time.monotonic() - started < 20  # two seconds on a quiet machine
    assert os.path.exists(server.labels)
