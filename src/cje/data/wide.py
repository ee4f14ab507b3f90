"""Versions side by side: one row per prompt, columns such as `score_A, score_B, human_A, human_B`.

Each version becomes a source of its own, as if it had come in a file of its own. The parts of the
names that tell versions apart are found from what is left of names when a role is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from cje.data.field_names import SYNONYMS, may_play_a_role
from cje.data.field_plan import Plan, Request
from cje.data.fields import Leaf
from cje.data.guesses import Peek, is_about, is_criterion, is_judge
from cje.data.leaf import normalised, words_of
from cje.data.problems import BadRows
from cje.data.sources import Source
from cje.data.tables import Loaded, Table
from cje.errors import CJEError
from cje.hints import field_hint, field_option, flag_option, option_hint

__all__ = ["spread"]

# Roles that may stand in columns of a version's own.
_OWN_ROLES = ("judge_score", "oracle_label", "response", "policy", "judge_variance")
_VERDICTS = frozenset(
    {"winner", "preference", "preferred", "verdict", "choice", "vote", "human_winner",
     "judge_winner", "chosen"}
)  # fmt: skip
_CUT = re.compile(r"[_\s.|:/\-]+|(?<=[a-z])(?=[A-Z0-9])")
_MOST_BLOCKS = 50
_MOST_LEAVES = 2000


@dataclass(frozen=True)
class _Block:
    """One version: what its own columns are called without its name, and which columns they are."""

    name: str
    columns: Mapping[str, Leaf]


class BlockTable:
    """The rows of one version in a table that has several side by side."""

    def __init__(self, table: Table, block: _Block, shared: Sequence[Leaf], note: str) -> None:
        self._table, self._block, self._shared = table, block, list(shared)
        self.name = table.name
        self.notes = (*table.notes, note)

    def leaves(self) -> list[Leaf]:
        own = [Leaf((name,), leaf.kinds) for name, leaf in self._block.columns.items()]
        return [*self._shared, *own]

    def load(self, plan: Plan, bad: BadRows) -> Loaded:
        """The version's rows; a prompt for which all its columns are empty has no row of it."""
        own: dict[tuple[str, ...], tuple[str, ...]] = {
            (name,): leaf.path for name, leaf in self._block.columns.items()
        }
        columns = {column: own.get(path, path) for column, path in plan.columns.items()}
        loaded = self._table.load(replace(plan, columns=columns), bad)
        mine = [column for column, path in plan.columns.items() if path in own]
        if not mine:
            return loaded
        frame = loaded.frame
        there = ~frame.select(pl.all_horizontal(pl.col(mine).is_null())).to_series().to_numpy()
        there |= ~loaded.good
        if there.all():
            return loaded
        at, row_name = np.flatnonzero(there), loaded.row_name
        return replace(
            loaded,
            frame=frame.filter(pl.Series(there)),
            good=loaded.good[there],
            row_name=lambda i: row_name(int(at[i])),
        )


def spread(
    source: Source, request: Request, wide: Sequence[str] | None, peek: Peek
) -> list[Source]:
    """The source itself, or one source per version where versions stand side by side.

    Parameters
    ----------
    wide : sequence of str, optional
        Names of the versions as they occur in the columns; empty: they do not stand side by side.

    Raises
    ------
    CJEError
        The columns could be versions or judges, or a version that was named has no column.
    """
    if wide is not None and not wide:
        return [source]
    leaves = source.table.leaves()
    if wide is None and (source.explicit or len(leaves) > _MOST_LEAVES or _says_long(request)):
        return [source]
    blocks = _blocks(leaves, wide, source.table.name, peek)
    if not blocks:
        return [source]
    used = {leaf.path for block in blocks for leaf in block.columns.values()}
    above = {path[:i] for path in used for i in range(1, len(path))}
    shared = [leaf for leaf in leaves if leaf.path not in used | above]
    shown = "; ".join(
        f"{block.name}: {', '.join(leaf.display for leaf in block.columns.values())}"
        for block in blocks[:4]
    )
    note = f"{len(blocks)} versions side by side ({shown})"
    found = []
    for block in blocks:
        table = BlockTable(source.table, block, shared, note)
        part = Source(table, block.name, explicit="policy" not in block.columns)
        part.unpacked = source.unpacked
        found.append(part)
    return found


def _says_long(request: Request) -> bool:
    """Whether the caller named a column of scores or versions: then a row is a response."""
    named = {role for role, column in request.fields.items() if column is not None}
    return bool(named & {"judge_score", "policy"})


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """Every way to cut a name in two between words."""
    for found in _CUT.finditer(name):
        left, right = name[: found.start()], name[found.end() :]
        if left and right:
            yield left, right


def _role_of(stem: str) -> str | None:
    plain = normalised(stem)
    for role in _OWN_ROLES:
        if plain == role or plain in SYNONYMS[role]:
            return role
    return None


Stem = tuple[str, str, str]  # role, stem, the side the version stands on


def _stems(leaves: Sequence[Leaf]) -> dict[Stem, dict[str, Leaf]]:
    """Stem -> version -> column; a column belongs to the stem that most versions have."""
    found: dict[Stem, dict[str, Leaf]] = {}
    for leaf in leaves:
        if "struct" in leaf.kinds or any(map(may_play_a_role, (leaf.display, *leaf.path[:-1]))):
            continue
        for left, right in _cuts(leaf.display):
            for stem, block, side in ((left, right, "after"), (right, left, "before")):
                role = _role_of(stem)
                if role is not None and not is_about(block):
                    found.setdefault((role, normalised(stem), side), {})[block] = leaf
    taken: set[tuple[str, ...]] = set()
    kept: dict[Stem, dict[str, Leaf]] = {}
    for key in sorted(found, key=lambda k: (-len(k[1]), k)):
        blocks = {name: leaf for name, leaf in found[key].items() if leaf.path not in taken}
        if 2 <= len(blocks) <= _MOST_BLOCKS:
            kept[key] = blocks
            taken |= {leaf.path for leaf in blocks.values()}
    return kept


def _blocks(
    leaves: Sequence[Leaf], wide: Sequence[str] | None, name: str, peek: Peek
) -> list[_Block]:
    if wide is not None:
        return [_block(version, leaves, name) for version in wide]
    stems = _stems(leaves)
    names = _versions(leaves, stems)
    if len(names) < 2 or all(map(is_criterion, names)):
        return []
    own = {leaf.path for blocks in stems.values() for v, leaf in blocks.items() if v in names}
    rest = [leaf for leaf in leaves if leaf.path not in own and leaf.display not in names]
    plain = {normalised(leaf.parts[-1]) for leaf in rest}
    if plain & _VERDICTS or _has_versions_in_rows(rest, peek):
        return []
    roles = {key[0] for key, blocks in stems.items() if len(set(blocks) & set(names)) > 1}
    labels_beside = any(_role_of(n) == "oracle_label" for n in plain)
    if not roles & {"oracle_label", "response", "policy"}:
        if labels_beside or not _are_versions(names):
            return []
        _ask(names, [stems_of(stems, "judge_score")[v] for v in names], name)
    if all(n.isdigit() for n in names) and "response" not in roles:
        scores = stems_of(stems, "judge_score")
        _ask(names, [scores[v] for v in names if v in scores], name)
    return [_block(version, leaves, name) for version in names]


def stems_of(stems: Mapping[Stem, Mapping[str, Leaf]], role: str) -> dict[str, Leaf]:
    """Version -> column of a role."""
    return {
        v: leaf for key, blocks in stems.items() if key[0] == role for v, leaf in blocks.items()
    }


def _versions(leaves: Sequence[Leaf], stems: Mapping[Stem, Mapping[str, Leaf]]) -> list[str]:
    """The versions' names: those with a score each, that most roles agree on."""
    bare = {leaf.display for leaf in leaves if len(leaf.path) == 1 and leaf.only("number", "text")}
    best: tuple[int, int, list[str]] = (0, 0, [])
    for key, blocks in stems.items():
        names = list(blocks)
        if key[0] == "oracle_label" and not set(names) <= bare:
            continue  # versions without scores of their own
        if key[0] not in ("judge_score", "oracle_label"):
            continue
        roles = {k[0] for k, other in stems.items() if len(set(other) & set(names)) > 1}
        candidate = (len(roles | {"judge_score"}), len(names), names)
        if candidate[:2] > best[:2]:
            best = candidate
    return best[2]


def _are_versions(names: Sequence[str]) -> bool:
    """Whether the names say neither what was judged nor who judged, as far as one can tell."""
    return not any(is_criterion(n) or any(map(is_judge, words_of(n))) for n in names)


def _has_versions_in_rows(rest: Sequence[Leaf], peek: Peek) -> bool:
    """Whether another column names the policy row by row."""
    known = {"policy", *SYNONYMS["policy"]}
    columns = [leaf for leaf in rest if len(leaf.path) == 1 and normalised(leaf.display) in known]
    return any(len(peek(leaf, whole=True)) > 1 for leaf in columns)


def _block(version: str, leaves: Sequence[Leaf], name: str) -> _Block:
    """All columns with the version's name in them, by what is left of their names."""
    columns: dict[str, Leaf] = {}
    for leaf in leaves:
        if "struct" in leaf.kinds:
            continue
        stem = _without(leaf.display, version)
        if stem is None:
            continue
        role = "judge_score" if not stem else _role_of(stem)
        columns.setdefault(role or stem, leaf)
    if not columns:
        shown = ", ".join(leaf.display for leaf in leaves[:20])
        raise CJEError(
            "no column has this version's name in it", where=name, value=version,
            hint=f"available columns: {shown}",
        )  # fmt: skip
    return _Block(version, columns)


def _without(name: str, version: str) -> str | None:
    """What is left of a name without the version's; None where it does not have it."""
    if name == version:
        return ""
    for left, right in _cuts(name):
        if version in (left, right):
            return right if left == version else left
    return None


def _ask(names: Sequence[str], columns: Collection[Leaf], where: str) -> None:
    shown = ", ".join(leaf.display for leaf in columns)
    listed = ",".join(leaf.display for leaf in columns)
    raise CJEError(
        f"{shown}: versions side by side, or several judges of one response?",
        where=where,
        hint=f"versions: {option_hint('wide', ','.join(names))}; judges: "
        f"{field_hint('judge_score', listed)}",
        answers=[flag_option("wide", ",".join(names)), field_option("judge_score", listed)],
    )
