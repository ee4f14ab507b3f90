"""One table of comparisons -> rows of prompts, policies, verdicts and style."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cje.data.pair_cells import Cells, numbers_in
from cje.data.pair_layout import PairLayout, find_layout
from cje.data.style import STYLES, relative_difference, style_of
from cje.data.tables import Table
from cje.data.verdicts import read_verdicts
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray

__all__ = ["PairRows", "read_table"]

_SIDE_NAMES = ("A", "B")
# Words in the name of a judge that is a model; anybody else is a person.
_MODEL_STARTS = ("gpt", "claude", "gemini", "llama", "llm", "mistral", "mixtral", "qwen",
                 "deepseek", "vicuna", "prometheus", "chatglm")  # fmt: skip
_MODEL_WORDS = frozenset({"ai", "auto", "autorater", "command", "model", "pair"})


@dataclass
class PairRows:
    """Columns of all tables while they are put one after another."""

    prompt: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    judge: list[FloatArray] = field(default_factory=list)
    human: list[FloatArray] = field(default_factory=list)
    propensity: list[FloatArray] = field(default_factory=list)
    covariates: dict[str, list[FloatArray]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    label_map: Mapping[str, float | None] = field(default_factory=dict)
    skip: bool = False  # unreadable verdicts are left out


def read_table(
    rows: PairRows,
    table: Table,
    fields: Mapping[str, Any],
    covariates: Collection[str],
    groups: Collection[str],
    *,
    human: bool,
    sides: Callable[[str], tuple[str, str]] | None = None,
) -> None:
    """Add the rows of a table; `human`: its verdicts are people's.

    `sides` gives the two policies of a prompt, for a table that does not name them.
    """
    leaves = table.leaves()
    known = {leaf.display for leaf in leaves}
    kept = {k: v for k, v in fields.items() if not human or v in known}
    layout = find_layout(leaves, kept, table.name, human=human)
    cells = Cells(table)
    n = cells.height
    prompt = _prompts(cells, layout, rows, n)
    first, second = _policies(cells, layout, prompt, sides)
    judge, back, people = _verdicts(cells, layout, first, second, rows)
    first, second, turned = _as_shown(cells, layout, first, second)
    judge, back, people = (
        None if v is None else np.where(turned, 1.0 - v, v) for v in (judge, back, people)
    )
    turn = ["" if t is None else str(t) for t in cells.get(layout.turn, n)]
    propensity = numbers_in(cells, layout.propensity, n)
    if judge is None and people is None:
        raise CJEError("the comparisons have no verdict", where=table.name)
    missing = np.full(n, np.nan)
    side = np.where(turned, -1.0, 1.0)
    style = {name: side * _style(cells, layout, name, table) for name in covariates}
    level = {name: _levels(cells, name, table) for name in groups}
    columns = [(first, second, missing if judge is None else judge,
                missing if people is None else people, propensity, 1.0)]  # fmt: skip
    if back is not None:  # the other order: the same comparison, the second response shown first
        columns.append((second, first, 1.0 - back, missing, missing, -1.0))
    for a, b, by_judge, by_people, chance, sign in columns:
        rows.prompt += prompt
        rows.first += a
        rows.second += b
        rows.turn += turn
        rows.judge.append(by_judge)
        rows.human.append(by_people)
        rows.propensity.append(chance)
        for name, values in style.items():
            rows.covariates.setdefault(name, []).append(sign * values)
        for name, names in level.items():
            rows.groups.setdefault(name, []).extend(names)
    rows.notes += [note for note in layout.notes if note not in rows.notes]


def _policies(
    cells: Cells,
    layout: PairLayout,
    prompts: list[str],
    sides: Callable[[str], tuple[str, str]] | None,
) -> tuple[list[str], list[str]]:
    if layout.first is None or layout.second is None:
        pairs = [_SIDE_NAMES if sides is None else sides(prompt) for prompt in prompts]
        return [a for a, _ in pairs], [b for _, b in pairs]
    found = []
    for path in (layout.first, layout.second):
        column = []
        for row, cell in enumerate(cells.get(path, 0)):
            name = "" if cell is None else str(cell).strip()
            if not name:
                raise CJEError(
                    f"the policy in '{'.'.join(path)}' is missing",
                    where=f"{cells.table.name}, row {row + 1}",
                    hint="fill it in, or remove the row",
                )
            column.append(name)
        found.append(column)
    return found[0], found[1]


def _as_shown(
    cells: Cells, layout: PairLayout, first: list[str], second: list[str]
) -> tuple[list[str], list[str], BoolArray]:
    """The policies in the order shown: ``sides`` of `cje labels export` is ab or ba."""
    turned = np.array([str(cell) == "ba" for cell in cells.get(layout.sides, len(first))])
    pairs = [
        (b, a) if back else (a, b)
        for a, b, back in zip(first, second, turned.tolist(), strict=True)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs], turned


def _verdicts(
    cells: Cells,
    layout: PairLayout,
    first: list[str],
    second: list[str],
    rows: PairRows,
) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
    """The judge's verdicts, those of the other order, and people's (raters averaged)."""
    name, notes = cells.table.name, rows.notes

    def one(path: tuple[str, ...]) -> FloatArray:
        found = read_verdicts(
            cells.get(path, 0),
            first,
            second,
            column=".".join(path),
            where=name,
            label_map=rows.label_map,
            skip=rows.skip,
        )
        if found.note:
            notes.append(found.note)
        return found.value

    if layout.one_hot:
        return None, None, _one_hot(cells, layout)
    judge = [one(path) for path in layout.judge]
    people = [one(path) for path in layout.human]
    by_people = _mean_verdict(people) if people else None
    if len(people) > 1:
        notes.append(f"{len(people)} columns of human verdicts are {len(people)} raters")
    by_judge = _mean_verdict(judge[:1] if layout.orders else judge) if judge else None
    if len(judge) > 1 and not layout.orders:
        notes.append(f"{len(judge)} columns of judges' verdicts are averaged")
    if layout.who is not None and by_people is not None:
        by_judge, by_people = _by_who(cells, layout.who, by_people, notes)
    return by_judge, judge[1] if layout.orders else None, by_people


def _by_who(
    cells: Cells, who: tuple[str, ...], verdicts: FloatArray, notes: list[str]
) -> tuple[FloatArray, FloatArray]:
    """One winner column by people and models: split by the name of who judged."""
    names = ["" if cell is None else str(cell) for cell in cells.get(who, 0)]
    machine = np.array([_is_model(name) for name in names])
    models = sorted({name for name, is_one in zip(names, machine, strict=True) if is_one})
    people = len({name for name, is_one in zip(names, machine, strict=True) if not is_one})
    shown = ", ".join(models[:5]) + (" and more" if len(models) > 5 else "")
    said = f"models ({shown}) and {people} people" if models and people else (
        f"models ({shown})" if models else f"{people} people"
    )  # fmt: skip
    notes.append(f"'{'.'.join(who)}' says who judged: {said}")
    return np.where(machine, verdicts, np.nan), np.where(machine, np.nan, verdicts)


def _is_model(name: str) -> bool:
    words = re.split(r"[^a-z]+", name.lower())
    return any(word in _MODEL_WORDS or word.startswith(_MODEL_STARTS) for word in words)


def _one_hot(cells: Cells, layout: PairLayout) -> FloatArray:
    """``winner_model_a``, ``winner_model_b``, ``winner_tie``: the column that holds a one."""
    worth = {"a": 1.0, "b": 0.0, "tie": 0.5, "both bad": 0.5}
    columns = {m: numbers_in(cells, path, 0) for m, path in layout.one_hot.items()}
    value = np.full(cells.height, np.nan)
    chosen = np.zeros(cells.height)
    for meaning, column in columns.items():
        value[column == 1.0] = worth[meaning]
        chosen += column == 1.0
    if (chosen > 1).any():
        row = int(np.argmax(chosen > 1))
        raise CJEError(
            "two outcomes for one comparison", where=f"{cells.table.name}, row {row + 1}"
        )
    return value


def _mean_verdict(columns: Sequence[FloatArray]) -> FloatArray:
    """The mean of those that there are in each row; NaN where there is none."""
    stacked = np.stack(columns)
    known = ~np.isnan(stacked)
    total = np.where(known, stacked, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _prompts(cells: Cells, layout: PairLayout, rows: PairRows, n: int) -> list[str]:
    """The prompt of each row: an id, or the text where ids number the rows; else each row alone."""
    ids = None
    if layout.prompt_id is not None:
        ids = ["" if c is None else str(c) for c in cells.get(layout.prompt_id, n)]
    texts = None
    if layout.prompt is not None and (ids is None or len(set(ids)) == len(ids)):
        given = cells.get(layout.prompt, n)
        if all(isinstance(cell, str) for cell in given):
            texts = [hashlib.blake2b(str(c).encode(), digest_size=10).hexdigest() for c in given]
    if ids is not None and (texts is None or len(set(texts)) == len(ids)):
        empty = next((row for row, name in enumerate(ids) if not name), None)
        if empty is not None:
            raise CJEError("prompt_id is missing", where=f"{cells.table.name}, row {empty + 1}")
        return ids
    if texts is not None:
        rows.notes.append("rows with the same prompt text are one prompt")
        return texts
    rows.notes.append("no prompt column: every row is a prompt of its own")
    return [f"{cells.table.name} row {row + 1}" for row in range(n)]


def _style(cells: Cells, layout: PairLayout, name: str, table: Table) -> FloatArray:
    if name in layout.numbers:
        a, b = (numbers_in(cells, path, 0) for path in layout.numbers[name])
        counts = bool((a >= 0).all() and (b >= 0).all())
        return relative_difference(a, b) if counts else a - b
    if name in STYLES and layout.texts is not None:
        return style_of(name, *(cells.get(path, 0) for path in layout.texts))
    there = [*(STYLES if layout.texts is not None else ()), *layout.numbers]
    raise CJEError(
        f"no covariate {name!r}", where=table.name,
        hint=f"available: {', '.join(there) or 'none: the file has neither responses nor counts'}",
    )  # fmt: skip


def _levels(cells: Cells, name: str, table: Table) -> list[str]:
    path = next((leaf.path for leaf in table.leaves() if leaf.display == name), None)
    if path is None:
        known = ", ".join(leaf.display for leaf in table.leaves()[:20])
        raise CJEError(
            "no such subgroup column", where=table.name, value=name,
            hint=f"available columns: {known}",
        )  # fmt: skip
    return ["missing" if cell is None else str(cell) for cell in cells.get(path, 0)]
