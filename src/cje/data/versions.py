"""A column that looks like the policy while only one policy was found: a question, not a guess.

Two prompts on one model, in one file with a column ``prompt_version``, are two policies; pooled
they would answer another question than the one that was asked.
"""

from __future__ import annotations

import polars as pl

from cje.data.fields import SYNONYMS, Leaf, Plan, normalised
from cje.data.hints import field_hint, option_hint, policy_column_hint
from cje.data.problems import BadRows
from cje.data.tables import Table
from cje.errors import CJEError

__all__ = ["ask_about_versions"]

_MOST_VALUES = 20
_MOST_COLUMNS = 100
_SHARE = 0.5  # of the prompts that must have two values, for a column to look like the policy
_LONG_TEXT = frozenset(
    {"prompt", "response", "text", *SYNONYMS["prompt"], *SYNONYMS["response"], "reason",
     "rationale", "explanation", "comment", "notes"}
)  # fmt: skip


def ask_about_versions(table: Table, leaves: list[Leaf], plan: Plan) -> None:
    """Raise where an unused column has 2 to 20 values repeated over the same prompts.

    Raises
    ------
    CJEError
        With the column, its values, and how to say that it is the policy, or that it is not.
    """
    found = _repeated_columns(table, leaves, plan)
    if not found:
        return
    column, values = next(iter(found.items()))
    others = f" (so {'have' if len(found) > 2 else 'has'} {', '.join(list(found)[1:])})" if (
        len(found) > 1
    ) else ""  # fmt: skip
    raise CJEError(
        f"one policy was found, but the column '{column}' has {len(values)} values over the same "
        f"prompts{others}: is it the policy?",
        where=table.name,
        value=values[:5],
        hint=f"if so, add {policy_column_hint(column)}; if the rows are draws of one policy, "
        f"{field_hint('draw_idx', column)}; if it means nothing here, {policy_column_hint(None)}"
        f" (with {option_hint('repeats', 'draws')} where prompts repeat)",
    )


def _repeated_columns(table: Table, leaves: list[Leaf], plan: Plan) -> dict[str, list[str]]:
    """Columns by name with their values, those with names of versions first."""
    claimed = set(plan.columns.values())
    candidates = [
        leaf
        for leaf in leaves
        if leaf.path not in claimed
        and (not leaf.kinds or leaf.only("text", "number"))
        and "fraction" not in leaf.kinds
        and normalised(leaf.parts[-1]) not in _LONG_TEXT
        and "prompt_id" in plan.columns
    ]
    candidates.sort(key=lambda leaf: normalised(leaf.parts[-1]) not in SYNONYMS["policy"])
    candidates = candidates[:_MOST_COLUMNS]
    if not candidates:
        return {}
    columns = {f"group:{i}": leaf.path for i, leaf in enumerate(candidates)}
    wanted = Plan({"prompt_id": plan.columns["prompt_id"], **columns})
    frame = table.load(wanted, BadRows(skip=True)).frame
    if frame["prompt_id"].n_unique() > (1 - _SHARE / 2) * frame.height:
        return {}  # prompts do not repeat
    found = {}
    for i, leaf in enumerate(candidates):
        series = frame[f"group:{i}"]
        if series.null_count() or not 2 <= series.n_unique() <= _MOST_VALUES:
            continue
        pairs = frame.select("prompt_id", pl.col(f"group:{i}").alias("value")).unique()
        per_prompt = pairs.group_by("prompt_id").len()["len"]
        if float((per_prompt > 1).mean() or 0.0) >= _SHARE:  # type: ignore[arg-type]
            found[leaf.display] = [str(v) for v in series.cast(pl.String).unique().sort().to_list()]
    return found
