"""Labels from a separate file, joined by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from cje.data.assemble import Assembly, LongLabels
from cje.data.codes import Codes
from cje.data.field_names import SYNONYMS
from cje.data.field_plan import Request
from cje.data.fields import Leaf, resolve
from cje.data.leaf import normalised
from cje.data.problems import BadRows
from cje.data.tables import Table
from cje.data.values import mapping_note
from cje.errors import CJEError
from cje.hints import by_interface, field_hint, flag_option, option_hint
from cje.kernels.arrays import IntArray

__all__ = ["join_labels", "key_columns", "split_keys"]

_KEY_ROLES = ("policy", "prompt_id", "draw_idx")
# In a file of labels these words mean the label, not the judge's score.
# Columns of a file of labels that go with its labels.
_CARRIED = ("rater", "label_propensity")
_LABEL_WORDS = ("score", "rating", "value", "grade")


def key_columns(
    on: Sequence[str] | None,
    labels: Sequence[Leaf],
    data: Sequence[Sequence[Leaf]],
    renamed: Mapping[str, str],
) -> list[str]:
    """Canonical names of the columns to join on.

    By default every one of policy, prompt_id and draw_idx that the label file has. A name given
    in `on` is a column of both files where both have it, and otherwise a role or a synonym.
    """
    if on is None:
        known = {normalised(leaf.parts[-1]) for leaf in labels}
        roles = [role for role in _KEY_ROLES if known & {role, *SYNONYMS[role]}]
        return roles or ["prompt_id"]
    keys = []
    for name in on:
        in_data = all(name in {leaf.display for leaf in leaves} for leaves in data)
        in_both = in_data and renamed.get(name, name) in {leaf.display for leaf in labels}
        role = next((r for r in _KEY_ROLES if normalised(name) in (r, *SYNONYMS[r])), None)
        is_role = role is not None and (role == normalised(name) or not in_both)
        keys.append(str(role) if is_role else f"key:{name}")
    return keys


def split_keys(on: str | Sequence[str] | None) -> tuple[list[str] | None, dict[str, str]]:
    """`["id=question_id"]` as the data's names, and the labels' names where they differ."""
    if on is None:
        return None, {}
    names, renamed = [], {}
    for given in [on] if isinstance(on, str) else list(on):
        left, sign, right = given.partition("=")
        names.append(left.strip())
        if sign:
            renamed[left.strip()] = right.strip()
    return names, renamed


def join_labels(
    assembly: Assembly,
    table: Table,
    keys: Sequence[str],
    fields: dict[str, object],
    renamed: Mapping[str, str],
    label_map: Mapping[str, float | None],
) -> None:
    """Put the labels of `table` on the rows of `assembly`, and report how many were matched.

    Refuses a key that fits several rows of the data, two labels for one key (unless a rater
    column tells them apart), and labels that contradict those already there.
    """
    labels = _load(assembly, table, keys, fields, renamed, label_map)
    data = _data_keys(assembly, keys)
    _refuse_ambiguous_data(labels, data, keys, table.name)
    rated = "rater" in labels.columns
    _refuse_repeats(labels, [*keys, "rater"] if rated else list(keys), table.name, rated)
    joined = labels.join(data, on=list(keys), how="left", maintain_order="left")
    landed = joined.filter(pl.col("row").is_not_null())
    lost = joined.filter(pl.col("row").is_null())
    if not landed.height:
        raise CJEError(
            f"none of the {labels.height} labels fits a row by {_words(keys)}",
            where=table.name,
            value=labels.select(keys).row(0),
            hint=f"the data have keys such as {data.select(keys).row(0)}; choose columns: "
            f"{option_hint('on', 'your_column')}",
        )
    note = f"{table.name}: {landed.height} of {labels.height} labels matched by {_words(keys)}"
    if lost.height:
        note += f"; {lost.height} fit no row (first: {lost.select(keys).row(0)})"
    assembly.notes.append(note)
    _attach(assembly, landed, table.name)


def _load(
    assembly: Assembly,
    table: Table,
    keys: Sequence[str],
    fields: dict[str, object],
    renamed: Mapping[str, str],
    label_map: Mapping[str, float | None],
) -> pl.DataFrame:
    """The labels with their keys under the data's names, their raters and propensities."""
    own = {key: renamed.get(_words([key]), _words([key])) for key in keys}
    raw_keys = [own[key] for key in keys if key.startswith("key:")]
    roles = [key for key in keys if not key.startswith("key:")]
    kept = (*roles, "oracle_label", *_CARRIED)
    there = {leaf.display for leaf in table.leaves()}
    mapped = {k: v for k, v in fields.items() if k in kept and (v is None or v in there)}
    mapped |= {role: own[role] for role in roles if own[role] != role}
    unused = [r for r in SYNONYMS if r not in kept]
    request = Request(
        fields={**mapped, **dict.fromkeys(unused)},
        keys=raw_keys,
        require=(*roles, "oracle_label"),
        also={"oracle_label": _LABEL_WORDS},
        label_map=label_map,
    )
    plan = resolve(table.leaves(), request, table.name)
    loaded = table.load(plan, BadRows(skip=False))
    frame = loaded.frame.rename(
        {f"key:{own[key]}": key for key in keys if key.startswith("key:") and own[key] != key[4:]}
    )
    assembly.notes += [
        f"{table.name}: {note}"
        for column, numbers in loaded.texts.items()
        if (note := mapping_note(column, numbers.mapping or {}))
    ]
    if "oracle_label" not in frame.columns:
        raise CJEError(
            "a file of labels has one label per row", where=table.name,
            hint="write one row per rater with a column 'rater'",
        )  # fmt: skip
    for column in (*keys, *(["rater"] if "rater" in frame.columns else [])):
        _refuse_rows(frame[column].is_null(), column, "is missing", loaded.row_name, table.name)
    wrong = ~frame["oracle_label"].is_finite().fill_null(True)
    _refuse_rows(wrong, "oracle_label", "is not a finite number", loaded.row_name, table.name)
    frame = frame.drop_nulls("oracle_label")
    if not frame.height:
        raise CJEError("the file has no labels", where=table.name, hint="every label is empty")
    return frame.with_columns(_as_keys(keys))


def _refuse_rows(
    wrong: pl.Series, column: str, what: str, row_name: Callable[[int], str], name: str
) -> None:
    if wrong.any():
        where = f"{name}, {row_name(int(np.argmax(wrong.to_numpy())))}, field {column}"
        raise CJEError(f"{column} {what}", where=where, hint="correct the file of labels")


def _as_keys(keys: Sequence[str]) -> list[pl.Expr]:
    return [pl.col(key).cast(pl.Int64 if key == "draw_idx" else pl.String) for key in keys]


def _data_keys(assembly: Assembly, keys: Sequence[str]) -> pl.DataFrame:
    frame = assembly.frame
    if "policy" in keys and assembly.policy is not None:
        names = pl.Series(list(assembly.policy.names))
        frame = frame.with_columns(names.gather(assembly.policy.codes).alias("policy"))
    if "draw_idx" in keys and "draw_idx" not in frame.columns:
        frame = frame.with_columns(pl.lit(0, dtype=pl.Int64).alias("draw_idx"))
    return frame.select(_as_keys(keys)).with_columns(pl.int_range(pl.len()).alias("row"))


def _refuse_ambiguous_data(
    labels: pl.DataFrame, data: pl.DataFrame, keys: Sequence[str], name: str
) -> None:
    several = (
        data.join(labels.select(keys).unique(), on=list(keys), how="semi")
        .group_by(keys, maintain_order=True)
        .len()
        .filter(pl.col("len") > 1)
    )
    if several.height:
        *key, count = several.row(0)
        more = [role for role in _KEY_ROLES if role not in keys]
        raise CJEError(
            f"ambiguous key: {several.height} labels each fit several rows of the data",
            where=name,
            value=f"{_words(keys)} = {tuple(key)} fits {count} rows",
            hint=f"add columns to the label file that distinguish them (such as {', '.join(more)}) "
            f"and name all of them: {_on_hint((*keys, *more[:1]))}",
        )


def _refuse_repeats(labels: pl.DataFrame, keys: Sequence[str], name: str, rated: bool) -> None:
    twice = labels.group_by(keys, maintain_order=True).len().filter(pl.col("len") > 1)
    if twice.height:
        *key, count = twice.row(0)
        hint = "remove the repeats" if rated else (
            "remove the repeats, or add a column 'rater' if several people labelled one response"
        )  # fmt: skip
        raise CJEError(
            f"ambiguous key: {twice.height} keys have more than one label",
            where=name,
            value=f"{_words(keys)} = {tuple(key)} occurs {count} times",
            hint=hint,
        )


def _attach(assembly: Assembly, landed: pl.DataFrame, name: str) -> None:
    rows = landed["row"].to_numpy()
    if "label_propensity" in landed.columns:
        _attach_propensity(assembly, rows, landed["label_propensity"], name)
    values = landed["oracle_label"].to_numpy()
    if any(c == "rater_list" or c.startswith("rater:") for c in assembly.frame.columns):
        raise CJEError(
            "labels are both in the data and in a file of labels", where=name,
            hint=f"switch those of the data off: {field_hint('oracle_label', None)}",
        )  # fmt: skip
    column = np.full(assembly.frame.height, np.nan)
    if "oracle_label" in assembly.frame.columns:
        column = assembly.frame["oracle_label"].to_numpy().copy()
        clash = ~np.isnan(column[rows]) & (column[rows] != values)
        if clash.any():
            first = int(rows[np.argmax(clash)])
            raise CJEError(
                f"{int(clash.sum())} labels contradict those already in the data",
                where=f"{name}; {assembly.origin.name(first)}",
                value=(float(column[first]), float(values[np.argmax(clash)])),
                hint=f"switch those of the data off: {field_hint('oracle_label', None)}",
            )
    if "rater" in landed.columns:
        order = np.argsort(rows, kind="stable")
        raters = Codes.from_series(landed["rater"].cast(pl.String))
        assembly.raters = LongLabels(rows[order], values[order], raters.take(order))
        if "oracle_label" in assembly.frame.columns:
            assembly.frame = assembly.frame.drop("oracle_label")
        return
    column[rows] = values
    assembly.frame = assembly.frame.with_columns(pl.Series("oracle_label", column).fill_nan(None))


def _attach_propensity(assembly: Assembly, rows: IntArray, given: pl.Series, name: str) -> None:
    """The labels' propensities on their rows; those the data have must be the same."""
    column = np.full(assembly.frame.height, np.nan)
    if "label_propensity" in assembly.frame.columns:
        column = assembly.frame["label_propensity"].to_numpy().copy()
    values = given.to_numpy()
    clash = ~np.isnan(column[rows]) & ~np.isnan(values) & (column[rows] != values)
    if clash.any():
        raise CJEError(
            f"{int(clash.sum())} propensities contradict those already in the data",
            where=f"{name}; {assembly.origin.name(int(rows[np.argmax(clash)]))}",
            hint="leave the column out of one of the two",
        )
    known = ~np.isnan(values)
    column[rows[known]] = values[known]
    assembly.frame = assembly.frame.with_columns(
        pl.Series("label_propensity", column).fill_nan(None)
    )


def _words(keys: Sequence[str]) -> str:
    return " and ".join(key.removeprefix("key:") for key in keys)


def _on_hint(keys: Sequence[str]) -> str:
    return by_interface(f"on={tuple(keys)!r}", " ".join(flag_option("on", key) for key in keys))
