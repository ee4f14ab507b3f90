"""Write docs/findings.md from the registry: `python scripts/findings_page.py`."""

from __future__ import annotations

from pathlib import Path

from cje.findings import describe

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
_INTRODUCTION = """# Findings

Every statement that `cje doctor`, `cje analyze`, the pipeline and the estimators can make about the
data or a result, by its code. `cje findings` prints the same list. This page is generated from the
registry, `cje.findings`, by `scripts/findings_page.py`.

A finding with severity *refuse* means that the number must not be used for a decision, *warning*
that it stands with the stated caution, and *info* restricts nothing.

"""


def page() -> str:
    """The text of the page."""
    return _INTRODUCTION + describe(markdown=True)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
