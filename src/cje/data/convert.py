"""A polars frame as it was read -> a frame of canonical columns with fixed types.

Canonical types: ``number`` is Float64 (null where missing), ``whole`` Int64, ``name`` and ``text``
String or Categorical, ``numbers`` List(Float64).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from cje.data.field_plan import Plan
from cje.data.fields import Leaf, kind_of
from cje.data.plain_blocks import MAX_DEPTH
from cje.data.problems import BadRows, is_label
from cje.data.values import Numbers, numbers_from_text
from cje.hints import field_hint, label_map_hint, option_hint
from cje.kernels.arrays import BoolArray

__all__ = [
    "CANONICAL_TYPES",
    "POLARS_FAILURES",
    "canonical_frame",
    "leaves_of_schema",
    "path_expression",
]

# What polars raises on a broken file; a panic inside it is not an Exception, but is reported as one
# here.
POLARS_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

CANONICAL_TYPES: Mapping[str, pl.DataType] = {
    "number": pl.Float64(),
    "whole": pl.Int64(),
    "name": pl.String(),
    "text": pl.String(),
    "numbers": pl.List(pl.Float64()),
}


def leaves_of_schema(schema: pl.Schema, *, untyped: bool = False) -> list[Leaf]:
    """Every column and nested field with its type; `untyped` for a CSV, where all is text."""
    found: list[Leaf] = []
    for name, dtype in schema.items():
        found.extend(_leaves((name,), dtype, untyped))
    return found


def _leaves(path: tuple[str, ...], dtype: pl.DataType, untyped: bool) -> Iterator[Leaf]:
    kinds = {_kind(dtype)} | ({"fraction"} if dtype.is_float() or dtype.is_decimal() else set())
    yield Leaf(path, frozenset() if untyped else frozenset(kinds))
    if isinstance(dtype, pl.Struct) and len(path) < MAX_DEPTH:
        for child in dtype.fields:
            inner = child.dtype if isinstance(child.dtype, pl.DataType) else child.dtype()
            yield from _leaves((*path, child.name), inner, untyped)


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "number"
    if isinstance(dtype, pl.List | pl.Array):
        return "list"
    named = {pl.Boolean: "bool", pl.Null: "null", pl.Struct: "struct"}
    return named.get(type(dtype), "text")


def path_expression(path: tuple[str, ...]) -> pl.Expr:
    """The polars expression that reaches a nested field."""
    expression = pl.col(path[0])
    for name in path[1:]:
        expression = expression.struct.field(name)
    return expression


def canonical_frame(
    raw: pl.DataFrame,
    plan: Plan,
    bad: BadRows,
    where: Callable[[int], str],
) -> tuple[pl.DataFrame, BoolArray, dict[str, Numbers]]:
    """Convert the columns of `raw` (named canonically, in their own types).

    Parameters
    ----------
    where : callable
        Row number -> file and row, for messages.

    Returns
    -------
    The frame, a mask of the rows without a problem, and the columns that were read from text.
    """
    good = np.ones(raw.height, dtype=bool)
    columns = []
    texts: dict[str, Numbers] = {}
    for column in plan.columns:
        given = raw[column]
        parsed = None
        if given.dtype == pl.String and kind_of(column) == "number":
            texts[column] = parsed = column_numbers(given, column, plan)
            series, wrong, what = parsed.series, parsed.wrong, parsed.what
        else:
            if column == "draw_idx" and given.dtype == pl.String:
                given = numbered(given)
            series, wrong, what = _convert(given, kind_of(column))
        readable = series.len() - series.null_count()
        if wrong is not None and bad.unlabels(column, what, wrong, where, readable=readable):
            pass  # the row stays, without a label
        elif wrong is not None and wrong.any():
            row = int(np.argmax(wrong))
            shown = ".".join(plan.columns[column])
            (bad if readable or not is_label(column) else BadRows(skip=False)).found(
                f"{column} {what}",
                where=f"{where(row)}, field '{shown}'",
                value=raw[column][row],
                hint=None if bad.skip else value_hint(column, parsed.words if parsed else ()),
                answers=parsed.answers if parsed else (),
                count=int(wrong.sum()),
            )
            good &= ~wrong
        columns.append(series.alias(column))
    return pl.DataFrame(columns), good, texts


def column_numbers(text: pl.Series, column: str, plan: Plan) -> Numbers:
    """The numbers of a column of text; words count in scores and labels only."""
    if column.startswith("covariate:") and (times := seconds_of(text)) is not None:
        return Numbers(times)
    wordy = column in ("judge_score", "oracle_label") or column.startswith(("rater:", "judge:"))
    return numbers_from_text(text, words=wordy, label_map=plan.label_map if wordy else None)


def seconds_of(text: pl.Series) -> pl.Series | None:
    """Dates and times written as ISO 8601 in seconds since 1970; None where a text is not one."""
    if not text.str.contains(r"^\s*\d{4}-\d{2}-\d{2}([T ]|\s*$)").fill_null(True).all():
        return None
    times = text.str.strip_chars().str.head(19).str.replace("T", " ", literal=True)
    days = times.str.head(10).str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    exact = times.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).cast(pl.Datetime("us"))
    parsed = exact.fill_null(days)
    if parsed.null_count() > text.null_count() or parsed.null_count() == text.len():
        return None
    return parsed.dt.epoch("s").cast(pl.Float64)


def numbered(text: pl.Series) -> pl.Series:
    """Names of draws that end in a number (`trial-3`) as these numbers; other text as it is."""
    numbers = text.str.extract(r"^[^\d]*(\d{1,9})$").cast(pl.Int64)
    fits = numbers.null_count() == text.null_count() and numbers.n_unique() == text.n_unique()
    return numbers if fits else text


def value_hint(column: str, words: Sequence[str] = ()) -> str:
    """What to do about a value that does not fit its column; `words` are those without a value."""
    kind, family = kind_of(column), column.partition(":")[0]
    skip = option_hint("skip_bad_rows", True)
    if kind not in ("number", "whole", "numbers"):
        return f"write text or a whole number, or skip such rows: {skip}"
    roles = {"rater": "oracle_label", "target": "target_policy_logprobs", "judge": "judge_score"}
    role = roles.get(family, family)
    mapped = ""
    if role in ("judge_score", "oracle_label"):
        mapped = f"give words their values ({label_map_hint(words)}), "
    return (
        f"write a number (or leave it empty where missing), {mapped}"
        f"name another column ({field_hint(role, 'your_column')}), or skip such rows ({skip})"
    )


Converted = tuple[pl.Series, "BoolArray | None", str]


def _convert(series: pl.Series, kind: str) -> Converted:
    if series.dtype == pl.Null:
        return series.cast(CANONICAL_TYPES[kind]), None, ""
    if kind == "number":
        return _to_number(series)
    if kind == "whole":
        return _to_whole(series)
    if kind == "numbers":
        return _to_numbers(series)
    return _to_name(series)


def _to_number(series: pl.Series) -> Converted:
    dtype = series.dtype
    if dtype == pl.Float64:
        return series, None, ""
    if dtype.is_numeric() or dtype == pl.Boolean:
        return series.cast(pl.Float64), None, ""
    if dtype == pl.String:
        parsed = numbers_from_text(series, words=False)
        return parsed.series, parsed.wrong, parsed.what
    what = f"is {_called(dtype)}, not a number"
    return _nothing(series, pl.Float64()), series.is_not_null().to_numpy(), what


def _to_whole(series: pl.Series) -> Converted:
    if series.dtype.is_integer():
        return series.cast(pl.Int64), None, ""
    number, wrong, what = _to_number(series)
    fraction = (number.is_not_null() & (number.floor() != number)).fill_null(False).to_numpy()
    huge = (number.is_not_null() & ~(number.abs() < 2.0**53)).fill_null(False).to_numpy()
    fraction = fraction | huge
    if fraction.any():
        wrong, what = (fraction if wrong is None else wrong | fraction), "is not a whole number"
    return number.cast(pl.Int64, strict=False), wrong, what


def _to_numbers(series: pl.Series) -> Converted:
    if isinstance(series.dtype, pl.List | pl.Array):
        inner = series.dtype.inner
        if inner == pl.Null or inner == pl.Boolean or getattr(inner, "is_numeric", bool)():
            return series.cast(pl.List(pl.Float64)), None, ""
    wrong = series.is_not_null().to_numpy()
    return _nothing(series, pl.List(pl.Float64)), wrong, "is not a list of numbers"


def _to_name(series: pl.Series) -> Converted:
    dtype = series.dtype
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
        return series, None, ""
    if dtype.is_integer():
        return series.cast(pl.String), None, ""
    if dtype.is_float():  # pandas turns whole-number ids into floats where one is missing
        whole, wrong, what = _to_whole(series)
        return whole.cast(pl.String), wrong, what
    wrong = series.is_not_null().to_numpy()
    what = f"is {_called(dtype)}, not text or a whole number"
    return _nothing(series, pl.String()), wrong, what


def _called(dtype: pl.DataType) -> str:
    """A type as messages call it on every path."""
    kind = _kind(dtype)
    named = {"list": "a list", "struct": "an object", "bool": "true/false"}
    return named.get(kind, "text" if dtype == pl.String else f"a {str(dtype).lower()}")


def _nothing(series: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(series.name, [None], dtype=dtype).new_from_index(0, series.len())
