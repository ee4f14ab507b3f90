"""`Leaf`: a place in a source that can hold a column, and the words in its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cje.data.surrogates import storable_text

__all__ = ["Leaf", "kind_of", "normalised", "words_of"]

_KINDS: Mapping[str, str] = {
    "prompt_id": "name",
    "policy": "name",
    "rater": "name",
    "cluster": "name",
    "draw_idx": "whole",
    "prompt": "text",
    "response": "text",
    "rater_list": "numbers",
    "target_list": "numbers",
}
_NUMBERED = re.compile(r"^(human|rater|judge|annotator|reviewer|score)(\d+)$")
_NAME_FAMILIES = ("group", "key", "policy_part")


@dataclass(frozen=True)
class Leaf:
    """A place in a source: column name, then names of nested fields; and the types seen there.

    `kinds` is a subset of number, fraction (a number written with a point), bool, text, list,
    struct, null; empty where nothing is known (a CSV column before it is parsed).
    """

    path: tuple[str, ...]
    kinds: frozenset[str] = frozenset()

    @property
    def display(self) -> str:
        return storable_text(".".join(self.path))

    @property
    def parts(self) -> tuple[str, ...]:
        """The path with a flattened column name (`metadata.oracle_label`) split."""
        return tuple(self.path[0].split(".")) if len(self.path) == 1 else self.path

    @property
    def is_empty(self) -> bool:
        """Whether every value seen was missing."""
        return self.kinds == {"null"}

    def only(self, *kinds: str) -> bool:
        """Whether every type seen is one of `kinds` (or null, or nothing is known)."""
        return self.kinds - {"fraction", "null"} <= set(kinds)


def kind_of(column: str) -> str:
    """What a canonical column holds: name, whole, number, numbers or text."""
    family, is_family, _ = column.partition(":")
    if is_family:
        return "name" if family in _NAME_FAMILIES else "number"
    return _KINDS.get(column, "number")


def normalised(name: str) -> str:
    """`promptId`, `Prompt ID` and `prompt-id` are all `prompt_id`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, with numbers at the end of a word split off.

    Examples
    --------
    >>> words_of("scores.GPT4 Judge"), words_of("human2")
    (('scores', 'gpt4', 'judge'), ('human', '2'))
    """
    words = normalised(name.replace(".", "_")).split("_")
    return tuple(part for word in words for part in _NUMBERED.sub(r"\1 \2", word).split())
