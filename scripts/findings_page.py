"""Write docs/findings.md from the registry: `python scripts/findings_page.py`."""

from __future__ import annotations

from pathlib import Path

from cje.findings import describe

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
_INTRODUCTION = """# Findings

Every statement that `cje doctor`, `cje analyze`, the pipeline and the estimators can make about the
data or a result, by its code. `cje findings` prints the same list. This page is generated from the
registry, `cje.findings`, by `scripts/findings_page.py`.

| severity | meaning |
|---|---|
| *refuse* | do not use the number for a decision |
| *warning* | the number stands, with the stated caution |
| *info* | nothing is restricted |

The quoted sentences are those of the output; values of your data replace the words in braces.

"""


def page() -> str:
    """The text of the page."""
    return _INTRODUCTION + describe(markdown=True)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
