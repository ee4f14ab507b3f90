"""`read`: files, folders, data frames and lists of dicts -> `Dataset`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from cje.data.assemble import Assembly, ValueOptions
from cje.data.codes import Codes
from cje.data.csv_table import CsvTable
from cje.data.dataset import Dataset
from cje.data.field_plan import Plan, Request
from cje.data.fields import POLICY_PART, Leaf, resolve
from cje.data.guesses import Peek
from cje.data.labels import join_labels, key_columns, split_keys
from cje.data.pair_layout import looks_pairwise
from cje.data.problems import BadRows, Origin, Piece
from cje.data.scale import Scale
from cje.data.sources import Source, open_sources
from cje.data.tables import Loaded, Table
from cje.data.values import mapping_note
from cje.data.versions import ask_about_versions, columns_that_tell_repeats_apart
from cje.data.wide import spread
from cje.errors import CJEError
from cje.hints import FIELD_NAMES, label_map_hint, pairwise_hint

__all__ = ["for_source", "merged_notes", "plan_source", "read", "without_policy"]

ScaleLike = Scale | tuple[float, float] | str


def read(
    source: Any,
    *,
    fields: Mapping[str, Any] | None = None,
    policy: str | None = None,
    labels: Any = None,
    on: str | Sequence[str] | None = None,
    judge_scale: ScaleLike | None = None,
    oracle_scale: ScaleLike | None = None,
    covariates: Collection[str] = (),
    groups: Collection[str] = (),
    target_policies: Sequence[str] | None = None,
    text: bool = False,
    repeats: Literal["error", "draws"] = "error",
    require: Collection[str] = ("judge_score",),
    min_rows: int = 2,
    skip_bad_rows: bool = False,
    label_map: Mapping[str, float | None] | None = None,
    sheet: str | None = None,
    wide: str | Sequence[str] | None = None,
) -> Dataset:
    """Read an evaluation into a `Dataset`.

    What was recognised and assumed is listed in ``dataset.metadata["reading"]``.

    Parameters
    ----------
    source : path, folder, data frame, list of dicts, list of paths, or mapping policy -> those
        JSONL, CSV/TSV, Parquet or a JSON array by extension. A folder holds one file per policy,
        ``<policy>.jsonl`` or ``<policy>_responses.jsonl``. Frames of any library that narwhals
        knows (pandas, polars, pyarrow, ...).
    fields : mapping, optional
        Column of the data set -> column of the file, where names differ; nested fields with dots
        (``"metadata.oracle_label"``). None switches a recognised column off. `oracle_label` takes
        a list of columns, one per rater; `target_policy_logprobs` a mapping policy -> column.
    policy : str, optional
        The policy of all rows; by default a policy column, else the file's name.
    labels, on : optional
        A further source with labels, and the column(s) to join it by (default: those of policy,
        prompt_id, draw_idx that it has); ``"id=question_id"`` where the names differ.
    judge_scale, oracle_scale : Scale, (low, high) or "low-high", optional
        Inferred (0-1, 1-5, 1-7, 1-10, 0-10, 0-100, ...) and reported where not given.
    covariates, groups : names of further columns to keep as numbers, and as subgroups
    target_policies : optional
        Names for a plain list of log-probabilities (``logp_target_all``), or a choice of targets.
    text : bool
        Keep the prompts' and responses' text.
    repeats : "error" or "draws"
        Without a draw column, a second row for one policy and prompt is an error, or a draw.
    require : names of columns that must be there on every row
    min_rows : int
        A policy with fewer rows is refused.
    skip_bad_rows : bool
        Skip invalid rows and report how many, instead of raising at the first. A row whose label
        is unreadable stays, without a label.
    label_map : mapping, optional
        Values of words in scores and labels (``{"good": 1, "bad": 0}``; None: missing). Usual
        words (pass/fail, yes/no, strongly agree, ...) are known; the values used are reported.
    sheet : str, optional
        Sheet of a workbook; the first by default.
    wide : sequence of str, or text with commas, optional
        Names of versions that stand side by side in columns (``"A,B"`` for ``score_A, score_B``);
        usually recognised. Empty: there are none.

    Raises
    ------
    CJEError
        Naming file, row, field, value and what to do.

    Examples
    --------
    >>> rows = [{"prompt_id": "p1", "score": 4, "human_label": 5},
    ...         {"prompt_id": "p2", "score": 2, "human_label": None}]
    >>> data = read({"new": rows})
    >>> data.judge_score.tolist(), str(data.judge_scale)
    ([0.75, 0.25], '1-5')
    >>> data.metadata["reading"][0]
    "judge_score read from 'score'"
    """
    sources, notes = open_sources(source, policy, sheet, skip_bad_rows=skip_bad_rows)
    request = Request(
        fields=without_policy(fields, policy),
        covariates=covariates,
        groups=groups,
        require=("prompt_id", *require),
        text=text,
        target_policies=target_policies,
        label_map=label_map or {},
    )
    versions = None if wide is None else _version_names(wide)
    sources = [part for s in sources for part in spread(s, request, versions, _peek_into(s.table))]
    options = ValueOptions(
        judge_scale=None if judge_scale is None else Scale.parse(judge_scale),
        oracle_scale=None if oracle_scale is None else Scale.parse(oracle_scale),
        target_policies=target_policies,
        require=require,
        number_repeats=repeats == "draws",
        min_rows=min_rows,
    )
    bad = BadRows(skip_bad_rows)
    if labels is None:
        assembly = _assemble(sources, [s.table.leaves() for s in sources], request, bad)
    else:
        assembly = _assemble_with_labels(sources, request, bad, labels, on, fields)
    assembly.notes[:0] = notes
    return assembly.dataset(options)


def _version_names(wide: str | Sequence[str]) -> list[str]:
    names = wide.split(",") if isinstance(wide, str) else list(wide)
    return [name.strip() for name in names if name.strip() and name.strip().lower() != "none"]


def without_policy(fields: Mapping[str, Any] | None, policy: str | None) -> dict[str, Any]:
    """An explicit policy= wins over a column that looks like one."""
    chosen = {FIELD_NAMES.get(role, role): column for role, column in (fields or {}).items()}
    if policy is not None:
        chosen["policy"] = None
    return chosen


def _assemble_with_labels(
    sources: list[Source],
    request: Request,
    bad: BadRows,
    labels: Any,
    on: str | Sequence[str] | None,
    fields: Mapping[str, Any] | None,
) -> Assembly:
    found, _ = open_sources(labels, None)
    if len(found) != 1:
        raise CJEError("labels come from one file or table", value=len(found))
    table = found[0].table
    leaves = [s.table.leaves() for s in sources]
    names, renamed = split_keys(on)
    keys = key_columns(names, table.leaves(), leaves, renamed)
    raw = [key.partition(":")[2] for key in keys if key.startswith("key:")]
    assembly = _assemble(sources, leaves, replace(request, keys=raw), bad)
    join_labels(assembly, table, keys, without_policy(fields, None), renamed, request.label_map)
    return assembly


def _assemble(
    sources: list[Source], leaves: list[list[Leaf]], request: Request, bad: BadRows
) -> Assembly:
    """Load every source and put the rows one after another."""
    plans = [
        plan_source(found, for_source(request, source), source.table.name, _peek_into(source.table))
        for source, found in zip(sources, leaves, strict=True)
    ]
    _agree_on_prompts(plans, sources)
    loaded = [source.table.load(plan, bad) for source, plan in zip(sources, plans, strict=True)]
    empty = [s.table.name for s, part in zip(sources, loaded, strict=True) if not part.frame.height]
    if empty:
        raise CJEError(
            "the file has no rows, only a header or blank lines",
            where=empty[0],
            hint="check that the export finished, or run it again",
        )
    loaded = [_with_joined_policy(part) for part in loaded]
    origin = Origin(
        [
            Piece(source.table.name, part.frame.height, part.row_name)
            for source, part in zip(sources, loaded, strict=True)
        ]
    )
    frame, policy = _stacked(sources, plans, loaded)
    assembly = Assembly(
        frame=frame,
        policy=policy,
        origin=origin,
        bad=bad,
        notes=merged_notes(sources, plans),
        prompt_from_text=plans[0].prompt_from_text,
        unused=plans[0].unused,
        paths={name: path for plan in reversed(plans) for name, path in plan.columns.items()},
    )
    if len(sources) == 1:
        assembly.tell_apart = lambda: columns_that_tell_repeats_apart(
            sources[0].table, leaves[0], plans[0]
        )
    assembly.notes.extend(note for part in loaded for note in part.notes)
    assembly.notes.extend(_word_notes(loaded))
    if _is_one_policy(assembly, request, sources):
        if looks_pairwise({leaf.path[0] for leaf in leaves[0]}):
            raise _compares_two(sources[0].table.name)
        ask_about_versions(sources[0].table, leaves[0], plans[0])
    good = np.concatenate([part.good for part in loaded])
    if not good.all():
        assembly.drop(~good)
    return assembly


def plan_source(leaves: list[Leaf], request: Request, name: str, peek: Peek) -> Plan:
    """Which column plays which role; comparisons of two responses go elsewhere."""
    try:
        return resolve(leaves, request, name, peek)
    except CJEError as error:
        if not looks_pairwise({leaf.path[0] for leaf in leaves}):
            raise
        raise _compares_two(name) from error


def _compares_two(name: str) -> CJEError:
    return CJEError(
        "each row compares two responses, and single responses with scores are needed here",
        where=name,
        hint=pairwise_hint(),
    )


def _peek_into(table: Table) -> Peek:
    """Counts of the texts in a column of a table."""

    def peek(leaf: Leaf, *, whole: bool = False) -> Mapping[str, int]:
        if isinstance(table, CsvTable) and not whole and (found := table.first_texts(leaf.path)):
            return found
        column = f"key:{leaf.display}"
        frame = table.load(Plan({column: leaf.path}), BadRows(skip=True)).frame
        texts = frame[column].drop_nulls().cast(pl.String)
        return {str(text): int(n) for text, n in texts.value_counts(name="n").iter_rows()}

    return peek


def _with_joined_policy(part: Loaded) -> Loaded:
    """Where several columns together name the policy: one column of them all."""
    parts = [column for column in part.frame.columns if column.startswith(POLICY_PART)]
    if not parts:
        return part
    joined = pl.concat_str([pl.col(c).cast(pl.String) for c in parts], separator=" | ")
    return replace(part, frame=part.frame.with_columns(joined.alias("policy")).drop(parts))


def _is_one_policy(assembly: Assembly, request: Request, sources: list[Source]) -> bool:
    """Whether all rows have one policy although the caller named none."""
    if "policy" in request.fields or len(sources) > 1 or sources[0].explicit:
        return False
    if assembly.policy is not None:
        return assembly.policy.n_names == 1
    return assembly.frame["policy"].drop_nulls().n_unique() < 2


def _word_notes(loaded: Sequence[Loaded]) -> list[str]:
    """The values of words, once per column; a word has one value in all files."""
    merged: dict[str, dict[str, float | None]] = {}
    for part in loaded:
        for column, numbers in part.texts.items():
            used = merged.setdefault(column, {})
            for word, value in (numbers.mapping or {}).items():
                if used.setdefault(word, value) != value:
                    raise CJEError(
                        f"{column}: the word {word!r} has two values, {used[word]} and {value}, "
                        "by the other words of its file",
                        hint=f"give all words their values: {label_map_hint()}",
                    )
    return [note for column, used in merged.items() if (note := mapping_note(column, used))]


def for_source(request: Request, source: Source) -> Request:
    if source.explicit and "policy" not in request.fields:
        return replace(request, fields={**request.fields, "policy": None})
    return request


def _agree_on_prompts(plans: Sequence[Plan], sources: Sequence[Source]) -> None:
    if len({plan.prompt_from_text for plan in plans}) > 1:
        without = next(
            s.table.name for s, p in zip(sources, plans, strict=True) if p.prompt_from_text
        )
        raise CJEError(
            "some files have a prompt_id and this one does not", where=without,
            hint="prompts must be matched across policies: give all files the same ids",
        )  # fmt: skip


def _stacked(
    sources: Sequence[Source], plans: Sequence[Plan], loaded: Sequence[Loaded]
) -> tuple[pl.DataFrame, Codes | None]:
    """One frame, and the policy of each row where no source has a policy column."""
    frames = [part.frame for part in loaded]
    from_files = not any(map(_names_policies, plans))
    if not from_files:
        frames = [
            frame
            if _names_policies(plan)
            else frame.with_columns(pl.lit(source.policy).alias("policy"))
            for frame, plan, source in zip(frames, plans, sources, strict=True)
        ]
    if len(frames) > 1:  # category spaces differ between files
        frames = [
            frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)) for frame in frames
        ]
    stacked = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal", rechunk=True)
    if not from_files:
        return stacked, None
    names = tuple(dict.fromkeys(source.policy for source in sources))
    code = np.array([names.index(source.policy) for source in sources])
    return stacked, Codes(np.repeat(code, [frame.height for frame in frames]), names)


def _names_policies(plan: Plan) -> bool:
    return any(c == "policy" or c.startswith(POLICY_PART) for c in plan.columns)


def merged_notes(sources: Sequence[Source], plans: Sequence[Plan]) -> list[str]:
    """Each distinct note once; with the file's name where not all files share it."""
    merged = list(dict.fromkeys(note for source in sources for note in source.table.notes))
    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        having = [s.table.name for s, p in zip(sources, plans, strict=True) if note in p.notes]
        everywhere = len(having) == len(plans)
        merged.append(note if everywhere else f"{', '.join(having[:3])}: {note}")
    if not any(map(_names_policies, plans)):
        names = ", ".join(dict.fromkeys(source.policy for source in sources))
        why = "as asked" if sources[0].explicit else "no policy column; named after the source"
        merged.append(f"policy: {names} ({why})")
    return merged
