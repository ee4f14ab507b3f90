"""`read_comparisons`: tables with two responses and a winner per row -> `Comparisons`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cje.data.codes import Codes
from cje.data.comparisons import Comparisons
from cje.data.labels import split_keys
from cje.data.pair_layout import looks_pairwise
from cje.data.pair_table import PairRows, read_table
from cje.data.sources import Opened, open_sources
from cje.data.tables import RowsTable, Table
from cje.errors import CJEError
from cje.hints import field_hint, option_hint

__all__ = ["is_pairwise", "read_comparisons"]

_HEAD = 20


def is_pairwise(opened: Opened, fields: Mapping[str, Any] | None = None) -> bool:
    """Whether every table compares two responses per row, by the names of its columns."""
    return all(looks_pairwise(_columns(source.table), fields) for source in opened.sources)


def _columns(table: Table) -> set[str]:
    """Names at the top; of rows in memory, those of the first ones."""
    if isinstance(table, RowsTable):
        head = table.rows[:_HEAD] if isinstance(table.rows, list | tuple) else ()
        return {str(key) for row in head if isinstance(row, Mapping) for key in row}
    return {leaf.path[0] for leaf in table.leaves()}


def read_comparisons(
    source: Any,
    *,
    fields: Mapping[str, Any] | None = None,
    labels: Any = None,
    on: str | Sequence[str] | None = None,
    covariates: Collection[str] = (),
    groups: Collection[str] = (),
    label_map: Mapping[str, float | None] | None = None,
    sheet: str | None = None,
    skip_bad_rows: bool = False,
) -> Comparisons:
    """Read comparisons of two responses per row.

    Recognised: ``model_a, model_b, winner`` and their relatives (``generator_1, generator_2,
    preference``), with verdicts of people, of a judge, or of both in one row; the layouts of the
    Arena (votes and one-hot), MT-bench (human judgements, GPT-4 pairs in both orders) and
    AlpacaEval. ``dataset.metadata["reading"]`` says how each column was read.

    Parameters
    ----------
    source : path, data frame, list of dicts
    fields : mapping, optional
        ``model_a``, ``model_b``, ``human_winner``, ``judge_winner``, ``prompt_id``, ``response_a``,
        ``response_b``, ``turn``, ``label_propensity`` -> column, where names differ.
    labels : optional
        A table with people's verdicts: with the two policies (in either order) and the prompt, or
        with the prompt alone where each prompt has one comparison.
    on : str, optional
        The prompt's column, ``"id=question_id"`` where the names differ.
    covariates : names
        Style of the first minus style of the second: ``length``, ``markdown``, ``headers``,
        ``lists``, ``bold`` from the responses, or the common name of two number columns
        (``tokens`` for ``tokens_a, tokens_b``). Counts as relative differences.
    groups : names of columns to keep as subgroups
    label_map : mapping, optional
        Values of further words: 1 the first won, 0 the second, 0.5 a tie.
    skip_bad_rows : bool
        Leave unreadable verdicts out and report how many.

    Raises
    ------
    CJEError
        Naming file, row, column, value and what to do.

    Examples
    --------
    >>> rows = [{"question_id": 1, "model_a": "new", "model_b": "old", "judge_winner": "model_a",
    ...          "human_winner": "tie"},
    ...         {"question_id": 2, "model_a": "old", "model_b": "new", "judge_winner": "new",
    ...          "human_winner": None}]
    >>> data = read_comparisons(rows)
    >>> data.judge.tolist(), data.human.tolist()
    ([1.0, 0.0], [0.5, nan])
    """
    opened = open_sources(source, None, sheet, skip_bad_rows=skip_bad_rows)
    rows = PairRows(notes=list(opened.notes), label_map=dict(label_map or {}), skip=skip_bad_rows)
    names, renamed = split_keys(on)
    if names is not None and len(names) != 1:
        raise CJEError("verdicts are joined by one column, the prompt's", value=names)
    asked = dict(fields or {})
    if names is not None:
        asked.setdefault("prompt_id", names[0])
    for part in opened.sources:
        read_table(rows, part.table, asked, covariates, groups, human=False)
    if labels is not None:
        key = None if names is None else renamed.get(names[0], names[0])
        _join_verdicts(rows, labels, key, fields)
    if not rows.prompt:
        raise CJEError("there are no comparisons")
    return Comparisons.from_arrays(
        prompt_id=rows.prompt,
        first=rows.first,
        second=rows.second,
        judge=np.concatenate(rows.judge),
        human=np.concatenate(rows.human),
        item=Codes.encode(rows.turn).codes,
        label_propensity=np.concatenate(rows.propensity),
        covariates={name: np.concatenate(parts) for name, parts in rows.covariates.items()},
        groups=rows.groups,
        metadata={"reading": tuple(rows.notes)},
    )


# ---- verdicts of another file -----------------------------------------------------------------


def _join_verdicts(
    rows: PairRows,
    labels: Any,
    key: str | None,
    fields: Mapping[str, Any] | None,
) -> None:
    """Put people's verdicts of another table on the comparisons."""
    opened = open_sources(labels, None, skip_bad_rows=rows.skip)
    if len(opened.sources) != 1:
        raise CJEError("verdicts come from one file or table", value=len(opened.sources))
    table = opened.sources[0].table
    asked: dict[str, Any] = {k: v for k, v in (fields or {}).items() if k != "judge_winner"}
    if key is not None:
        asked["prompt_id"] = key
    found = PairRows(label_map=rows.label_map, skip=rows.skip)
    read_table(found, table, asked, (), (), human=True, sides=_sides_of(rows, table.name))
    human = np.concatenate(found.human)
    if np.isnan(human).all():
        raise CJEError(
            "the file of verdicts has none by people", where=table.name,
            hint=f"name their column: {field_hint('human_winner', 'your_column')}",
        )  # fmt: skip
    place = {_key(rows, row) for row in range(len(rows.prompt))}
    given = np.flatnonzero(~np.isnan(human)).tolist()
    keep = [row for row in given if _key(found, row) in place]
    if not keep:
        raise CJEError(
            f"none of the {len(given)} verdicts fits a comparison by prompt and policies",
            where=table.name, value=_key(found, given[0]),
            hint=f"name the prompt's column: {option_hint('on', 'your_column')}",
        )  # fmt: skip
    rows.notes.append(f"{table.name}: {len(keep)} of {len(given)} human verdicts matched")
    for name in ("prompt", "first", "second", "turn"):
        getattr(rows, name).extend(getattr(found, name)[row] for row in keep)
    rows.judge.append(np.full(len(keep), np.nan))
    rows.human.append(human[keep])
    rows.propensity.append(np.concatenate(found.propensity)[keep])
    _copy_columns(rows, [_key(rows, row) for row in range(len(rows.prompt))], len(keep))


def _key(rows: PairRows, row: int) -> tuple[str, frozenset[str], str]:
    return rows.prompt[row], frozenset((rows.first[row], rows.second[row])), rows.turn[row]


def _sides_of(rows: PairRows, name: str) -> Callable[[str], tuple[str, str]]:
    """The policies of a prompt's one comparison, in the order of its first row."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for prompt, first, second in zip(rows.prompt, rows.first, rows.second, strict=True):
        pairs.setdefault(prompt, []).append((first, second))

    def sides(prompt: str) -> tuple[str, str]:
        held = pairs.get(prompt, [("A", "B")])
        if len({frozenset(pair) for pair in held}) > 1:
            raise CJEError(
                "a verdict fits several comparisons of its prompt",
                where=name,
                value=prompt,
                hint="add the two policies to the file of verdicts, as columns model_a and model_b",
            )
        return held[0]

    return sides


def _copy_columns(rows: PairRows, keys: list[Any], n_new: int) -> None:
    """Style and subgroups of the joined rows: those of the comparison they belong to."""
    start = len(keys) - n_new
    where: dict[Any, int] = {}
    for row in range(start):
        where.setdefault(keys[row], row)
    source = [where[key] for key in keys[start:]]
    turned = np.array([
        1.0 if rows.first[start + k] == rows.first[row] else -1.0 for k, row in enumerate(source)
    ])  # fmt: skip
    for parts in rows.covariates.values():
        parts.append(np.concatenate(parts)[source] * turned)
    for names in rows.groups.values():
        names.extend([names[row] for row in source])
