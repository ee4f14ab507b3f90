"""Keys and kinds of values in a block of JSON Lines, found by the positions of its quotes.

Most evaluation files are plain: one object per line, with simple keys, scalars and perhaps objects
of such. For such a block the bytes around the quotes say which keys there are, what kinds of values
they have, and that none of them occurs twice in an object; a parser is not needed. Whatever is not
plain is left to one.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from cje.kernels.arrays import BoolArray, IntArray

__all__ = ["MAX_DEPTH", "has_half_pair", "plain_kinds"]

ByteArray = NDArray[np.uint8]
Path = tuple[str, ...]

MAX_DEPTH = 4  # of nested fields; deeper ones play no role
_MAX_KEYS = 100
_MAX_NUMBER = 24  # characters; longer numbers are left to a parser, and so are long integers
_MAX_DIGITS = 18
_SHORT_RUN = 8  # backslashes; longer runs are rare
_QUOTE, _BACKSLASH, _COLON, _COMMA, _SPACE, _OPEN, _CLOSE = b'"\\:, {}'
_KINDS = {**dict.fromkeys(b"-0123456789", "number"), **dict.fromkeys(b"tf", "bool"),
          ord("n"): "null", ord('"'): "text", ord("{"): "struct"}  # fmt: skip
_PLAIN_KEY = re.compile(rb"[^\\\x00-\x1f]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def plain_kinds(block: bytes) -> dict[Path, frozenset[str]] | None:
    """The kinds of values (as in `Leaf`) at each path of a block; None where a look is needed.

    For lines of valid JSON the kinds are exactly those that a parser would find, and no object has
    a key twice, a list, or half of a surrogate pair. A line that is not valid
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
    flat = not (data[values] == _OPEN).any()
    nesting = (np.ones_like(opens), np.cumsum(starts)) if flat else _nesting(data, quotes, opens)
    return nesting and _kinds_by_path(data, block, (opens, closes, values), *nesting)


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


def _nesting(
    data: ByteArray, quotes: IntArray, opens: IntArray
) -> tuple[IntArray, IntArray] | None:
    """Of each key its depth and the number of its object among those of this depth."""
    begins, ends = (_outside(quotes, np.flatnonzero(data == sign)) for sign in (_OPEN, _CLOSE))
    depth = np.searchsorted(begins, opens) - np.searchsorted(ends, opens)
    if depth.min() < 1 or depth.max() > MAX_DEPTH:
        return None
    depth_of_object = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins)
    objects = np.zeros(len(opens), dtype=np.int64)
    for level in range(1, int(depth.max()) + 1):
        at = depth == level
        objects[at] = np.searchsorted(begins[depth_of_object == level], opens[at])
    return depth, objects


def _outside(quotes: IntArray, places: IntArray) -> IntArray:
    """The places that are not inside a text."""
    return places[np.searchsorted(quotes, places) % 2 == 0]


def _kinds_by_path(
    data: ByteArray,
    block: bytes,
    keys: tuple[IntArray, IntArray, IntArray],
    depth: IntArray,
    objects: IntArray,
) -> dict[Path, frozenset[str]] | None:
    """Group equal keys under equal parents; what their values begin with is their kind."""
    opens, closes, values = keys
    paths: list[Path] = [()]
    path_of = np.zeros(len(opens), dtype=np.int64)
    found: list[tuple[int, Path, frozenset[str]]] = []  # with the place of the first
    above = np.array([], dtype=np.int64)
    for level in range(1, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        parents = np.zeros(len(here), dtype=np.int64)
        if level > 1:
            behind = np.searchsorted(opens[above], opens[here])
            if not behind.all():
                return None
            parents = path_of[above[behind - 1]]
        for parent in np.flatnonzero(np.bincount(parents)).tolist():
            left = here[parents == parent]
            while len(left):
                same, left = _of_the_same_name(block, opens, closes, left)
                name = block[opens[same[0]] + 1 : closes[same[0]]]
                kinds = _kinds(data, data[values[same]], values[same])
                twice = np.diff(objects[same]) == 0
                plain = _PLAIN_KEY.fullmatch(name) and _is_utf8(name)
                if kinds is None or twice.any() or not plain or len(paths) > _MAX_KEYS:
                    return None
                path_of[same] = len(paths)
                paths.append((*paths[parent], name.decode("utf-8")))
                found.append((int(same[0]), paths[-1], kinds))
        above = here
    return {path: kinds for _, path, kinds in sorted(found)}


def _of_the_same_name(
    block: bytes, opens: IntArray, closes: IntArray, left: IntArray
) -> tuple[IntArray, IntArray]:
    """The keys that equal the first of those left, and the others."""
    length = int(closes[left[0]] - opens[left[0]] - 1)
    alike = np.flatnonzero(closes[left] - opens[left] - 1 == length)
    if length:
        # all runs of so many bytes, without a copy
        runs = np.ndarray(len(block) - length, f"V{length}", block, strides=(1,))
        names = runs[opens[left[alike]] + 1]
        alike = alike[names == names[0]]
    return left[alike], np.delete(left, alike)


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


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
