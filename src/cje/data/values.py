"""Text that means a number: formats of numbers, words for missing, and words with a value.

One table gives the value of each word. A column is read by the one family of words that has all of
its words; an unknown word is an error that lists the words and their counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from cje.hints import label_map_option
from cje.kernels.arrays import BoolArray

__all__ = ["MISSING", "Numbers", "looks_like_values", "mapping_note", "numbers_from_text"]

# Compared without case and surrounding space.
MISSING = frozenset(
    {"", "-", "--", "\u2013", "\u2014", ".", "?", "n/a", "#n/a", "na", "null", "none", "nil",
     "missing", "skip", "skipped"}
)  # fmt: skip

_YES = (
    "yes", "y", "true", "t", "pass", "passed", "good", "correct", "right", "win", "won", "accept",
    "accepted", "acceptable", "helpful", "positive", "up", "thumbs up", "thumbs_up", "thumbsup",
    "like", "liked", "satisfied", "safe", "success", "successful", "resolved", "ok",
    "\U0001f44d", "\u2705", "\u2714", "\u2713",
)  # fmt: skip
_NO = (
    "no", "n", "false", "f", "fail", "failed", "bad", "incorrect", "wrong", "lose", "loss", "lost",
    "reject", "rejected", "unacceptable", "unhelpful", "negative", "down", "thumbs down",
    "thumbs_down", "thumbsdown", "dislike", "disliked", "dissatisfied", "unsafe", "failure",
    "unsuccessful", "unresolved", "not ok", "\U0001f44e", "\u274c", "\u2717", "\u2718",
)  # fmt: skip
_HALF = ("tie", "tied", "draw", "partial", "partially correct", "partly", "neutral", "mixed")


def _steps(low: float, *names: tuple[str, ...]) -> dict[str, float]:
    return {word: low + i for i, words in enumerate(names) for word in words}


# Families of words, the usual first. Each has values on a scale of its own.
FAMILIES: Mapping[str, Mapping[str, float]] = {
    "yes/no": {**dict.fromkeys(_NO, 0.0), **dict.fromkeys(_HALF, 0.5), **dict.fromkeys(_YES, 1.0)},
    "agreement": _steps(
        1,
        ("strongly disagree", "sd", "disagree strongly"),
        ("disagree", "somewhat disagree"),
        ("neutral", "neither agree nor disagree", "neither", "undecided"),
        ("agree", "somewhat agree"),
        ("strongly agree", "sa", "agree strongly"),
    ),
    "quality": _steps(
        1,
        ("very poor", "terrible", "very bad", "awful"),
        ("poor", "bad"),
        ("fair", "average", "ok", "okay", "mediocre"),
        ("good",),
        ("very good", "excellent", "great", "outstanding"),
    ),
    "satisfaction": _steps(
        1,
        ("very dissatisfied",),
        ("dissatisfied",),
        ("neutral",),
        ("satisfied",),
        ("very satisfied",),
    ),
    "level": _steps(1, ("low",), ("medium", "moderate", "mid"), ("high",)),
    "grade": {
        "a+": 4.0, "a": 4.0, "a-": 3.7, "b+": 3.3, "b": 3.0, "b-": 2.7, "c+": 2.3, "c": 2.0,
        "c-": 1.7, "d+": 1.3, "d": 1.0, "d-": 0.7, "e": 0.0, "f": 0.0,
    },
}  # fmt: skip
# Where all words of a column are among these, they may as well name two responses.
_CHOICES = frozenset({"a", "b", "c", "tie"})

_PERCENT = re.compile(r"^([-+]?[\d.,]+)\s*%$")
_FRACTION = re.compile(r"^([-+]?[\d.,]+)\s*(?:/|out of|of)\s*([\d.,]+)$")
_DECIMAL_COMMA = re.compile(r"^[-+]?\d+,\d+$")
_THOUSANDS = re.compile(r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_SHOWN = 20
_MOST_ASKED = 8  # unknown words for which an option is filled in


@dataclass(frozen=True)
class Numbers:
    """A column of text as numbers.

    Attributes
    ----------
    series : Float64, null where missing or wrong
    wrong : mask of the rows without a number, or None
    what : completes "<column> ..." for the wrong rows
    mapping : word -> number, of the words used
    unknown : texts without a known value, the most frequent first
    """

    series: pl.Series
    wrong: BoolArray | None = None
    what: str = ""
    mapping: Mapping[str, float | None] | None = None
    unknown: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The unknown texts where they could be words with a value.

        Where most rows have a number they are errors.
        """
        known = self.series.len() - self.series.null_count()
        lost = 0 if self.wrong is None else int(self.wrong.sum())
        return () if len(self.unknown) > _MOST_ASKED or known > lost else self.unknown

    @property
    def answers(self) -> list[str]:
        """Options of the command that could give the unknown texts their values."""
        orders = {self.words, self.words[::-1]} if len(self.words) == 2 else {self.words}
        return [label_map_option(words) for words in sorted(orders) if words]


def mapping_note(column: str, mapping: Mapping[str, float | None]) -> str:
    """The values of words that were used, for the reading report; empty where there are none."""
    shown = [
        f"{word!r} = {'missing' if value is None else f'{value:g}'}"
        for word, value in mapping.items()
    ]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{column}: {', '.join(shown[:_SHOWN])}{more}" if shown else ""


def looks_like_values(words: Mapping[str, int]) -> bool:
    """Whether a column with these texts could hold scores or labels: one has a known value."""
    texts = [_plain(word) for word in words]
    known = {w for family in FAMILIES.values() for w in family}
    return any(text in known or _formatted(text) is not None or _number(text) is not None
               for text in texts)  # fmt: skip


def numbers_from_text(
    text: pl.Series, *, words: bool, label_map: Mapping[str, float | None] | None = None
) -> Numbers:
    """Numbers from text.

    Plain numbers are taken as they are; ``80%`` and ``4/5`` (``4 out of 5``) as 0.8; decimal
    commas and thousands where the whole column is written so; words, where `words` is true, by
    `label_map` or by the family that has all of the column's words.
    """
    stripped = text.str.strip_chars()
    number = stripped.cast(pl.Float64, strict=False)
    left = stripped.filter(number.is_null() & stripped.is_not_null())
    if not left.len():
        return Numbers(number)
    counts = {str(word): int(n) for word, n in left.value_counts(sort=True, name="n").iter_rows()}
    known, unknown = _values_of(counts, words, label_map or {}, has_numbers=_has_numbers(number))
    lookup = pl.Series(list(known), dtype=pl.String)
    values = pl.Series([known[w] for w in known], dtype=pl.Float64)
    mapped = stripped.replace_strict(lookup, values, default=None, return_dtype=pl.Float64)
    series = number.fill_null(mapped) if known else number
    used = {w: v for w, v in known.items() if _plain(w) not in MISSING or w in (label_map or {})}
    if not unknown:
        return Numbers(series, mapping=used)
    wrong = stripped.is_in(list(unknown)).fill_null(False).to_numpy()
    listed = ", ".join(f"{word!r} ({n})" for word, n in list(counts.items())[:_SHOWN])
    what = f"is text, not a number (the texts are {listed})"
    return Numbers(series, wrong, what, used, tuple(unknown))


def _has_numbers(number: pl.Series) -> bool:
    return number.null_count() < number.len()


def _values_of(
    counts: Mapping[str, int],
    words: bool,
    label_map: Mapping[str, float | None],
    *,
    has_numbers: bool,
) -> tuple[dict[str, float | None], list[str]]:
    """Text -> number for the texts of a column, and the texts without one."""
    asked = {_plain(word): value for word, value in label_map.items()}
    known: dict[str, float | None] = {}
    rest: list[str] = []
    for text in counts:
        plain = _plain(text)
        if plain in asked:
            known[text] = asked[plain]
        elif plain in MISSING:
            known[text] = None
        else:
            rest.append(text)
    formatted = _formats(rest)
    if formatted is not None:
        relative = any(_PERCENT.match(t) or _FRACTION.match(t) for t in rest)
        if not (relative and has_numbers):
            return known | formatted, []
        return known, rest
    family = _family(rest) if words and not has_numbers else None
    if family is not None:
        return known | {text: family[_plain(text)] for text in rest}, []
    return known, rest


def _formats(texts: list[str]) -> dict[str, float | None] | None:
    """Values of texts that are numbers in another format; None where one is not."""
    plain = [_plain(text) for text in texts]
    if all(_THOUSANDS.match(t) for t in plain) and all(t.count(",") > 1 or "." in t for t in plain):
        return {text: float(t.replace(",", "")) for text, t in zip(texts, plain, strict=True)}
    if all(_DECIMAL_COMMA.match(t) for t in plain):
        if all(_THOUSANDS.match(t) for t in plain):
            return None  # 1,234 may be either
        return {text: float(t.replace(",", ".")) for text, t in zip(texts, plain, strict=True)}
    found: dict[str, float | None] = {}
    for text, t in zip(texts, plain, strict=True):
        value = _formatted(t)
        if value is None:
            return None
        found[text] = value
    return found


def _formatted(text: str) -> float | None:
    """A percentage or a fraction as a share."""
    match = _PERCENT.match(text)
    if match:
        number = _number(match[1].replace(",", "."))
        return None if number is None else number / 100.0
    match = _FRACTION.match(text)
    if match:
        above, below = _number(match[1].replace(",", ".")), _number(match[2].replace(",", "."))
        return None if above is None or not below else above / below
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _family(texts: list[str]) -> Mapping[str, float] | None:
    """The one family that has all the words; None where none or several differ about them."""
    plain = {_plain(text) for text in texts}
    fitting = [family for family in FAMILIES.values() if plain <= set(family)]
    if not fitting or plain <= _CHOICES:
        return None
    several = [family for family in fitting if len({family[word] for word in plain}) > 1]
    return (several or fitting)[0]


def _plain(text: str) -> str:
    return " ".join(text.strip().lower().split())
