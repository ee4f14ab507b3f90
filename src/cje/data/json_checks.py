"""Find in a text what polars' JSON reader would decide silently.

polars takes the first of two equal keys (Python the last), turns numbers into text where a column
has both, and reads half of a surrogate pair as a zero byte. A block of lines for which
`claimed_kinds` returns kinds has none of that in the columns that are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from cje.data.plain_blocks import has_half_pair

__all__ = ["claimed_kinds"]

_KINDS = {'"': "text", "t": "bool", "f": "bool", "n": "null", "[": "list", "{": "struct"}
_PLAIN_NAME = re.compile(r"[ !#-\[\]-~]+")  # ASCII without quotes and backslashes
# A letter, digit or underscore written as an escape: it could spell a key.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF])")


def claimed_kinds(block: bytes, names: Iterable[str]) -> dict[str, frozenset[str]] | None:
    """Kinds of values (text, number, bool, null, list, struct) that follow each key of a block.

    A quoted name followed by a colon is a key wherever it stands: inside a text its quotes are
    escaped. None where a key occurs twice on one line (twice in an object, or at two places), or
    where escapes hide letters of keys or halves of characters.
    """
    wanted = list(names)
    if not all(_PLAIN_NAME.fullmatch(name) for name in wanted):
        return None  # a key with other characters may be written in several ways
    alternatives = "|".join(re.escape(name) for name in wanted)
    text = pl.Series([block], dtype=pl.Binary).cast(pl.String)
    if text.str.contains("\\u", literal=True)[0] and (
        _ESCAPED_LETTER.search(block) or has_half_pair(block)
    ):
        return None
    # one token per key, with the first character of its value unless that is a digit or a sign
    tokens = text.str.extract_all(rf'\n|"(?:{alternatives})"[ \t\r]*:[ \t\r]*["tfn\[{{]?')
    lines = tokens.list.join("\t").str.split("\n").explode().unique()
    kinds: dict[str, set[str]] = {name: set() for name in wanted}
    for line in lines:
        seen: set[str] = set()
        for token in line.split("\t") if line else ():
            if not token:
                continue
            key, _, value = token[1:].partition('"')
            if key in seen:
                return None
            seen.add(key)
            kinds[key].add(_KINDS.get(value.lstrip(" \r\n:")[:1], "number"))
    return {name: frozenset(found) for name, found in kinds.items()}
