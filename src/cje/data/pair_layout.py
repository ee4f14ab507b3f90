"""Which columns of a table make a comparison of two responses: policies, verdicts, texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cje.data.field_names import SYNONYMS
from cje.data.fields import Leaf
from cje.data.leaf import normalised
from cje.errors import CJEError
from cje.hints import field_hint, field_option

__all__ = ["ROLES", "PairLayout", "find_layout", "looks_pairwise"]

Path = tuple[str, ...]
Paths = tuple[Path, ...]

ROLES = (
    "model_a", "model_b", "human_winner", "judge_winner", "prompt_id", "response_a", "response_b",
    "turn", "label_propensity",
)  # fmt: skip
"""What `fields` can name in data of comparisons."""

_SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"))
_POLICY_WORDS = ("model", "policy", "system", "generator", "version", "variant", "agent",
                 "provider", "llm", "candidate")  # fmt: skip
_TEXT_WORDS = ("response", "output", "answer", "completion", "conversation", "generation", "text",
               "assistant")  # fmt: skip
_WINNER = ("winner", "verdict", "preference", "preferred", "vote", "choice", "win", "decision")
_PLAIN_WINNER = ("label", "outcome", "result", "annotation", "rating")  # only beside two policies
_HUMAN = ("human", "expert", "annotator", "user", "rater", "gold", "crowd", "reviewer", "person")
_JUDGE = ("judge", "llm", "auto", "autorater", "gpt", "gpt4", "claude", "gemini", "grader",
          "evaluator", "ai")  # fmt: skip
_NOT_A_WINNER = frozenset({"reason", "explanation", "text", "confidence", "score", "rate",
                           "probability", "prob", "time"})  # fmt: skip
_WHO = ("judge", "annotator", "judge_model", "judge_name", "rater", "evaluator", "annotator_id",
        "labeler")  # fmt: skip
_ARENA = frozenset({"anony", "tstamp", "evaluation_session_id", "evaluation_order",
                    "toxic_chat_tag"})  # fmt: skip
_IDS = SYNONYMS["prompt_id"]
_TEXTS = ("prompt", *SYNONYMS["prompt"])


@dataclass(frozen=True)
class PairLayout:
    """Columns by what they are.

    Attributes
    ----------
    first, second : path, optional
        The policies' names; None where the two sides themselves are the policies.
    human, judge : tuple of path
        Verdicts; several human ones are raters, several judge ones a panel or two `orders`.
    one_hot : mapping meaning -> path
        ``winner_model_a``, ``winner_model_b``, ``winner_tie``: a human verdict in three columns.
    orders : bool
        The two judge columns are the two orders, words naming the columns of the policies.
    sides : path, optional
        ``ba`` where the second policy was shown first, as `cje labels export` writes it.
    who : path, optional
        Names of those who judged, people and models in one column.
    """

    first: Path | None
    second: Path | None
    human: tuple[Path, ...] = ()
    judge: tuple[Path, ...] = ()
    one_hot: Mapping[str, Path] = field(default_factory=dict)
    orders: bool = False
    who: Path | None = None
    prompt_id: Path | None = None
    prompt: Path | None = None
    turn: Path | None = None
    sides: Path | None = None
    propensity: Path | None = None
    texts: tuple[Path, Path] | None = None
    numbers: Mapping[str, tuple[Path, Path]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def looks_pairwise(columns: Collection[str], fields: Mapping[str, Any] | None = None) -> bool:
    """Whether a table compares two responses per row: two policies (or texts) and a winner."""
    if {"human_winner", "judge_winner", "model_a"} & set(fields or {}):
        return True
    names = {normalised(name) for name in columns}
    if not (_winners(names, beside_policies=True) or _one_hot(names)):
        return False
    if _sides(names, _POLICY_WORDS) is not None:
        return True
    return _sides(names, _TEXT_WORDS) is not None and bool(_winners(names, beside_policies=False))


def find_layout(
    leaves: Sequence[Leaf], fields: Mapping[str, Any] | None, source: str, *, human: bool = False
) -> PairLayout:
    """The layout of a table of comparisons; with `human`, one winner column is the humans'.

    Raises
    ------
    CJEError
        No verdict, or one of which it is not clear who gave it; a column that is not there.
    """
    return _Finder(leaves, dict(fields or {}), source).run(human)


class _Finder:
    def __init__(self, leaves: Sequence[Leaf], fields: dict[str, Any], source: str) -> None:
        self.source, self.fields = source, fields
        self.paths = {leaf.display: leaf.path for leaf in leaves}
        self.by_name: dict[str, Path] = {}
        for leaf in leaves:
            if len(leaf.path) == 1 and not leaf.is_empty:
                self.by_name.setdefault(normalised(leaf.path[0]), leaf.path)
        self.leaves = leaves
        unknown = set(fields) - set(ROLES) - {"prompt", "policy"}
        if unknown:
            raise CJEError(
                "unknown name in fields", value=sorted(unknown),
                hint=f"for comparisons fields maps these names to columns: {', '.join(ROLES)}",
            )  # fmt: skip
        self.notes: list[str] = []

    def run(self, human: bool) -> PairLayout:
        names = set(self.by_name)
        first, second = self._policies(names)
        texts = self._pair(("response_a", "response_b"), _sides(names, _TEXT_WORDS))
        by_humans, by_judge, orders, one_hot = self._verdicts(names, human)
        who = self._who(by_humans, by_judge)
        if not (by_humans or by_judge or one_hot):
            raise CJEError(
                "the comparisons have no column that names the winner", where=self.source,
                hint=f"name it: {field_hint('human_winner', 'your_column')} or "
                f"{field_hint('judge_winner', 'your_column')}; available columns: {self._shown()}",
            )  # fmt: skip
        layout = PairLayout(
            first, second, by_humans, by_judge, one_hot, orders, who,
            prompt_id=self._one("prompt_id", _IDS), prompt=self._one("prompt", _TEXTS),
            turn=self._one("turn", ()), sides=self.by_name.get("sides"),
            texts=texts, numbers=self._numbers(),
            propensity=self._one("label_propensity", SYNONYMS["label_propensity"]),
        )  # fmt: skip
        self._say(layout)
        return PairLayout(**{**layout.__dict__, "notes": tuple(self.notes)})

    # ---- policies and texts -----------------------------------------------------------------

    def _policies(self, names: set[str]) -> tuple[Path | None, Path | None]:
        found = self._pair(("model_a", "model_b"), _sides(names, _POLICY_WORDS))
        return (None, None) if found is None else found

    def _pair(
        self, roles: tuple[str, str], seen: tuple[str, str] | None
    ) -> tuple[Path, Path] | None:
        asked = [self._asked(role) for role in roles]
        if asked[0] is not None and asked[1] is not None:
            return asked[0], asked[1]
        return None if seen is None else (self.by_name[seen[0]], self.by_name[seen[1]])

    def _asked(self, role: str) -> Path | None:
        name = self.fields.get(role)
        if name is None:
            return None
        if not isinstance(name, str) or name not in self.paths:
            raise CJEError(
                f"no column {name!r} for {role}", where=self.source,
                hint=f"available columns: {self._shown()}",
            )  # fmt: skip
        return self.paths[name]

    def _one(self, role: str, synonyms: Sequence[str]) -> Path | None:
        asked = self._asked(role)
        if asked is not None or (role in self.fields and self.fields[role] is None):
            return asked
        return next((self.by_name[n] for n in (role, *synonyms) if n in self.by_name), None)

    # ---- verdicts ---------------------------------------------------------------------------

    def _verdicts(self, names: set[str], human: bool) -> tuple[Paths, Paths, bool, dict[str, Path]]:
        """Columns of people's and the judge's verdicts; whether those are two orders; one-hot."""
        asked = {
            who: self._asked(role)
            for who, role in (("human", "human_winner"), ("judge", "judge_winner"))
        }
        if {"g1_winner", "g2_winner"} <= names and not any(asked.values()):
            both = (self.by_name["g1_winner"], self.by_name["g2_winner"])
            self.notes.append("g1_winner, g2_winner: the judge's verdicts in both orders")
            return (), both, True, {}
        kinds = _winners(names, beside_policies=_sides(names, _POLICY_WORDS) is not None)
        found: dict[str, Paths] = {}
        taken = {path for path in asked.values() if path is not None}
        for who in ("human", "judge"):
            path = asked[who]
            seen = tuple(self.by_name[n] for n in kinds.get(who, ()))
            found[who] = tuple(p for p in seen if p not in taken) if path is None else (path,)
        plain = None if any(asked.values()) else next(iter(kinds.get("plain", ())), None)
        if plain is not None:
            who = self._who_decided(plain, names, found, human)
            if who:
                found[who] = (self.by_name[plain],)
        one_hot = {}
        if not any(found.values()):
            one_hot = {meaning: self.by_name[n] for meaning, n in _one_hot(names).items()}
        if one_hot:
            self.notes.append("winner_model_a, winner_model_b, winner_tie: human verdicts (Arena)")
        return found["human"], found["judge"], False, one_hot

    def _who_decided(
        self, plain: str, names: set[str], found: Mapping[str, Paths], human: bool
    ) -> str:
        """Whose verdict an ambiguous column holds; empty where the names of the columns say it."""
        if found["human"]:
            return "" if found["judge"] else "judge"
        if found["judge"] or human or self._is_arena(names) or self._who_column():
            return "human"
        raise CJEError(
            f"who decided '{plain}': people, or the judge?",
            where=self.source,
            hint=f"if people, add {field_hint('human_winner', plain)}; if the judge, "
            f"{field_hint('judge_winner', plain)}",
            answers=[field_option(role, plain) for role in ("human_winner", "judge_winner")],
        )

    def _is_arena(self, names: set[str]) -> bool:
        """Votes of the Arena: both conversations, and columns that no other layout has."""
        both = {"conversation_a", "conversation_b"} <= names
        return both and bool(names & _ARENA) and "judge" not in names

    def _who_column(self) -> Path | None:
        return next((self.by_name[n] for n in _WHO if n in self.by_name), None)

    def _who(self, by_humans: tuple[Path, ...], by_judge: tuple[Path, ...]) -> Path | None:
        """The column of who judged, where one winner column holds everybody's verdicts."""
        if by_judge or len(by_humans) != 1 or "human_winner" in self.fields:
            return None
        name = normalised(by_humans[0][0])
        return None if set(name.split("_")) & set(_HUMAN) else self._who_column()

    # ---- style ------------------------------------------------------------------------------

    def _numbers(self) -> dict[str, tuple[Path, Path]]:
        """Pairs of number columns, by what is left of their names without the side."""
        numeric = {
            normalised("_".join(leaf.path)): leaf.path
            for leaf in self.leaves
            if not leaf.is_empty and (not leaf.kinds or leaf.only("number"))
        }
        found: dict[str, tuple[Path, Path]] = {}
        for name, path in numeric.items():
            words = name.split("_")
            for place, word in enumerate(words):
                for a, b in _SIDES:
                    other = "_".join([*words[:place], b, *words[place + 1 :]])
                    if word == a and other in numeric and len(words) > 1:
                        base = "_".join(words[:place] + words[place + 1 :])
                        found.setdefault(base, (path, numeric[other]))
        return found

    # ---- notes ------------------------------------------------------------------------------

    def _say(self, layout: PairLayout) -> None:
        if layout.first is None:
            said = "the two sides are the versions 'A' and 'B': no columns name them"
        else:
            said = f"each row compares '{_shown(layout.first)}' with '{_shown(layout.second)}'"
        self.notes.insert(0, said)
        for who, columns in (("people's", layout.human), ("the judge's", layout.judge)):
            if columns and not layout.orders:
                shown = ", ".join(f"'{_shown(c)}'" for c in columns)
                self.notes.append(f"{who} verdicts read from {shown}")

    def _shown(self) -> str:
        names = list(self.paths)
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _shown(path: Path | None) -> str:
    return "" if path is None else ".".join(path)


def _sides(names: set[str], words: Sequence[str]) -> tuple[str, str] | None:
    """The two columns named after one of `words` with a side before or behind it."""
    for word in words:
        for suffix in ("", "_name", "_id"):
            for a, b in _SIDES:
                for form in ("{word}_{side}", "{side}_{word}", "{word}{side}"):
                    pair = tuple(form.format(word=word + suffix, side=s) for s in (a, b))
                    if set(pair) <= names:
                        return pair[0], pair[1]
    return None


def _winners(names: set[str], *, beside_policies: bool) -> dict[str, list[str]]:
    """Columns that name a winner, by who decided: human, judge, or plain (unknown)."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        words = name.split("_")
        is_winner = bool(set(words) & set(_WINNER)) and not _is_side(words)
        if beside_policies and name in _PLAIN_WINNER:
            is_winner = True
        if not is_winner or set(words) & _NOT_A_WINNER:
            continue
        rest = {re.sub(r"\d+$", "", word) for word in words} | set(words)
        kind = "human" if rest & set(_HUMAN) else "judge" if rest & set(_JUDGE) else "plain"
        found.setdefault(kind, []).append(name)
    order = {word: place for place, word in enumerate((*_WINNER, *_PLAIN_WINNER))}
    for kind in found:
        found[kind].sort(key=lambda n: (min(order.get(w, 99) for w in n.split("_")), n))
    return found


def _is_side(words: Sequence[str]) -> bool:
    """``winner_model_a``, ``winner_tie``: one column per outcome, not a winner column."""
    return (words[-1] in ("a", "b", "tie", "1", "2") and words[0] == "winner") or "bothbad" in words


def _one_hot(names: set[str]) -> dict[str, str]:
    if not {"winner_model_a", "winner_model_b"} <= names:
        return {}
    wanted = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie",
              "winner_tie_bothbad": "both bad", "winner_tie_both_bad": "both bad"}  # fmt: skip
    return {meaning: name for name, meaning in wanted.items() if name in names}
