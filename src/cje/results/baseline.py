"""The baseline, if the user does not name one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cje.errors import CJEError
from cje.hints import option_hint

__all__ = ["choose_baseline"]

# Words for the version in use, as a whole name or as a part of one (prod-v3).
_WORDS = frozenset(
    {"base", "baseline", "champion", "control", "current", "old", "prod", "production"}
)


def choose_baseline(names: Sequence[str], wanted: str | None) -> tuple[str, str]:
    """The baseline among `names`, and how it was chosen (empty if the user named it).

    The only version whose name contains a word such as ``prod`` or ``baseline``, otherwise the
    first one in the data.

    Raises
    ------
    CJEError
        `wanted` is not one of the names.

    Examples
    --------
    >>> choose_baseline(["cand-v2", "prod"], None)[0]
    'prod'
    """
    if wanted is not None:
        if wanted not in names:
            raise CJEError(
                "the baseline is not in the data",
                value=wanted,
                hint=f"the versions are {', '.join(names)}",
            )
        return wanted, ""
    if len(names) == 1:
        return names[0], ""
    found = [name for name in names if _WORDS & set(re.split(r"[^a-z]+", name.lower()))]
    if len(found) == 1:
        return found[0], f"baseline: {found[0]} (from its name; {_change()})"
    return names[0], f"baseline: {names[0]} (the first in the data; {_change()})"


def _change() -> str:
    return f"{option_hint('baseline', 'NAME')} to change"
