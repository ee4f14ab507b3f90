"""The style of a response in numbers: its length and its markdown, as differences of two."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cje.kernels.arrays import FloatArray

__all__ = ["STYLES", "relative_difference", "style_of", "text_of"]

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_HEADER = re.compile(r"^ {0,3}#{1,6}\s", re.MULTILINE)
_LIST = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")


def _count(*patterns: re.Pattern[str]) -> Callable[[str], int]:
    def counted(text: str) -> int:
        plain = _CODE.sub("", text)
        return sum(len(pattern.findall(plain)) for pattern in patterns)

    return counted


STYLES: Mapping[str, Callable[[str], int]] = {
    "length": len,
    "markdown": _count(_HEADER, _LIST, _BOLD),
    "headers": _count(_HEADER),
    "lists": _count(_LIST),
    "bold": _count(_BOLD),
}
"""What can be counted in a text: characters, and markdown outside code blocks."""


def style_of(name: str, first: Sequence[Any], second: Sequence[Any]) -> FloatArray:
    """Relative difference of a count in two columns of responses.

    Examples
    --------
    >>> style_of("length", ["abc", ""], ["a", ""]).tolist()
    [0.5, 0.0]
    """
    count = STYLES[name]
    a, b = (np.array([count(text_of(cell)) for cell in side], float) for side in (first, second))
    return relative_difference(a, b)


def relative_difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """``(a - b) / (a + b)`` for counts, 0 where both are 0."""
    total = a + b
    return np.divide(a - b, total, out=np.zeros(len(a)), where=total > 0)


def text_of(cell: Any) -> str:
    """A response as text: itself, or what the assistant says in a list of messages."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Mapping):
        return text_of(cell.get("content") if "content" in cell else cell.get("text"))
    if isinstance(cell, Sequence):
        said = [part for part in cell if not isinstance(part, Mapping) or "role" not in part
                or str(part["role"]).lower() in ("assistant", "model", "ai")]  # fmt: skip
        return "\n".join(text_of(part) for part in said)
    return str(cell)
