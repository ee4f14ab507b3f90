"""Numbers and foreign text as a report shows them."""

from __future__ import annotations

import math
import re

import numpy as np

__all__ = [
    "clean",
    "fixed",
    "interval",
    "isolated",
    "number",
    "p_value",
    "percent",
    "shorten",
    "signed",
    "ticks",
]

_MINUS = "\u2212"
# Control characters (but tab and newline), lone surrogates and the byte order mark have no
# picture, and some break a parser; direction overrides make a text read as another. All are shown
# as the replacement character. Letters of right-to-left scripts order themselves.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066\u2067"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_ISOLATE = "\u2068{}\u2069"  # first strong isolate, pop


def clean(text: str) -> str:
    """Text without unprintable characters; always encodable as UTF-8.

    Examples
    --------
    >>> clean("a\\x00b")
    'a\ufffdb'
    """
    return _UNSHOWABLE.sub("\ufffd", text)


def shorten(text: str, limit: int) -> str:
    """Cleaned text of about `limit` characters, with the number of characters cut if many are.

    Examples
    --------
    >>> shorten("a" * 50, 20), shorten("a" * 5000, 20)
    ('aaaaaaaaaaaaaaaaaaa…', 'aaaaaaaaaaaaaaaaaaa… (+4981 characters)')
    """
    if len(text) <= limit:
        return clean(text)
    kept, left = clean(text[: limit - 1]), len(text) - limit + 1
    return f"{kept}\u2026" if left < 1000 else f"{kept}\u2026 (+{left} characters)"


def isolated(text: str, limit: int) -> str:
    """A name for a sentence: its writing direction cannot reorder the words around it."""
    bare = text.replace("\u2068", "").replace("\u2069", "")
    return _ISOLATE.format(shorten(bare, limit))


def number(value: float, digits: int = 4) -> str:
    """At most `digits` significant digits, without an exponent if possible.

    Examples
    --------
    >>> number(0.123456), number(12345.6), number(-0.0)
    ('0.1235', '12346', '0')
    """
    if not math.isfinite(value):
        return "unbounded"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return _true_minus(f"{value:.{places}f}")
    return _true_minus(f"{value:.{digits - 1}g}")


def fixed(value: float, decimals: int) -> str:
    """A number with `decimals` decimals and a true minus sign.

    Examples
    --------
    >>> fixed(-0.00012, 3), fixed(2.0, 1)
    ('0.000', '2.0')
    """
    if not math.isfinite(value):
        return "unbounded"
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else _true_minus(text)


def _true_minus(text: str) -> str:
    return text.replace("-", _MINUS)


def signed(value: float, digits: int = 3) -> str:
    """`number` with its sign; a true minus sign."""
    text = number(abs(value), digits)
    return text if value == 0 else ("+" if value > 0 else _MINUS) + text


def interval(low: float, high: float, *, sign: bool = False, digits: int = 4) -> str:
    """``low to high``; with signs and three digits for differences."""
    if sign:
        return f"{signed(low)} to {signed(high)}"
    return f"{number(low, digits)} to {number(high, digits)}"


def percent(share: float) -> str:
    """A share as a percentage; small ones keep a digit."""
    return f"{100 * share:.1f}%" if share < 0.1 or share > 0.995 else f"{100 * share:.0f}%"


def p_value(p: float) -> str:
    """``p < 0.001`` below that, else ``p = 0.012``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def p_cell(p: float) -> str:
    """A p-value in a table: three decimals, or ``< 0.001``.

    Examples
    --------
    >>> p_cell(0.0002), p_cell(0.0471)
    ('< 0.001', '0.047')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def ticks(low: float, high: float, most: int = 6) -> tuple[list[float], int]:
    """Round values between `low` and `high`, and how many decimals they need.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 1)
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low], 2
    rough = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    decimals = 0
    while decimals < 12 and abs(round(step, decimals) - step) > 1e-9 * step:
        decimals += 1
    return [float(np.round(k * step, 12)) for k in range(first, last + 1)], decimals
