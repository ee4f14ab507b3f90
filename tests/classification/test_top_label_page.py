"""The page on top-label calibration runs, prints what it says and draws its own figure."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "top_label.md"


def test_the_pages_examples_print_what_it_shows_and_draw_its_figure(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == text.count("```python") == 2
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, expected in examples:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(PAGE), "exec"), names)
        assert out.getvalue().strip() == expected.strip()
    assert (tmp_path / "top_label.png").stat().st_size > 10_000
    assert (PAGE.parent / "img" / "top_label.png").exists()
