"""Which columns could play a role that no known name fills: by the words in their names.

A name with a word for a judge (`gpt4_score`) or for a person (`reviewer_grade`) is taken where it
is the only one, and reported. A name that merely could be a score (`points`) is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from cje.data.leaf import Leaf, kind_of, normalised, words_of

__all__ = [
    "Peek",
    "best_guess",
    "distinct_parts",
    "holds_values",
    "is_about",
    "is_criterion",
    "is_judge",
    "likely_columns",
    "of_the_same_criterion",
    "possible_columns",
]


class Peek(Protocol):
    """Counts of the texts in a column: of its first rows, or of the `whole` column."""

    def __call__(self, leaf: Leaf, *, whole: bool = False) -> Mapping[str, int]: ...


_PERSON = frozenset(
    {"human", "humans", "annotator", "annotators", "annotation", "annotations", "expert", "gold",
     "oracle", "reviewer", "reviewers", "rater", "raters", "sme", "crowd", "manual", "labeler",
     "labeller", "groundtruth", "panel", "user", "customer"}
)  # fmt: skip
_SERVED = frozenset({"user", "customer"})
# Alone, the name of a column that says who rated, and not how.
_NAMES_ONE = _SERVED | {"annotator", "reviewer", "rater", "expert", "panel", "crowd", "labeler"}
_JUDGE = frozenset(
    {"judge", "judges", "llm", "autorater", "autograder", "grader", "evaluator", "gpt", "claude",
     "gemini", "llama", "mistral", "mixtral", "qwen", "deepseek", "grok", "haiku", "sonnet",
     "opus", "prometheus"}
)  # fmt: skip
_JUDGE_NAME = re.compile(r"^(gpt|claude|gemini|llama|mistral|mixtral|qwen|deepseek|grok|o)\d\w*$")
_VALUE = frozenset(
    {"score", "scores", "rating", "grade", "points", "point", "stars", "verdict", "quality", "eval",
     "likert", "mark", "marks", "metric"}
)  # fmt: skip
# A column with one of these words describes a score and is not a score.
_ABOUT = frozenset(
    {"id", "ids", "uuid", "name", "email", "model", "version", "prompt", "question", "input",
     "response", "output", "answer", "completion", "text", "comment", "comments", "reason",
     "reasoning", "rationale", "explanation", "critique", "notes", "note", "feedback_text", "time",
     "timestamp", "date", "at", "cost", "tokens", "latency", "duration", "seconds", "ms", "count",
     "n", "max", "min", "std", "sd", "se", "variance", "var", "error", "errors", "status", "url",
     "length", "words", "chars", "winner", "preference", "choice", "vote", "raw", "threshold",
     "weight", "propensity", "probability", "logprob", "logp", "lang", "language", "type", "group",
     "segment", "country", "tier", "agreement", "confidence"}
)  # fmt: skip
_CRITERIA = frozenset(
    {"helpfulness", "helpful", "accuracy", "accurate", "correctness", "correct", "relevance",
     "relevancy", "faithfulness", "groundedness", "fluency", "coherence", "safety", "toxicity",
     "harmlessness", "style", "tone", "clarity", "conciseness", "completeness", "overall",
     "quality", "creativity", "factuality", "honesty", "verbosity", "precision", "recall"}
)  # fmt: skip
_MOST_WORDS = 30  # distinct texts of a column of verdicts

# Parts of names that hint at a role where nothing better is known; the surest first.
_HINTS = {
    "judge_score": ("judge", "score", "rating", "grade", "eval", "metric", "quality", "point",
                    "star", "llm", "auto", "value"),
    "oracle_label": ("human", "label", "annot", "gold", "truth", "expert", "review", "rating"),
    "prompt_id": ("prompt", "question", "item", "example", "case", "query", "task", "id"),
    "policy": ("policy", "model", "version", "variant", "system", "prompt"),
    "prompt": ("prompt", "question", "input"),
    "response": ("response", "answer", "output", "completion"),
}  # fmt: skip


def likely_columns(role: str, leaves: Sequence[Leaf], peek: Peek | None = None) -> list[Leaf]:
    """The columns whose names say that a judge (or a person) gave these values."""
    if role not in ("judge_score", "oracle_label"):
        return []
    return [leaf for leaf in leaves if _says(role, leaf) and holds_values(leaf, peek)]


def _says(role: str, leaf: Leaf) -> bool:
    words, last = words_of(leaf.display), words_of(leaf.parts[-1])
    if _ABOUT & set(words):
        return False
    is_giver = _is_person if role == "oracle_label" else is_judge
    if role == "judge_score" and any(map(_is_person, words)):
        return False
    if _NAMES_ONE & set(words) and not _VALUE & set(last) and (
        len(words) == 1 or _SERVED & set(words)
    ):  # fmt: skip
        return False
    return any(map(is_giver, words)) and any(w in _VALUE or is_giver(w) for w in last)


def _is_person(word: str) -> bool:
    return word in _PERSON


def is_judge(word: str) -> bool:
    """Whether a word names a judge."""
    return word in _JUDGE or bool(_JUDGE_NAME.match(word))


def of_the_same_criterion(columns: Sequence[Leaf], other: str) -> list[Leaf]:
    """The columns on the same criterion (helpfulness, ...) as another column."""
    criteria = _CRITERIA & set(words_of(other))
    return [leaf for leaf in columns if criteria and criteria <= set(words_of(leaf.display))]


def is_about(name: str) -> bool:
    """Whether a name says what is known about a score or a response: its length, its time, ..."""
    return set(words_of(name)) <= _ABOUT


def is_criterion(name: str) -> bool:
    """Whether a name says what was judged, and not who judged."""
    return bool(_CRITERIA & set(words_of(name)))


def possible_columns(role: str, leaves: Sequence[Leaf], peek: Peek | None = None) -> list[Leaf]:
    """The columns whose names say score, grade or the like, whoever gave them."""
    if role != "judge_score":
        return []
    return [
        leaf
        for leaf in leaves
        if (_VALUE | _CRITERIA) & set(words_of(leaf.parts[-1]))
        and not (_ABOUT | _PERSON) & set(words_of(leaf.display))
        and holds_values(leaf, peek)
    ]  # fmt: skip


def holds_values(leaf: Leaf, peek: Peek | None) -> bool:
    """Whether a column holds numbers, true/false, or few words one of which has a known value."""
    from cje.data.values import looks_like_values

    if leaf.is_empty or "struct" in leaf.kinds or "list" in leaf.kinds:
        return False
    if leaf.kinds and leaf.only("number", "bool"):
        return True
    if peek is None:
        return not leaf.kinds
    texts = peek(leaf)
    return len(texts) > 0 and (_are_numbers(texts) or (
        len(texts) <= _MOST_WORDS and looks_like_values(texts)
    ))  # fmt: skip


def _are_numbers(texts: Mapping[str, int]) -> bool:
    """Whether most rows hold numbers."""
    numbers = sum(n for text, n in texts.items() if re.fullmatch(r"[-+]?\d+([.,]\d*)?", text))
    return 2 * numbers > sum(texts.values())


def distinct_parts(names: Sequence[str]) -> list[str]:
    """The parts that distinguish names: without the words that all of them begin or end with.

    Examples
    --------
    >>> distinct_parts(["judge_gpt4", "judge_claude"]), distinct_parts(["gpt4 score", "o1 score"])
    (['gpt4', 'claude'], ['gpt4', 'o1'])
    """
    words = [re.split(r"[^A-Za-z0-9\-]+", name.strip()) for name in names]
    first = 0
    while min(map(len, words)) > first + 1 and len({w[first].lower() for w in words}) == 1:
        first += 1
    last = 0
    least = min(map(len, words)) - first
    while least > last + 1 and len({w[-1 - last].lower() for w in words}) == 1:
        last += 1
    parts = ["_".join(w[first : len(w) - last]) for w in words]
    return parts if len(set(parts)) == len(parts) and all(parts) else list(names)


def best_guess(role: str, leaves: Sequence[Leaf], peek: Peek | None = None) -> Leaf | None:
    """The column that most likely plays an unassigned role, for a question to the user."""
    kind = kind_of(role)
    fitting = [
        leaf
        for leaf in leaves
        if not leaf.is_empty
        and (
            not leaf.kinds
            or leaf.only("number", "bool")
            or (kind != "number" and leaf.only("text", "number"))
        )
    ]
    if kind == "number" and peek is not None:
        fitting = [leaf for leaf in fitting if holds_values(leaf, peek)]
    for word in _HINTS.get(role, ()):
        for leaf in fitting:
            if word in normalised(leaf.parts[-1]):
                return leaf
    return None
