"""Parts, charts and the page they make."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cje.errors import CJEError
from cje.inference import CalibrationCurve, Finding, Severity
from cje.report import (
    Answer,
    CurvePart,
    Facts,
    FindingsPart,
    Forest,
    ForestRow,
    HistogramPart,
    MatrixCell,
    MatrixPart,
    Report,
    SampleColumn,
    SampleTable,
    Section,
    Series,
    Table,
)
from cje.report.svg import curve_chart, forest_strip, histogram_chart
from cje.report.wording import clean, fixed, isolated, number, p_value, shorten, signed, ticks

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' \u202e\x00\ud800&amp;"


def every_part(text: str) -> tuple[object, ...]:
    """One of each part, with `text` wherever text can be."""
    curve = CalibrationCurve(
        np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.5, 0.8]), np.array([0.1, 0.4, 0.7]),
        np.array([0.3, 0.6, 0.9]), x_label=text, y_label=text, title=text,
    )  # fmt: skip
    histogram = HistogramPart(
        text, np.linspace(0, 1, 4), (Series(text, np.ones(3)), Series(text, np.arange(3.0))), text
    )
    finding = Finding("code", text, Severity.REFUSE, text, text)
    return (
        Forest(
            text,
            (ForestRow(text, 0.5, 0.4, 0.6, 0.45, text), ForestRow.refused(text, text)),
            text,
            0.5,
            (0, 1),
        ),
        MatrixPart(text, (text, "b"), {(0, 1): MatrixCell(0.1, 0.0, 0.2, 0.04, text)}, text),
        Section(text, (CurvePart(text, curve, histogram, text), histogram), text),
        Table(text, (text, text), ((text, text),), frozenset({1}), text),
        FindingsPart(text, (finding,)),
        Facts(text, ((text, text),), text),
        SampleTable(
            text,
            (SampleColumn(text, "text", says=text), SampleColumn("x", "number")),
            ((text, 1.5), (text, None)),
            ((text, 1, True),),
            text,
        ),
    )


class Reader(HTMLParser):
    """Tags, attributes and text of a page, as a browser's parser sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "input", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.stack == []
    return reader


def page_of(text: str) -> str:
    answer = Answer((text,), (text,), (text,))
    return Report(text, every_part(text), text, answer).to_html()  # type: ignore[arg-type]


def test_hostile_text_adds_no_tag_and_no_attribute() -> None:
    page_of(EVIL).encode("utf-8")
    plain, evil = read(page_of("plain")), read(page_of(EVIL))
    assert evil.tags == plain.tags
    assert [name for name, _ in evil.attributes] == [name for name, _ in plain.attributes]
    assert not [name for name, _ in evil.attributes if name.startswith("on") or name == "style"]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_the_same_structure_and_encodable_bytes(text: str) -> None:
    page = page_of(text or "x")
    page.encode("utf-8")
    assert read(page).tags == read(page_of("plain")).tags


def test_the_policy_names_the_hashes_of_what_is_in_the_page() -> None:
    page = page_of(EVIL)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    words = policy[1].replace("&#39;", "'")
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in words
    assert words.startswith("default-src 'none'; ")
    assert "unsafe" not in words
    assert "http" not in page.replace("http-equiv", "").replace(EVIL, "")


def test_the_samples_survive_the_way_into_the_page() -> None:
    page = page_of(EVIL)
    data = re.search(r'<script type="application/json" id="[^"]+">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set("<>&") & set(data[1])
    content = json.loads(data[1])
    assert content["rows"] == [[clean(EVIL), 1.5], [clean(EVIL), None]]
    assert content["orders"] == [{"label": clean(EVIL), "column": 1, "size": True}]


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    assert page_of("x") == page_of("x")
    path = tmp_path / "page.html"
    path.write_text("old")
    written = Report("x", every_part("x")).to_html(path)  # type: ignore[arg-type]
    assert path.read_text(encoding="utf-8") == written
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_page_has_the_permissions_of_any_new_file_and_keeps_those_it_had(
    tmp_path: Path, umask: int
) -> None:
    # a page can hold prompts and responses: nobody may read it whom the user did not let
    new, old = tmp_path / "new.html", tmp_path / "old.html"
    before = os.umask(umask)
    try:
        Report("x", ()).to_html(new)
        for mode in (0o600, 0o640, 0o664):
            old.write_text("old")
            old.chmod(mode)
            Report("x", ()).to_html(old)
            assert stat.S_IMODE(old.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(CJEError, match="cannot write the report"):
        Report("x", ()).to_html(tmp_path / "missing" / "page.html")


def test_a_fragment_has_no_script() -> None:
    fragment = Report(EVIL, every_part(EVIL)).to_fragment()  # type: ignore[arg-type]
    assert "script" not in read(f"<div>{fragment}</div>").tags


def shape(markup: str, name: str, kind: str) -> list[dict[str, str]]:
    tree = ElementTree.fromstring(markup)
    return [e.attrib for e in tree.iter(name) if kind in e.attrib.get("class", "").split()]


def test_a_strip_puts_values_where_the_axis_says() -> None:
    rows = (ForestRow("a", 0.5, 0.4, 0.6, 0.45), ForestRow("b", 0.2, 0.0, 1.0))
    part = Forest("t", rows)
    low, high = part.limits()
    strip = forest_strip(part, rows[0])

    def place(value: float) -> float:
        return 100 * (value - low) / (high - low)

    line = shape(strip, "line", "interval")[0]
    assert float(line["x1"][:-1]) == pytest.approx(place(0.4), abs=0.01)
    assert float(line["x2"][:-1]) == pytest.approx(place(0.6), abs=0.01)
    assert float(shape(strip, "circle", "point")[0]["cx"][:-1]) == pytest.approx(
        place(0.5), abs=0.01
    )
    assert float(shape(strip, "line", "truth")[0]["x1"][:-1]) == pytest.approx(
        place(0.45), abs=0.01
    )


def test_a_refused_row_has_a_reason_and_no_number() -> None:
    good = ForestRow("a", 0.58, 0.57, 0.59)
    refused = ForestRow.refused("b", "too few labels", truth=0.575)
    part = Forest("t", (good, refused))
    assert part.limits() == Forest("t", (good, ForestRow("b", 0.575, 0.575, 0.575))).limits()
    strip = forest_strip(part, refused)
    assert shape(strip, "line", "interval") == []
    assert "<circle" not in strip
    page = Report("t", (part,)).to_html()
    assert "too few labels" in page
    assert page.count('class="point"') == 1


def test_bars_are_shares_and_outlines_follow() -> None:
    part = HistogramPart(
        "h", np.array([0.0, 0.5, 1.0]), (Series("a", np.array([1.0, 3.0])),
                                         Series("b", np.array([5.0, 5.0]))), "x",
    )  # fmt: skip
    chart = histogram_chart(part)
    heights = [float(bar["height"]) for bar in shape(chart, "rect", "bar")]
    assert heights[1] == pytest.approx(3 * heights[0], rel=1e-3)
    assert len(shape(chart, "path", "step")) == 1
    with pytest.raises(CJEError, match="one count per bin"):
        HistogramPart("h", np.array([0.0, 1.0]), (Series("a", np.ones(2)),), "x")


@pytest.mark.parametrize("n", [0, 1, 2, 60])
def test_curves_of_any_length_draw(n: int) -> None:
    x = np.linspace(0, 1, n)
    bare = CalibrationCurve(x, x)
    assert len(shape(curve_chart(CurvePart("t", bare)), "path", "line")) == (n > 1)
    banded = CalibrationCurve(x, x, x - 0.1, x + 0.1)
    assert len(shape(curve_chart(CurvePart("t", banded)), "path", "band")) == (n > 1)
    flat = CalibrationCurve(x, np.full(n, 3.0), reference=False)
    ElementTree.fromstring(curve_chart(CurvePart("t", flat)))


def test_numbers_and_texts_are_formatted_for_reading() -> None:
    assert number(float("inf")) == "unbounded"
    assert number(-0.04123) == "\u22120.04123"
    assert signed(0.1) == "+0.100"
    assert fixed(-1e-9, 3) == "0.000"
    assert p_value(1e-9) == "p < 0.001"
    assert shorten("x" * 10**6, 30).endswith("characters)")
    assert len(shorten("x" * 10**6, 30)) < 60
    assert isolated("a\u2069b", 20) == "\u2068ab\u2069"
    "".join([shorten("\ud800", 5)]).encode()


@given(
    st.floats(-1e6, 1e6, allow_nan=False), st.floats(1e-6, 1e6, allow_nan=False), st.integers(2, 9)
)
def test_ticks_are_inside_and_few(low: float, span: float, most: int) -> None:
    values, decimals = ticks(low, low + span, most)
    assert len(values) <= most + 2
    assert all(low - 1e-6 * span <= v <= low + span * (1 + 1e-6) for v in values)
    assert 0 <= decimals <= 12


def test_many_findings_and_policies_are_cut_and_counted() -> None:
    findings = tuple(Finding("c", f"m{i}", Severity.INFO, "a") for i in range(500))
    page = Report("t", (FindingsPart("f", findings),)).to_html()
    assert page.count('class="finding info"') == 60
    assert "440 more are in the result itself" in page
