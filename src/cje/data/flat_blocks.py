"""Keys and kinds of values in a block of JSON Lines, found by the positions of its quotes.

Most evaluation files are flat: one object of plain keys and scalars per line. For such a block the
bytes around the quotes say which keys there are, what kinds of values they have, and that none of
them occurs twice in an object; a parser is not needed. Whatever is not plain is left to one.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from cje.kernels.arrays import BoolArray, IntArray

__all__ = ["flat_kinds", "has_half_pair"]

ByteArray = NDArray[np.uint8]

_MAX_KEYS = 100
_MAX_NUMBER = 24  # characters; longer numbers are left to a parser, and so are long integers
_MAX_DIGITS = 18
_SHORT_RUN = 8  # backslashes; longer runs are rare
_QUOTE, _BACKSLASH, _COLON, _COMMA, _SPACE, _OPEN, _CLOSE = b'"\\:, {}'
_KINDS = {**dict.fromkeys(b"-0123456789", "number"), **dict.fromkeys(b"tf", "bool"),
          ord("n"): "null", ord('"'): "text"}  # fmt: skip
_PLAIN_KEY = re.compile(rb"[^\\\x00-\x1f]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def flat_kinds(block: bytes) -> dict[str, frozenset[str]] | None:
    """The kinds of values (as in `Leaf`) that each key of a block has; None where a look is needed.

    For lines of valid JSON the kinds are exactly those that a parser would find, and no object has
    a key twice, an object or a list in it, or half of a surrogate pair. A line that is not valid
    may go unnoticed; the parser that reads the values refuses it.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    escapes = block.find(b"\\") >= 0
    if escapes and has_half_pair(block):
        return None
    quotes = np.flatnonzero(data == _QUOTE)
    if escapes:
        quotes = quotes[~_escaped(data, quotes)]
    if len(quotes) % 2 or not len(quotes) or quotes[-1] + 2 >= len(data) or not quotes[0]:
        return None
    opens, closes = quotes[0::2], quotes[1::2]
    after = data[closes + 1]
    is_key = after == _COLON
    if not (is_key | (after == _COMMA) | (after == _CLOSE)).all():
        return None
    if not is_key.any():
        return None
    opens, closes = opens[is_key], closes[is_key]
    starts = _starts_object(data, opens)
    values = closes + 2
    values = values + (data[values] == _SPACE)
    if starts is None or values[-1] >= len(data):
        return None
    return _kinds_by_key(data, block, opens, closes, values, np.cumsum(starts))


def has_half_pair(block: bytes) -> bool:
    """Whether an escaped high surrogate stands without a low one behind it, or the reverse."""
    if not _SURROGATE.search(block):
        return False
    data = np.frombuffer(block, dtype=np.uint8)
    escapes = np.flatnonzero(data[:-5] == _BACKSLASH)
    escapes = escapes[(data[escapes + 1] == ord("u")) & ((data[escapes + 2] | 32) == ord("d"))]
    escapes = escapes[~_escaped(data, escapes)]
    digit = data[escapes + 3] | 32
    highs, lows = (escapes[np.isin(digit, [*kind])] for kind in (b"89ab", b"cdef"))
    return not np.array_equal(highs + 6, lows)


def _escaped(data: ByteArray, places: IntArray) -> BoolArray:
    """Which places follow an odd number of backslashes."""
    odd = np.zeros(len(places), dtype=bool)
    left = np.arange(len(places))
    for distance in range(1, _SHORT_RUN):
        left = left[places[left] >= distance]
        left = left[data[places[left] - distance] == _BACKSLASH]
        if not len(left):
            return odd
        odd[left] = distance % 2 == 1
    others = np.flatnonzero(data != _BACKSLASH)
    before = np.searchsorted(others, places[left]) - 1
    run = places[left] - 1 - np.where(before < 0, -1, others[before])
    odd[left] = run % 2 == 1
    return odd


def _starts_object(data: ByteArray, opens: IntArray) -> BoolArray | None:
    """Which keys follow a brace; None where one follows neither a brace nor a comma."""
    before = data[opens - 1]
    before = np.where(before == _SPACE, data[np.maximum(opens - 2, 0)], before)
    starts = before == _OPEN
    return starts if (starts | (before == _COMMA)).all() and starts[:1].all() else None


def _kinds_by_key(
    data: ByteArray,
    block: bytes,
    opens: IntArray,
    closes: IntArray,
    values: IntArray,
    objects: IntArray,
) -> dict[str, frozenset[str]] | None:
    """Group equal keys; what their values begin with is their kind."""
    lengths = closes - opens - 1
    first = data[values]
    found: dict[str, frozenset[str]] = {}
    left = np.arange(len(opens))
    while len(left):
        if len(found) >= _MAX_KEYS:
            return None
        name = block[opens[left[0]] + 1 : closes[left[0]]]
        alike = np.flatnonzero(lengths[left] == len(name))
        if name:
            # all runs of so many bytes, without a copy
            runs = np.ndarray(len(block) - len(name), f"V{len(name)}", block, strides=(1,))
            names = runs[opens[left[alike]] + 1]
            alike = alike[names == names[0]]
        same = left[alike]
        kinds = _kinds(data, first[same], values[same])
        twice = np.diff(objects[same]) == 0
        if kinds is None or twice.any() or not _PLAIN_KEY.fullmatch(name):
            return None
        try:
            found[name.decode("utf-8")] = kinds
        except UnicodeDecodeError:
            return None
        left = np.delete(left, alike)
    return found


def _kinds(data: ByteArray, first: ByteArray, values: IntArray) -> frozenset[str] | None:
    kinds = {_KINDS.get(int(byte)) for byte in np.flatnonzero(np.bincount(first, minlength=256))}
    if "number" in kinds:
        numbers = values[(first <= ord("9")) & (first != _QUOTE)]
        has_fraction = _has_fraction(data, numbers[:50]) or _has_fraction(data, numbers)
        if has_fraction is None:
            return None
        kinds |= {"fraction"} if has_fraction else set()
    return None if None in kinds else frozenset(kinds)  # type: ignore[arg-type]


def _has_fraction(data: ByteArray, numbers: IntArray) -> bool | None:
    """Whether a number has a point or an exponent; None where one is too long to tell."""
    places = np.minimum(numbers[:, None] + np.arange(_MAX_NUMBER), len(data) - 1)
    letters = data[places]
    ends = (letters == _COMMA) | (letters == _CLOSE) | (letters <= _SPACE)
    length = np.where(ends.any(axis=1), ends.argmax(axis=1), _MAX_NUMBER)
    inside = np.arange(_MAX_NUMBER) < length[:, None]
    point = inside & ((letters == ord(".")) | ((letters | 32) == ord("e")))
    whole = ~point.any(axis=1)
    if (length[whole] > _MAX_DIGITS).any():
        return None
    return not whole.all()
