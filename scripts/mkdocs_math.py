"""MkDocs hook: formulas become MathML at build time, so that pages need no script to show them.

`pymdownx.arithmatex` marks formulas; browsers draw MathML by themselves, offline.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace every marked formula of a page."""
    content = _BLOCK.sub(lambda m: convert(html.unescape(m[1]), display="block"), content)
    return _INLINE.sub(lambda m: convert(html.unescape(m[1])), content)
