"""`AnswerScale`: the answers a rater can give, and the number each stands for."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from cje.data.dataset import Dataset
from cje.data.scale import Scale
from cje.errors import CJEError

__all__ = ["PAIR_WORDS", "AnswerScale", "scale_of"]

_MOST_CHOICES = 11
PAIR_WORDS = ("A", "B", "tie", "both bad")
"""Answers of a side-by-side comparison; A and B are what the rater sees, not the policies."""


@dataclass(frozen=True)
class AnswerScale:
    """A list of choices, or any number of a range.

    Attributes
    ----------
    kind : str
        ``"choices"`` (a button each), ``"number"`` (typed) or ``"pair"`` (side by side).
    words : tuple of str
        Text of each choice.
    low, high : float
        Range of the values.

    Examples
    --------
    >>> scale = AnswerScale.parse("pass/fail")
    >>> scale.value_of("pass"), scale.value_of("fail")
    (1.0, 0.0)
    >>> AnswerScale.parse("1-5").words
    ('1', '2', '3', '4', '5')
    """

    kind: str
    words: tuple[str, ...]
    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> AnswerScale:
        """From ``"1-5"``, ``"0-100"``, ``"pass/fail"``, or words from worst to best.

        Words are separated by commas and count 0, 1, 2, ... from the first to the last.
        """
        given = text.strip()
        if given.lower().replace(" ", "") in ("pass/fail", "fail/pass", "yes/no", "no/yes"):
            first, second = (part.strip() for part in given.split("/"))
            bad, good = (second, first) if first.lower() in ("pass", "yes") else (first, second)
            return cls("choices", (bad, good), 0.0, 1.0)
        if re.fullmatch(r"-?\d+(\.\d+)?\s*(-|to|\.\.|:|,)\s*-?\d+(\.\d+)?", given):
            return cls.of_range(Scale.parse(given))
        words = tuple(word.strip() for word in given.split(","))
        if not 2 <= len(words) <= _MOST_CHOICES or not all(words) or len(set(words)) < len(words):
            raise CJEError(
                "cannot read the scale of the answers", value=text,
                hint="write 1-5, 0-100, pass/fail, or words from worst to best: 'bad, fair, good'",
            )  # fmt: skip
        return cls("choices", words, 0.0, float(len(words) - 1))

    @classmethod
    def of_range(cls, scale: Scale) -> AnswerScale:
        """Buttons for a short range of whole numbers, a field for any other."""
        low, high = scale.low, scale.high
        whole = low == int(low) and high == int(high)
        if whole and high - low == 1.0 and low == 0.0:
            return cls("choices", ("fail", "pass"), 0.0, 1.0)
        if whole and high - low < _MOST_CHOICES:
            words = tuple(str(k) for k in range(int(low), int(high) + 1))
            return cls("choices", words, low, high)
        return cls("number", (), low, high)

    @classmethod
    def pair(cls) -> AnswerScale:
        """Side by side; the value is 1 where the first policy's response won."""
        return cls("pair", PAIR_WORDS, 0.0, 1.0)

    def value_of(self, word: Any) -> float:
        """The number that an answer stands for.

        Raises
        ------
        CJEError
            The answer is not on the scale.
        """
        if self.kind == "number":
            try:
                number = float(word)
            except (TypeError, ValueError):
                number = math.nan
            if isinstance(word, bool) or not self.low <= number <= self.high:
                raise CJEError("the answer is not on the scale", value=word, hint=self.describe())
            return number
        text = str(word).strip()
        if self.kind == "choices":
            if text in self.words:
                return self.low + self.words.index(text)
            folded = [choice.lower() for choice in self.words]
            if text.lower() in folded:
                return self.low + folded.index(text.lower())
            try:  # "4.0" of a spreadsheet is 4
                number = float(text)
            except ValueError:
                number = math.nan
            if number in [self.low + k for k in range(len(self.words))]:
                return number
        raise CJEError("the answer is not on the scale", value=word, hint=self.describe())

    def describe(self) -> str:
        """The possible answers, for a person."""
        if self.kind == "number":
            return f"a number from {self.low:g} to {self.high:g}"
        return "one of " + ", ".join(self.words)

    def to_json(self) -> str:
        """JSON text for the store."""
        return json.dumps(
            {"kind": self.kind, "words": self.words, "low": self.low, "high": self.high}
        )

    @classmethod
    def from_json(cls, text: str) -> AnswerScale:
        """The inverse of `to_json`."""
        found = json.loads(text)
        return cls(found["kind"], tuple(found["words"]), found["low"], found["high"])


def scale_of(data: Dataset) -> tuple[AnswerScale, str]:
    """The scale of the data's labels, else of the judge's scores, and which of the two it was."""
    if data.n_labelled:
        return AnswerScale.of_range(data.oracle_scale), "the labels in the data"
    return AnswerScale.of_range(data.judge_scale), "the judge's scores"
