"""What a winner column says: names, A/B, ties, both bad, numbers -> 1, 0, 1/2 or NaN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.data.values import MISSING
from cje.errors import CJEError
from cje.hints import label_map_hint
from cje.kernels.arrays import FloatArray

__all__ = ["Verdicts", "read_verdicts"]

# Compared without case, surrounding space and brackets; - and _ count as a space.
_FIRST = frozenset({
    "a", "model a", "model 1", "response a", "response 1", "output 1", "output a", "assistant a",
    "option a", "answer a", "first", "left", "1st", "a wins", "model a wins", "a>b", "a>>b",
    "a is better", "first is better", "policy a", "system a", "candidate a", "winner model a",
})  # fmt: skip
_SECOND = frozenset({
    "b", "model b", "model 2", "response b", "response 2", "output 2", "output b", "assistant b",
    "option b", "answer b", "second", "right", "2nd", "b wins", "model b wins", "b>a", "b>>a",
    "a<b", "a<<b", "b is better", "second is better", "policy b", "system b", "candidate b",
    "winner model b",
})  # fmt: skip
_TIE = frozenset({
    "tie", "tied", "draw", "equal", "same", "c", "a=b", "no preference", "both", "both good",
    "tie (both good)", "tie (inconsistent)", "inconsistent", "winner tie",
    "a b tie", "tie (bothgood)",
})  # fmt: skip
_BOTH_BAD = frozenset({
    "both bad", "bothbad", "tie (bothbad)", "tie (both bad)", "neither", "none is good",
})  # fmt: skip
_NO_VERDICT = MISSING | {"error", "abstain", "cannot tell", "invalid", "-1"}
_SHOWN = 20


@dataclass(frozen=True)
class Verdicts:
    """Preferences for the first policy of each row, and how the words were read.

    Attributes
    ----------
    value : array (n,)
        1: the first won, 0: the second, 1/2: a tie or both bad; NaN without a verdict.
    both_bad : int
        Rows where both were called bad.
    note : str
    """

    value: FloatArray
    both_bad: int
    note: str


def read_verdicts(
    cells: Sequence[Any],
    first: Sequence[str],
    second: Sequence[str],
    *,
    column: str,
    where: str,
    label_map: Mapping[str, float | None] | None = None,
    skip: bool = False,
) -> Verdicts:
    """The verdicts of a column.

    The name of one of the row's two policies, words for the two sides, for a tie and for both bad;
    or numbers: shares from 0 to 1 for the first, or 1 (first) to 2 (second) with 0 or 1.5 a tie.
    `label_map` gives further words their value: 1 the first, 0 the second, 0.5 a tie. With `skip` a
    row with an unknown word has no verdict, and the note says how many.

    Raises
    ------
    CJEError
        An unknown word (all are listed with their counts), or numbers on neither scale.
    """
    texts = [_plain(cell) for cell in cells]
    asked = {_plain(word): value for word, value in (label_map or {}).items()}
    numbers = _numbers([t for t in texts if t not in _NO_VERDICT and t not in asked])
    named = set(first) | set(second)
    if numbers is not None and not any(str(cell).strip() in named for cell in cells):
        return _from_numbers(texts, asked, numbers, column, where)
    value = np.full(len(texts), np.nan)
    unknown: Counter[str] = Counter()
    used: dict[str, str] = {}
    both_bad = 0
    for row, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        name = "" if cell is None else str(cell).strip()
        if name and name in (first[row], second[row]):
            value[row] = 1.0 if name == first[row] else 0.0
            used["the policy's name"] = "it won"
        elif text in asked:
            given = asked[text]
            value[row] = np.nan if given is None else _share(given, text, where)
        elif text in _NO_VERDICT:
            continue
        elif (meaning := _meaning(text)) is not None:
            value[row] = meaning[0]
            used[name] = meaning[1]
            both_bad += text in _BOTH_BAD
        else:
            unknown[name] += 1
    if unknown and not skip:
        listed = ", ".join(f"{word!r} ({n})" for word, n in unknown.most_common(_SHOWN))
        raise CJEError(
            f"the column '{column}' holds words that name no winner: {listed}",
            where=where,
            hint="give them values, 1 where the first of the two won, 0 where the second did, 0.5 "
            f"for a tie: {label_map_hint()}",
        )
    shown = ", ".join(f"{word!r}: {meaning}" for word, meaning in list(used.items())[:_SHOWN])
    if unknown:
        shown += f"; {sum(unknown.values())} unreadable verdicts are left out"
    return Verdicts(value, both_bad, f"{column}: {shown}" if shown else "")


def _meaning(text: str) -> tuple[float, str] | None:
    if text in _FIRST:
        return 1.0, "the first won"
    if text in _SECOND:
        return 0.0, "the second won"
    if text in _TIE:
        return 0.5, "a tie"
    if text in _BOTH_BAD:
        return 0.5, "both bad, counted as a tie"
    return None


def _numbers(texts: Sequence[str]) -> set[float] | None:
    """The distinct numbers of a column; None where a text is not one, or there is none."""
    try:
        found = {float(text) for text in set(texts)}
    except ValueError:
        return None
    return found or None


def _from_numbers(
    texts: Sequence[str], asked: Mapping[str, float | None], numbers: set[float], column: str,
    where: str,
) -> Verdicts:  # fmt: skip
    low, high = min(numbers), max(numbers)
    value = np.full(len(texts), np.nan)
    one_to_two = high > 1.0 and numbers <= {0.0} | {n for n in numbers if 1.0 <= n <= 2.0}
    if not ((low >= 0.0 and high <= 1.0) or one_to_two):
        raise CJEError(
            f"the numbers of the column '{column}' are on no known scale of preference",
            where=where, value=(low, high),
            hint="write shares from 0 to 1 for the first of the two, or 1 for the first and 2 for "
            f"the second; or give single values a meaning: {label_map_hint()}",
        )  # fmt: skip
    for row, text in enumerate(texts):
        if text in asked:
            given = asked[text]
            value[row] = np.nan if given is None else _share(given, text, where)
        elif text not in _NO_VERDICT:
            number = float(text)
            value[row] = (0.5 if number == 0.0 else 2.0 - number) if one_to_two else number
    meaning = "1 the first, 2 the second" if one_to_two else "the share of the first"
    return Verdicts(value, 0, f"{column}: numbers, {meaning}")


def _share(given: float, word: str, where: str) -> float:
    if not 0.0 <= given <= 1.0:
        raise CJEError(
            "the value of a verdict is between 0 and 1", where=where, value=(word, given),
            hint="1: the first of the two won, 0: the second, 0.5: a tie",
        )  # fmt: skip
    return float(given)


def _plain(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and np.isnan(cell):
        return ""
    text = " ".join(str(cell).replace("_", " ").replace("-", " ").lower().split())
    text = text.strip("[]").strip()
    return "-1" if str(cell).strip() == "-1" else text
