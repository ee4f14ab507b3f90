"""Checks and column-wise operations behind `Dataset`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.checks import float_array
from cje.data.arrays import float_column, frozen, int_column
from cje.data.codes import Codes, Strings
from cje.data.judge_score import MAX_VARIANCE
from cje.data.raters import RaterLabels, position_in_group
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

    from cje.data.dataset import Dataset

# Array attributes of a Dataset and their types; the other columns are Codes, Strings or mappings.
ARRAYS: Mapping[str, type[np.generic]] = {
    "draw_idx": np.int64,
    "judge_score": np.float64,
    "oracle_label": np.float64,
    "judge_variance": np.float64,
    "label_propensity": np.float64,
    "base_policy_logprob": np.float64,
    "target_policy_logprobs": np.float64,
    "rewards": np.float64,
}
DUPLICATE_ROW = "duplicate row: this policy, prompt_id and draw_idx occurred before"


def all_missing(n: int) -> FloatArray:
    """A column of NaN (one value, seen n times: it costs no memory)."""
    return np.broadcast_to(np.float64(np.nan), (n,))


_UNIT_HINT = "map it first with Scale(low, high).to_unit(...), or let cje.data.read find the scale"
# Plain float columns: least and largest value, and what to do about another.
PLAIN: Mapping[str, tuple[float, float, str]] = {
    "judge_score": (0.0, 1.0, _UNIT_HINT),
    "oracle_label": (0.0, 1.0, _UNIT_HINT),
    "rewards": (0.0, 1.0, _UNIT_HINT),
    "judge_variance": (0.0, MAX_VARIANCE, "a variance on [0, 1] is at most 0.25"),
    "label_propensity": (
        np.nextafter(0.0, 1.0),
        1.0,
        "leave out rows that could not be labelled: they are not part of the labelled sample",
    ),
    "base_policy_logprob": (-np.inf, np.inf, ""),
}


def plain_column(name: str, values: ArrayLike | None, n: int) -> FloatArray | None:
    """One of the `PLAIN` columns, checked; NaN where missing, None where the data have none."""
    if values is None:
        # estimators may always ask for a score or a label; the others are optional
        return all_missing(n) if name in ("judge_score", "oracle_label") else None
    column = float_column(name, values, n)
    _check_range(name, column, *PLAIN[name])
    return column


def _check_range(name: str, column: FloatArray, low: float, high: float, hint: str) -> None:
    if not column.size:
        return
    complete = name == "rewards"  # the others may be missing: fmin and fmax ignore NaN
    least, most = (np.minimum, np.maximum) if complete else (np.fmin, np.fmax)
    bottom, top = least.reduce(column), most.reduce(column)
    if bottom < low or top > high or (complete and np.isnan(bottom)):
        row = int(np.argmax((column < low) | (column > high) | (complete & np.isnan(column))))
        raise CJEError(
            f"{name} must be in [{low:.3g}, {high:g}]",
            where=f"row {row}",
            value=float(column[row]),
            hint=hint,
        )


def policy_codes(policy: str | Codes | Sequence[str] | NDArray[Any], n: int) -> Codes:
    """The policy column; one string means the same policy on all rows."""
    if isinstance(policy, str):
        return Codes(np.zeros(n, dtype=np.int64), (policy,))
    codes = Codes.encode(policy)
    if len(codes) != n:
        raise CJEError(
            "policy must name one policy per row", value=len(codes), hint=f"the data have {n} rows"
        )
    return codes


def cluster_codes(
    given: Codes | Sequence[Any] | NDArray[Any] | None, prompt: Codes
) -> Codes | None:
    """The cluster of each row; clusters that share a prompt are merged under the first name."""
    if given is None:
        return None
    codes = Codes.encode(given)
    if len(codes) != len(prompt):
        raise CJEError("cluster must name one cluster per row", value=len(codes),
                       hint=f"the data have {len(prompt)} rows")  # fmt: skip
    first = np.full(prompt.n_names, -1, dtype=np.int64)
    first[prompt.codes[::-1]] = codes.codes[::-1]
    if np.array_equal(first[prompt.codes], codes.codes):
        return codes
    return Codes(_joined_codes(codes.codes, prompt.codes, codes.n_names), codes.vocabulary)


def _joined_codes(codes: IntArray, prompt: IntArray, n: int) -> IntArray:
    """The smallest code among the clusters that are linked by prompts, for each row."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    whole = n + int(prompt.max()) + 1
    links = coo_array((np.ones(len(codes)), (codes, n + prompt)), shape=(whole, whole))
    _, part = connected_components(links, directed=False)
    least = np.full(whole, n, dtype=np.int64)
    np.minimum.at(least, part[:n], np.arange(n))
    return np.asarray(least[part[codes]])


def draw_numbers(policy: Codes, prompt: Codes, given: ArrayLike | None) -> IntArray:
    """Draw numbers: checked unique within (policy, prompt), or counted in row order."""
    if given is None:
        if not len(repeated_rows(policy, prompt, None)):
            return np.broadcast_to(np.int64(0), (len(policy),))
        pair = policy.codes * prompt.n_names + prompt.codes
        return frozen(position_in_group(pair), np.int64)
    draws = int_column("draw_idx", given, len(policy))
    repeated = repeated_rows(policy, prompt, draws)
    if len(repeated):
        row = int(repeated[0])
        raise CJEError(
            DUPLICATE_ROW,
            where=f"row {row}",
            value=row_key(policy, prompt, draws, row),
            hint="give each response of a policy to a prompt its own draw_idx",
        )
    return draws


def row_key(policy: Codes, prompt: Codes, draws: IntArray | None, row: int) -> tuple[str, str, int]:
    """What identifies a row, for a message."""
    draw = 0 if draws is None else int(draws[row])
    return (policy.name_at(row), prompt.name_at(row), draw)


def rows_like(policy: Codes, prompt: Codes, draws: IntArray | None, row: int) -> IntArray:
    """The rows with the policy, prompt and draw of one of them."""
    same = (policy.codes == policy.codes[row]) & (prompt.codes == prompt.codes[row])
    return np.flatnonzero(same if draws is None else same & (draws == draws[row]))


def repeated_rows(policy: Codes, prompt: Codes, draws: IntArray | None) -> IntArray:
    """The rows, in order, whose (policy, prompt, draw) an earlier row has."""
    n = len(policy)
    low, high = (0, 0) if draws is None or not n else (int(draws.min()), int(draws.max()))
    span = high - low + 1
    size = policy.n_names * prompt.n_names * span
    if size < 2**62:
        key = policy.codes * prompt.n_names
        key += prompt.codes
        if draws is not None and span > 1:
            key *= span
            key += draws - low
        if _all_distinct(key, size):
            return np.zeros(0, dtype=np.int64)
        order = np.argsort(key, kind="stable")
        same = key[order[1:]] == key[order[:-1]]
    else:
        parts = [column for column in (draws, prompt.codes, policy.codes) if column is not None]
        order = np.lexsort(parts)
        same = np.ones(n - 1, dtype=bool)
        for column in parts:
            same &= column[order[1:]] == column[order[:-1]]
    return np.sort(order[1:][same])


def _all_distinct(key: IntArray, size: int) -> bool:
    """Whether no value of `key` (in 0 .. size-1) occurs twice."""
    if size <= 16 * len(key) + 1024:  # one byte per cell costs less than a sort
        seen = np.zeros(size, dtype=np.bool_)
        seen[key] = True
        return int(np.count_nonzero(seen)) == len(key)
    ordered = np.sort(key)
    return not bool((ordered[1:] == ordered[:-1]).any())


def target_matrix(
    given: ArrayLike | Mapping[str, ArrayLike] | None, names: Sequence[str] | None, n: int
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """The (n, K) matrix of target log-probabilities and its column names."""
    if names is not None:
        listed = isinstance(names, Sequence) and not isinstance(names, str)
        if not listed or not all(isinstance(name, str) for name in names):
            raise CJEError("target_policies must be a list of names", value=names)
    if given is None:
        if names:
            raise CJEError(
                "target_policies given without target_policy_logprobs", value=tuple(names)
            )
        return None, ()
    if isinstance(given, Mapping):
        order = tuple(given) if names is None else tuple(names)
        if set(order) != set(given):
            raise CJEError(
                "target_policies and target_policy_logprobs name different policies",
                value=(order, tuple(given)),
            )
        matrix = np.empty((n, len(order)), dtype=np.float64)
        for k, name in enumerate(order):
            matrix[:, k] = float_column(f"target_policy_logprobs.{name}", given[name], n)
        matrix.setflags(write=False)
        return matrix, order
    matrix = float_array("target_policy_logprobs", given)
    if matrix.ndim != 2 or len(matrix) != n:
        raise CJEError("target_policy_logprobs must be (rows, policies)", value=matrix.shape)
    if np.isinf(matrix).any():
        row, k = (int(i) for i in np.argwhere(np.isinf(matrix))[0])
        raise CJEError(
            "target_policy_logprobs is infinite",
            where=f"row {row}, column {k}",
            value=float(matrix[row, k]),
        )
    order = (
        tuple(names) if names is not None else tuple(f"target_{k}" for k in range(matrix.shape[1]))
    )
    if len(order) != matrix.shape[1] or len(set(order)) != len(order):
        raise CJEError(
            "target_policies must give one distinct name per column of target_policy_logprobs",
            value=order,
            hint=f"the matrix has {matrix.shape[1]} columns",
        )
    return matrix, order


def _named(what: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Columns under their names; none where nothing is given."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise CJEError(f"{what} must map names to columns", value=given)
    return given


def covariate_columns(given: Mapping[str, ArrayLike] | None, n: int) -> Mapping[str, FloatArray]:
    return MappingProxyType(
        {
            name: float_column(f"covariate {name}", v, n)
            for name, v in _named("covariates", given).items()
        }
    )


def group_columns(given: Mapping[str, Codes | Sequence[Any]] | None, n: int) -> Mapping[str, Codes]:
    groups = {name: Codes.encode(values) for name, values in _named("groups", given).items()}
    for name, codes in groups.items():
        if len(codes) != n:
            raise CJEError(f"group {name} must have one value per row", value=len(codes))
    return MappingProxyType(groups)


def text_column(name: str, given: Sequence[str] | pl.Series | None, n: int) -> Strings | None:
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise CJEError(f"{name} must have one text per row", value=given)
    column = given if isinstance(given, Strings) else Strings(given)
    if len(column) != n:
        raise CJEError(f"{name} must have one text per row", value=len(column))
    return column


def check_rater_rows(labels: RaterLabels, n: int) -> None:
    if not isinstance(labels, RaterLabels):
        raise CJEError("rater_labels must be RaterLabels", value=labels)
    if len(labels) and (int(labels.row.min()) < 0 or int(labels.row.max()) >= n):
        raise CJEError(
            "rater_labels points at a row that does not exist", value=int(labels.row.max())
        )


def is_categorical(values: Any) -> bool:
    """Whether a new column is a group (names) and not a covariate (numbers)."""
    if isinstance(values, Codes):
        return True
    return np.asarray(values).dtype.kind in "USO"


def row_index(rows: ArrayLike, n: int) -> IntArray:
    """A boolean mask or an integer index as an integer index."""
    given = np.asarray(rows)
    if given.dtype == np.bool_:
        if given.shape != (n,):
            raise CJEError("a mask must have one value per row", value=given.shape)
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    index = int_column("row index", given, given.size)
    if int(index.min()) < -n or int(index.max()) >= n:
        raise CJEError("row index out of range", value=int(index.max()), hint=f"there are {n} rows")
    return np.where(index < 0, index + n, index)


def same_columns(a: Dataset, b: Dataset) -> bool:
    """Whether two data sets hold the same rows and columns; see `Dataset.__eq__`."""
    plain = ("target_policies", "judge_scale", "oracle_scale", "prompt_id", "policy")
    if len(a) != len(b) or any(getattr(a, name) != getattr(b, name) for name in plain):
        return False
    for name in ARRAYS:
        if not _same_array(getattr(a, name), getattr(b, name)):
            return False
    if set(a.covariates) != set(b.covariates) or set(a.groups) != set(b.groups):
        return False
    return (
        all(_same_array(a.covariates[k], b.covariates[k]) for k in a.covariates)
        and all(a.groups[k] == b.groups[k] for k in a.groups)
        and a.rater_labels == b.rater_labels
        and a.prompt == b.prompt
        and a.response == b.response
        and a.cluster == b.cluster
    )


def _same_array(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
