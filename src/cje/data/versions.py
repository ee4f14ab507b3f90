"""Ask where a column looks like the policy although only one policy was found.

Two prompts on one model, in one file with a column ``prompt_version``, are two policies; pooled,
they would answer a different question.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from cje.data.field_names import SYNONYMS
from cje.data.field_plan import Plan
from cje.data.fields import Leaf
from cje.data.leaf import normalised, words_of
from cje.data.problems import BadRows
from cje.data.tables import Table
from cje.errors import CJEError
from cje.hints import field_hint, field_option, flag_option, option_hint

__all__ = [
    "ask_about_versions",
    "columns_that_tell_repeats_apart",
    "files_question",
    "repeats_question",
]

_MOST_VALUES = 20
_MOST_COLUMNS = 100
_SHARE = 0.5  # of the prompts that must have two values, for a column to look like the policy
_LONG_TEXT = frozenset(
    {"prompt", "response", "text", *SYNONYMS["prompt"], *SYNONYMS["response"], "reason",
     "rationale", "explanation", "comment", "notes", "feedback"}
)  # fmt: skip
_DRAW_WORDS = frozenset(
    {"seed", "no", "nr", "num", "number", "idx", "index", "pass", "round", "try", "sample", "copy",
     "turn", "epoch", "repeat", "trial", "attempt", "step"}
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
    answers = [field_option("policy", column), field_option("draw_idx", column)]
    draws = option_hint("repeats", "draws")
    raise CJEError(
        f"one policy was found, but the column '{column}' has {len(values)} values over the same "
        f"prompts{others}: is it the policy?",
        where=table.name,
        value=values[:5],
        hint=f"if so, add {field_hint('policy', column)}; if the rows are draws of one policy, "
        f"{field_hint('draw_idx', column)}; if it means nothing here, {field_hint('policy', None)}"
        f" (with {draws} where prompts repeat)",
        answers=[
            *(reversed(answers) if _counts_draws(column) else answers),
            f"{field_option('policy', None)} {flag_option('repeats', 'draws')}",
        ],
    )


def _counts_draws(column: str) -> bool:
    return bool(_DRAW_WORDS & set(words_of(column)))


def repeats_question(columns: Sequence[str], policy: Sequence[str] | None) -> tuple[str, list[str]]:
    """What to do about repeated rows, as text and as options of the command.

    Parameters
    ----------
    columns : sequence of str
        Unused columns that differ between the repeats: perhaps the policy, or the number of a draw.
    policy : sequence of str, optional
        Path of the column that names the policy now.
    """
    draws = option_hint("repeats", "draws")
    if not columns:
        return (
            "remove it; or, if these are several responses to one prompt, number them in a column "
            f"draw_idx or add {draws}",
            [flag_option("repeats", "draws"), flag_option("skip_bad_rows")],
        )
    column = columns[0]
    named = column if policy is None else f"{'.'.join(policy)},{column}"
    hint = (
        f"the column '{column}' differs between these rows. If it is a version, add "
        f"{field_hint('policy', named)}; if it numbers the responses to one prompt, "
        f"{field_hint('draw_idx', column)}"
    )
    answers = [field_option("policy", named), field_option("draw_idx", column)]
    return hint, answers[::-1] if _counts_draws(column) else answers


def files_question() -> tuple[str, str, list[str]]:
    """What is wrong and what to do where files repeat each other's policies and prompts."""
    return (
        "the same policy and prompt are in several files",
        f"if each file is a version, name the versions after the files: "
        f"{field_hint('policy', None)}; if a column names the version, "
        f"{field_hint('policy', 'your_column')}",
        [field_option("policy", None)],
    )


def columns_that_tell_repeats_apart(table: Table, leaves: list[Leaf], plan: Plan) -> list[str]:
    """Unused columns of few values that are distinct within each policy, prompt and draw."""
    roles = [c for c in ("policy", "prompt_id", "draw_idx") if c in plan.columns]
    found = _short_columns(table, leaves, plan, roles)
    if found is None:
        return []
    frame, candidates = found
    apart = []
    for i, leaf in enumerate(candidates):
        column = f"group:{i}"
        if frame[column].n_unique() > max(_MOST_VALUES, 2):
            continue
        if frame.select(*roles, column).n_unique() == frame.height:
            apart.append(leaf.display)
    return apart


def _short_columns(
    table: Table, leaves: list[Leaf], plan: Plan, roles: Sequence[str]
) -> tuple[pl.DataFrame, list[Leaf]] | None:
    """The unused columns of short values, loaded as groups beside the roles."""
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
        return None
    columns = {f"group:{i}": leaf.path for i, leaf in enumerate(candidates)}
    wanted = Plan({**{role: plan.columns[role] for role in roles}, **columns})
    return table.load(wanted, BadRows(skip=True)).frame, candidates


def _repeated_columns(table: Table, leaves: list[Leaf], plan: Plan) -> dict[str, list[str]]:
    """Columns by name with their values, those with names of versions first."""
    loaded = _short_columns(table, leaves, plan, ["prompt_id"])
    if loaded is None:
        return {}
    frame, candidates = loaded
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
