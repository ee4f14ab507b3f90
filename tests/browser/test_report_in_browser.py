"""The report in a real browser, made from hostile data."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cje.report.wording import clean

pytestmark = pytest.mark.browser

MINUS = "\u2212"


def numbers(text: str) -> list[float]:
    return [float(t.replace(MINUS, "-")) for t in re.findall(rf"[+{MINUS}-]?\d+\.?\d*", text)]


def block(page: Any, title: str) -> Any:
    """The part of the page under a heading."""
    return page.locator(".block").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_no_script_of_the_data_runs_and_no_request_leaves_the_page(
    hostile: Any, open_page: Any
) -> None:
    watch = open_page(hostile.path)
    page = watch.page
    for _ in range(20):
        if not page.get_by_role("button", name="Show more").is_visible():
            break
        page.get_by_role("button", name="Show more").click()
    for summary in page.locator("details summary").all()[:10]:
        summary.click()
    page.locator("tbody tr").first.hover()
    page.locator(".pairs article").last.press("j")
    page.locator(".tip button").first.hover()
    watch.settled()
    assert page.title().startswith("<script>")
    # nothing of the data became an element
    assert page.locator("body img, body iframe, body base, body meta, .samples i").count() == 0
    assert page.locator("script").count() == 3  # the data of pairs and samples, and ours


def test_the_content_security_policy_blocks_injected_elements(hostile: Any, open_page: Any) -> None:
    watch = open_page(hostile.path)
    blocked = watch.page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener("securitypolicyviolation",
                event => seen.push(event.effectiveDirective));
            const add = (name, set) => {
                const made = document.createElement(name);
                set(made);
                document.body.appendChild(made);
            };
            add("script", e => { e.textContent = "window.pwned = 'inline'"; });
            add("script", e => { e.src = "https://example.invalid/a.js"; });
            add("img", e => { e.src = "https://example.invalid/a.png"; });
            add("iframe", e => { e.src = "https://example.invalid/"; });
            add("div", e => { e.setAttribute("onclick", "window.pwned = 'handler'"); e.click(); });
            await fetch("https://example.invalid/").catch(() => null);
            await new Promise(done => setTimeout(done, 300));
            return seen;
        }"""
    )
    assert {"script-src-elem", "script-src-attr", "img-src", "frame-src", "connect-src"} <= {
        *blocked
    }
    assert watch.page.evaluate("window.pwned") is None
    tried = [url for url in watch.requests if not url.startswith(("file:", "data:"))]
    assert all(watch.failed[url] == "csp" for url in tried)  # stopped before the network


def test_the_numbers_shown_are_the_results(hostile: Any, open_page: Any) -> None:
    page, result = open_page(hostile.path).page, hostile.result
    rows = block(page, "Estimates").locator(".forest-row:not(.forest-foot)")
    assert rows.count() == len(result.policies)
    for k, row in enumerate(result.rows()):
        shown = numbers(rows.nth(k).locator(".forest-number").inner_text())
        truth = result.metadata["truth"][row["policy"]]
        assert shown == pytest.approx([row["estimate"], row["low"], row["high"], truth], abs=6e-4)
        assert rows.nth(k).locator("bdi").get_attribute("title") == clean(row["policy"])
    cells = page.locator("table.matrix tbody tr")
    for comparison, p in result.compare_all():
        i, j = (result.policies.index(name) for name in (comparison.a, comparison.b))
        text = cells.nth(i).locator("td").nth(j).inner_text()
        shown = numbers(text)
        expected = [comparison.difference, comparison.interval.low, comparison.interval.high]
        assert shown[:3] == pytest.approx(expected, abs=6e-4)
        assert shown[3] == pytest.approx(max(p, 0.001), abs=6e-3)
        assert ("no significant difference" in text) == (p >= 0.05)


def column(page: Any, name: str) -> list[str]:
    return page.locator(f'.samples td[data-label="{name}"]').all_inner_texts()


def test_samples_sort_by_column(hostile: Any, open_page: Any) -> None:
    watch = open_page(hostile.path)
    page = watch.page
    assert page.locator("th", has_text="residual").get_attribute("aria-sort") == "descending"
    sizes = [abs(float(v)) for v in column(page, "residual")]
    assert sizes == sorted(sizes, reverse=True)
    header = page.locator("th", has_text="judge score")
    for way, backwards in (("descending", True), ("ascending", False)):
        header.get_by_role("button").press("Enter")
        assert header.get_attribute("aria-sort") == way
        values = [float(v) for v in column(page, "judge score")]
        assert len(values) == 25
        assert values == sorted(values, reverse=backwards)
    page.get_by_label("Order of the samples").select_option(label="Largest uncertainty")
    values = [float(v) for v in column(page, "uncertainty")]
    assert values == sorted(values, reverse=True)
    watch.settled()


def test_samples_are_searchable(hostile: Any, open_page: Any) -> None:
    watch = open_page(hostile.path)
    page = watch.page
    box, status = page.get_by_label("Search the samples"), page.locator(".samples .count")
    assert re.fullmatch(r"Showing 25 of \d+ rows", status.inner_text())
    box.fill("<IMG SRC=X ONERROR")
    assert "that match" in status.inner_text()
    assert page.locator(".samples tbody tr").count() > 0
    for text in page.locator(".samples tbody tr").all_text_contents():
        assert "<img src=x onerror" in text.lower()
    box.fill("no such text anywhere")
    assert page.locator(".samples tbody tr").count() == 0
    assert status.inner_text() == "Showing 0 of 0 that match"
    box.fill("")
    assert page.locator(".samples tbody tr").count() == 25
    watch.settled()


def test_the_theme_switches_by_keyboard_and_follows_the_system(
    hostile: Any, open_page: Any
) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    watch = open_page(hostile.path, theme="light")
    page = watch.page
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.keyboard.press("Tab")  # the skip link
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate(background) == "rgb(20, 23, 27)"
    page.keyboard.press("Space")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    watch.settled()
    dark = open_page(hostile.path, theme="dark").page
    assert dark.evaluate(background) == "rgb(20, 23, 27)"


CONTRAST = """() => {
    const parse = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => {
        const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]);
    };
    const behind = e => {
        for (; e; e = e.parentElement) {
            const c = parse(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0) return c;
        }
        return [255, 255, 255];
    };
    const poor = [];
    for (const e of document.querySelectorAll("body *")) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || e.closest("script, style, noscript") || !e.getClientRects().length) continue;
        const style = getComputedStyle(e);
        const ink = parse(e instanceof SVGElement ? style.fill : style.color);
        const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
        const ratio = (a + .05) / (b + .05);
        if (ratio < 4.5) poor.push(ratio.toFixed(2) + " " + e.className + " " + e.textContent);
    }
    return poor;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_text_has_contrast_and_nothing_sticks_out(
    hostile: Any, open_page: Any, theme: str, width: int
) -> None:
    watch = open_page(hostile.path, width=width, theme=theme)
    assert watch.page.evaluate(CONTRAST) == []
    assert watch.page.evaluate("document.documentElement.scrollWidth") <= width
    watch.settled()


def test_a_printed_page_has_no_controls(hostile: Any, open_page: Any) -> None:
    watch = open_page(hostile.path, theme="dark")
    watch.page.emulate_media(media="print")
    assert watch.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    for tool in ("nav", "#theme", ".samples .bar-of-tools", ".pairs .viewer"):
        assert not watch.page.locator(tool).is_visible()
    assert len(watch.page.pdf()) > 10_000
    watch.settled()


def test_the_hostile_page_stays_small(hostile: Any) -> None:
    assert hostile.path.stat().st_size < 1_500_000


def test_without_javascript_everything_but_the_samples_is_there(hostile: Any, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(hostile.path.as_uri())
    assert page.locator(".forest-row").count() > 4
    assert page.locator(".samples noscript p").is_visible()
    assert page.locator(".pairs-plain article").first.is_visible()
    context.close()


def test_pairs_move_by_keyboard_and_filter_by_text_subgroup_and_order(
    hostile: Any, open_page: Any
) -> None:
    watch = open_page(hostile.path)
    page = watch.page
    pairs = page.locator(".pairs .viewer")
    count, card = pairs.locator(".count"), pairs.locator("article")
    total = int(count.inner_text().split()[-1])
    assert count.inner_text() == f"Pair 1 of {total}"

    def difference() -> float:
        return numbers(card.locator("h4").inner_text())[0]

    card.focus()
    seen = [difference()]
    for key in ("j", "ArrowRight"):
        page.keyboard.press(key)
        seen.append(difference())
    assert seen == sorted(seen)  # the largest regression first
    assert count.inner_text() == f"Pair 3 of {total}"
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert count.inner_text() == f"Pair 1 of {total}"
    assert pairs.get_by_role("button", name="Previous").is_disabled()
    pairs.get_by_label("Order of the pairs").select_option(label="Largest gain")
    assert difference() > max(seen)
    pairs.get_by_label("Order of the pairs").select_option(label="Human labels first")
    assert card.locator(".pair-side .mark").count() == 2
    group = pairs.get_by_label("Subgroup")
    group.select_option(index=1)
    part = int(count.inner_text().split()[-1])
    assert 0 < part < total
    assert group.locator("option").nth(1).inner_text() in card.inner_text()
    pairs.get_by_label("Search the pairs").fill("no such text anywhere")
    assert count.inner_text() == "No pair"
    pairs.get_by_label("Search the pairs").fill("j")  # typing is not moving
    watch.settled()


def test_verdicts_explain_themselves_on_focus(hostile: Any, open_page: Any) -> None:
    page = open_page(hostile.path, width=390).page
    tip = block(page, "Paired differences").locator(".tip").first
    assert not tip.locator("[role=tooltip]").is_visible()
    tip.locator("button").focus()
    assert tip.locator("[role=tooltip]").is_visible()
    assert "after adjustment" in tip.locator("[role=tooltip]").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = page.locator(".scroll table.matrix").evaluate("t => t.scrollWidth")
    assert wide > 390  # the table scrolls within itself
