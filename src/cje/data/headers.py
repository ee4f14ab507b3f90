"""Headers of two lines: names of versions above blocks of columns, the columns' names below."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["joined_header"]


def joined_header(first: Sequence[str], second: Sequence[str]) -> list[str] | None:
    """One name per column where two lines are the header; None where the first line alone is.

    The first line has gaps, or one name several times; the second has a name in every cell, some of
    them several times.

    Examples
    --------
    >>> joined_header(["", "prod", "", "cand", ""], ["id", "score", "human", "score", "human"])
    ['id', 'prod score', 'prod human', 'cand score', 'cand human']
    """
    above, below = [c.strip() for c in first], [c.strip() for c in second]
    has_gaps = "" in above or len(set(above)) < len(above)
    are_names = all(below) and not any(re.fullmatch(r"[-+]?[\d.,]+", name) for name in below)
    if not (len(above) == len(below) and has_gaps and any(above) and are_names):
        return None
    names, top = [], ""
    for block, column in zip(above, below, strict=True):
        top = block or top
        names.append(f"{top} {column}" if top and column != top else column)
    return names if len(set(below)) < len(below) and len(set(names)) == len(names) else None
