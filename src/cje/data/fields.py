"""Which column is what: field names, their synonyms, and the plan a reader follows.

A *role* is the name of a `Dataset` column. A *leaf* is a place in the file that can hold it: a
column, or a field nested in one. `resolve` matches the two and reports what it did.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from cje.data.field_names import ROLE_NAMES, SYNONYMS
from cje.data.field_plan import Plan, Request
from cje.data.guesses import (
    Peek,
    best_guess,
    distinct_parts,
    holds_values,
    is_criterion,
    likely_columns,
    of_the_same_criterion,
    possible_columns,
)
from cje.data.leaf import Leaf, kind_of, normalised
from cje.data.surrogates import check_column_name
from cje.errors import CJEError
from cje.hints import field_hint, field_option

__all__ = [
    "POLICY_PART",
    "Leaf",
    "kind_of",
    "resolve",
]

# Nested objects under which a synonym is accepted; elsewhere only the role's own name is.
_PARENTS = {"metadata", "meta", "scores", "labels", "annotations", "extra", "info", "feedback"}

# ... and there these words may mean anything: an item's own answer, a model's setting.
_ABOUT_THE_ROW = {"metadata", "meta", "extra", "info"}
_PLAIN_WORDS = {
    "label", "labels", "ratings", "outcome", "ground_truth", "annotation", "annotations", "id",
    "group", "run", "config", "human",
}  # fmt: skip

# Roles that may be spread over several columns, and what those columns are called then.
_FAMILIES = {
    "oracle_label": "rater",
    "target_policy_logprobs": "target",
    "judge_score": "judge",
    "policy": "policy_part",
}
POLICY_PART = "policy_part:"
_LISTS = {"oracle_label": "rater_list", "target_policy_logprobs": "target_list"}
_GIVERS = {"judge_score": "judge", "oracle_label": "rater"}

_ROW_IDS = ("id", "uid", "custom_id", "example_id", "sample_id")

# Where two columns are plausible for one of these, the user is asked: no guess is made.
_NEVER_GUESS = ("judge_score", "oracle_label")


def resolve(
    leaves: Sequence[Leaf], request: Request, source: str, peek: Peek | None = None
) -> Plan:
    """Decide which leaf plays which role.

    Explicit `fields` come first; then the role's own name, at the top or nested; then synonyms;
    for scores and labels also names with a word for a judge or a person in them. `peek` counts
    the texts of a column, where its name alone does not decide.
    Raises where a required role has no leaf, or where two columns compete for a score or label.
    """
    return _Resolver(leaves, request, source, peek).run()


class _Resolver:
    def __init__(
        self, leaves: Sequence[Leaf], request: Request, source: str, peek: Peek | None
    ) -> None:
        self.leaves, self.request, self.source, self.peek = leaves, request, source, peek
        self.by_display = {leaf.display: leaf for leaf in leaves}
        self.by_name: dict[str, list[Leaf]] = {}
        self.children: dict[tuple[str, ...], list[Leaf]] = {}
        for leaf in leaves:
            self.by_name.setdefault(normalised(leaf.parts[-1]), []).append(leaf)
            self.children.setdefault(leaf.path[:-1], []).append(leaf)
        self.claimed: set[tuple[str, ...]] = set()
        self.columns: dict[str, tuple[str, ...]] = {}
        self.bools: set[str] = set()
        self.notes: list[str] = []

    def run(self) -> Plan:
        further = self._further_numbers()
        explicit = [role for role in SYNONYMS if role in self.request.fields]
        for role in explicit + [role for role in SYNONYMS if role not in explicit]:
            self._assign(role)
        for family in ("covariate", "group", "key"):
            wanted = {"covariate": "covariates", "group": "groups", "key": "keys"}[family]
            for name in getattr(self.request, wanted):
                self._claim(f"{family}:{name}", self._find(further.pop(name, name), name))
        for name, column in further.items():
            self._claim(f"covariate:{name}", self._find(column, name))
            self.notes.append(f"'{name}' read from '{column}' as a further number (as asked)")
        derived = self._derive_prompt_id()
        self._check_required()
        unused = self._mention_unused()
        if not self.request.text:
            for role in ("prompt", "response"):
                self.columns.pop(role, None)
        return Plan(
            self.columns,
            frozenset(self.bools),
            tuple(self.notes),
            derived,
            self.request.label_map,
            unused,
        )

    def _further_numbers(self) -> dict[str, str]:
        """Names in `fields` that are not roles: further numbers, by their columns."""
        found = {n: c for n, c in self.request.fields.items() if n not in SYNONYMS}
        for name, column in found.items():
            near = difflib.get_close_matches(name, ROLE_NAMES, n=1, cutoff=0.75)
            if near or not isinstance(column, str):
                meant = f"did you mean {near[0]}? " if near else ""
                raise CJEError(
                    "unknown name in fields",
                    value=name,
                    hint=f"{meant}fields maps these names to columns of your file: "
                    f"{', '.join(SYNONYMS)}; or the name of a further number to its column",
                )
        return found

    # ---- one role ---------------------------------------------------------------------------

    def _assign(self, role: str) -> None:
        if role in self.request.fields:
            self._assign_explicit(role, self.request.fields[role])
            return
        if role == "target_policy_logprobs" and self._assign_target_family():
            return
        leaf = self._best(role)
        if leaf is None and role in _GIVERS:
            leaf = self._likely(role)
        if role == "prompt_id" and leaf is not None and self._numbers_rows(leaf):
            return
        if leaf is not None:
            self._place(role, leaf)
            if normalised(leaf.display) != role:
                self.notes.append(f"{role} read from '{leaf.display}'")

    def _numbers_rows(self, leaf: Leaf) -> bool:
        """Whether a mere `id` differs on every row, while the prompts' texts repeat."""
        text = self._best("prompt")
        if self.peek is None or text is None or normalised(leaf.parts[-1]) not in _ROW_IDS:
            return False
        ids, texts = self.peek(leaf), self.peek(text)
        if len(ids) == sum(ids.values()):
            ids, texts = self.peek(leaf, whole=True), self.peek(text, whole=True)
        if len(ids) < sum(ids.values()) or 2 * len(texts) > len(ids) or len(texts) < 2:
            return False
        self.notes.append(f"'{leaf.display}' differs on every row and is not the prompt's id")
        return True

    def _likely(self, role: str) -> Leaf | None:
        """The one column of a judge's (or a person's) values; several are a family of them."""
        free = [leaf for leaf in self.leaves if leaf.path not in self.claimed]
        found = likely_columns(role, free, self.peek)
        if len(found) < 2:
            return found[0] if found else None
        names = distinct_parts([leaf.display for leaf in found])
        if any(map(is_criterion, names)):
            return self._of_one_criterion(role, found)
        for name, leaf in zip(names, found, strict=True):
            self._claim(f"{_GIVERS[role]}:{name}", leaf)
        columns = ", ".join(f"'{leaf.display}'" for leaf in found)
        self.notes.append(f"{role} read from {columns}: {len(found)} {_GIVERS[role]}s")
        return None

    def _of_one_criterion(self, role: str, found: Sequence[Leaf]) -> Leaf:
        """Of columns about several things, the label that is about what the score is about."""
        score = self.columns.get("judge_score")
        if role == "oracle_label" and score is not None:
            same = of_the_same_criterion(found, ".".join(score))
            if len(same) == 1:
                return same[0]
        raise self._which(role, found)

    def _which(self, role: str, found: Sequence[Leaf]) -> CJEError:
        names = ", ".join(leaf.display for leaf in found)
        return CJEError(
            f"several columns could be {role}: {names}",
            where=self.source,
            hint=f"say which one: {field_hint(role, found[0].display)}",
            answers=[field_option(role, leaf.display) for leaf in found],
        )

    def _assign_explicit(self, role: str, given: Any) -> None:
        if given is None:
            return  # the caller switched the role off
        if isinstance(given, str) and role in _FAMILIES and given not in self.by_display:
            parts = [part.strip() for part in given.split(",")]
            given = parts if len(parts) > 1 else given
        if isinstance(given, str):
            self._place(role, self._find(given, role))
            self.notes.append(f"{role} read from '{given}' (as asked)")
            return
        family = _FAMILIES.get(role)
        if family is None:
            raise CJEError(f"fields[{role!r}] must be the name of one column", value=given)
        if isinstance(given, Mapping):
            names = given
        else:
            listed = [str(name) for name in given]
            parts = distinct_parts(listed) if role == "judge_score" and len(listed) > 1 else listed
            names = dict(zip(parts, listed, strict=True))
        for name, column in names.items():
            self._claim(f"{family}:{name}", self._find(column, role))
        self.notes.append(f"{role} read from {', '.join(map(repr, names.values()))} (as asked)")

    def _place(self, role: str, leaf: Leaf) -> None:
        """Put a leaf in its role; objects and lists become families of columns."""
        family = _FAMILIES.get(role)
        if "list" in leaf.kinds and leaf.only("list") and role in _LISTS:
            self._claim(_LISTS[role], leaf)
            return
        children = self.children.get(leaf.path, [])
        if "struct" in leaf.kinds and leaf.only("struct") and children:
            if role == "judge_score" and {"mean"} <= {child.path[-1] for child in children}:
                for child in children:
                    name = {"mean": "judge_score", "variance": "judge_variance"}.get(child.path[-1])
                    if name is not None:
                        self._claim(name, child)
                return
            if role in _GIVERS and any(is_criterion(child.path[-1]) for child in children):
                numbers = [child for child in children if holds_values(child, self.peek)]
                if numbers:
                    self._claim(role, self._of_one_criterion(role, numbers))
                    return
            if family is not None and role != "policy":
                for child in children:
                    self._claim(f"{family}:{child.path[-1]}", child)
                return
        if role == "target_policy_logprobs":
            names = self.request.target_policies or ("target",)
            self._claim(f"target:{names[0]}", leaf)
            return
        self._claim(role, leaf)

    def _claim(self, column: str, leaf: Leaf) -> None:
        for name in (column.partition(":")[2], *leaf.path):
            check_column_name(name, self.source)
        self.columns[column] = leaf.path
        self.claimed.add(leaf.path)
        if "bool" in leaf.kinds and leaf.only("bool"):
            self.bools.add(column)

    def _find(self, name: str, role: str) -> Leaf:
        """The leaf a caller named: a column as it is, or a dotted path into nested objects."""
        leaf = self.by_display.get(name)
        if leaf is None:
            raise CJEError(
                f"no column {name!r} for {role}",
                where=self.source,
                hint=f"available columns: {self._shown()}",
            )
        return leaf

    # ---- recognition ------------------------------------------------------------------------

    def _best(self, role: str) -> Leaf | None:
        ranked = []
        for name in (role, *SYNONYMS[role], *self.request.also.get(role, ())):
            for leaf in self.by_name.get(name, ()):
                rank = self._rank(role, leaf)
                if role == "policy" and leaf.display in {
                    *self.request.groups,
                    *self.request.covariates,
                }:
                    continue  # a subgroup column named "group"
                if rank is not None and leaf.path not in self.claimed:
                    ranked.append((rank, leaf))
        if not ranked:
            return None
        ranked.sort(key=lambda pair: (pair[1].is_empty, pair[0]))
        (rank, best), rest = ranked[0], ranked[1:]
        rivals = [leaf for other, leaf in rest if other[1] == rank[1] and not leaf.is_empty]
        if role in _NEVER_GUESS and rank[0] and rivals:
            raise self._which(role, (best, *rivals))
        if rest:
            also = ", ".join(f"'{leaf.display}'" for _, leaf in rest)
            self.notes.append(f"{role}: '{best.display}' preferred to {also}")
        return best

    def _rank(self, role: str, leaf: Leaf) -> tuple[bool, int, int] | None:
        """(is a synonym, depth, place in the list of synonyms); None if it is not a candidate."""
        parts = leaf.parts
        name, depth = normalised(parts[-1]), len(parts) - 1
        if name == role:
            return (False, depth, 0)
        synonyms = (*SYNONYMS[role], *self.request.also.get(role, ()))
        if name not in synonyms or depth > 1:
            return None
        if depth and normalised(parts[0]) not in _PARENTS:
            return None
        if depth and name in _PLAIN_WORDS and normalised(parts[0]) in _ABOUT_THE_ROW:
            return None
        # a synonym is accepted only where the values fit; the role's own name always
        kind = kind_of(role)
        if kind == "number" and leaf.kinds and leaf.only("text", "list", "struct"):
            lists = role in _FAMILIES and not leaf.only("text")
            words = role in _GIVERS and leaf.only("text") and self.peek is not None
            if not lists and not (words and holds_values(leaf, self.peek)):
                return None
        if kind in ("name", "text", "whole") and not leaf.only("text", "number"):
            return None
        return (True, depth, synonyms.index(name))

    def _assign_target_family(self) -> bool:
        """Flattened columns such as ``target_policy_logprobs.clone`` (CSV, Parquet)."""
        names = ("target_policy_logprobs", *SYNONYMS["target_policy_logprobs"])
        found = {}
        for leaf in self.leaves:
            head, dot, tail = leaf.path[0].partition(".")
            if len(leaf.path) == 1 and dot and tail and normalised(head) in names:
                found[tail] = leaf
        for name, leaf in found.items():
            self._claim(f"target:{name}", leaf)
        return bool(found)

    # ---- the whole ----------------------------------------------------------------------------

    def _derive_prompt_id(self) -> bool:
        """Without an id, equal prompt texts are one prompt."""
        if "prompt_id" in self.columns or "prompt" not in self.columns:
            return False
        self.columns["prompt_id"] = self.columns["prompt"]
        shown = ".".join(self.columns["prompt"])
        self.notes.append(f"no prompt_id: rows with the same text in '{shown}' are one prompt")
        return True

    def _check_required(self) -> None:
        missing = [role for role in self.request.require if not self._has(role)]
        if not missing:
            return
        role = missing[0]
        free = [leaf for leaf in self.leaves if leaf.path not in self.claimed]
        possible = possible_columns(role, free, self.peek)
        if len(possible) > 1:
            raise self._which(role, possible)
        guess = possible[0] if possible else best_guess(role, free, self.peek)
        also = {"prompt_id": ", or a prompt text"}.get(role, "")
        raise CJEError(
            f"missing field {role}{also}",
            where=self.source,
            hint=self._guess(role, guess),
            answers=[field_option(role, guess.display)] if guess is not None else (),
        )

    def _guess(self, role: str, guess: Leaf | None) -> str:
        """A question with the best guess filled in, as a command or an argument to paste."""
        found = f"available columns: {self._shown()}"
        if guess is None:
            return (
                f"{found}; name it with {field_hint(role, 'your_column')} (nested fields with dots)"
            )
        return f"is it '{guess.display}'? then add {field_hint(role, guess.display)}; {found}"

    def _has(self, role: str) -> bool:
        if role in self.columns:
            return True
        family = _FAMILIES.get(role)
        return family is not None and any(
            c == f"{family}_list" or c.startswith(f"{family}:") for c in self.columns
        )

    def _mention_unused(self) -> tuple[tuple[str, ...], ...]:
        inner = {path[:i] for path in self.claimed for i in range(1, len(path))}
        unused = [
            leaf
            for leaf in self.leaves
            if leaf.path not in self.claimed
            and leaf.path not in inner
            and (len(leaf.path) == 1 or leaf.path[:1] in inner)
        ]
        if unused:
            names = [leaf.display for leaf in unused]
            shown = ", ".join(names[:12]) + (
                f" and {len(names) - 12} more" if len(names) > 12 else ""
            )
            self.notes.append(f"not used: {shown}")
        return tuple(leaf.path for leaf in unused if "struct" not in leaf.kinds)

    def _shown(self) -> str:
        names = [leaf.display for leaf in self.leaves]
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"
