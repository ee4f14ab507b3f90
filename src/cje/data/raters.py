"""`RaterLabels`: every rater's label of every response, in long form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data.arrays import float_column, int_column
from cje.data.codes import Codes
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_means

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RaterLabels", "position_in_group", "rows_of_raters"]


@dataclass(frozen=True, eq=False)
class RaterLabels:
    """One entry per (response, rater): which row, who, and the value on [0, 1].

    The mean over the raters of a row is its `oracle_label`; the single values remain here for
    agreement and noise-ceiling questions.
    """

    row: IntArray
    rater: Codes
    value: FloatArray

    @classmethod
    def from_arrays(
        cls, row: ArrayLike, value: ArrayLike, rater: Codes | Sequence[Any] | None = None
    ) -> RaterLabels:
        """Checked constructor; without `rater` the labels of a row are numbered 1, 2, ..."""
        values = np.asarray(value)
        rows = int_column("rater_labels.row", row, len(values))
        column = float_column("rater_labels.value", value, len(rows))
        inside = (column >= 0.0) & (column <= 1.0)
        if not inside.all():
            bad = int(np.argmin(inside))
            raise CJEError(
                "a rater's label must be in [0, 1]",
                where=f"row {rows[bad]}",
                value=float(column[bad]),
            )
        if rater is None:
            position = position_in_group(rows)
            top = int(position.max()) + 1 if len(rows) else 0
            codes = Codes(position, tuple(f"rater_{i + 1}" for i in range(top)))
        else:
            codes = Codes.encode(rater)
        if len(codes) != len(rows):
            raise CJEError("rater_labels.rater must name one rater per label", value=len(codes))
        return cls(rows, codes, column)

    def __len__(self) -> int:
        return len(self.row)

    def __reduce__(self) -> tuple[Any, ...]:
        return RaterLabels.from_arrays, (self.row, self.value, self.rater)

    def row_means(self, n_rows: int) -> FloatArray:
        """Mean label of each row; NaN on rows without labels."""
        return cluster_means(self.value, self.row, n_rows)

    def select(self, index: IntArray, n_rows: int) -> RaterLabels:
        """The labels of the rows at `index` (each at most once), renumbered."""
        new_row = np.full(n_rows, -1, dtype=np.int64)
        new_row[index] = np.arange(len(index))
        kept = np.flatnonzero(new_row[self.row] >= 0)
        order = kept[np.argsort(new_row[self.row[kept]], kind="stable")]
        return RaterLabels(new_row[self.row[order]], self.rater.take(order), self.value[order])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaterLabels):
            return NotImplemented
        return (
            np.array_equal(self.row, other.row)
            and np.array_equal(self.value, other.value)
            and self.rater == other.rater
        )

    __hash__ = None  # type: ignore[assignment]


def rows_of_raters(
    frame: pl.DataFrame, policy: Codes | None
) -> tuple[BoolArray, IntArray, FloatArray, Codes] | None:
    """Rows by rater as one row per response: which rows stay, then row, value and rater of labels.

    None where no response is repeated, where a rater occurs twice on one, or where the scores of
    its rows differ: then they are not one response.
    """
    import polars as pl

    keys = [name for name in ("policy", "prompt_id", "draw_idx") if name in frame.columns]
    rows = frame.with_row_index("row")
    if policy is not None:
        rows = rows.with_columns(pl.Series("policy", policy.codes))
        keys = list(dict.fromkeys(["policy", *keys]))
    scores = [c for c in frame.columns if c == "judge_score" or c.startswith("judge:")]
    groups = rows.group_by(keys, maintain_order=True).agg(
        pl.col("row").first().alias("first"), *(pl.col(c).drop_nulls().n_unique() for c in scores)
    )
    if groups.height == rows.height or any(groups[c].max() > 1 for c in scores):  # type: ignore[operator]
        return None
    labelled = rows.drop_nulls("oracle_label").with_columns(
        pl.col("rater").cast(pl.String).fill_null("unnamed")
    )
    if labelled.select(*keys, "rater").n_unique() < labelled.height:
        return None
    labelled = labelled.join(groups.select(*keys, "first"), on=keys, maintain_order="left")
    order = np.argsort(labelled["first"].to_numpy(), kind="stable")
    keep = np.zeros(rows.height, dtype=bool)
    keep[groups["first"].to_numpy()] = True
    return (
        keep,
        labelled["first"].to_numpy().astype(np.int64)[order],
        labelled["oracle_label"].to_numpy()[order],
        Codes.from_series(labelled["rater"]).take(order),
    )


def position_in_group(keys: IntArray) -> IntArray:
    """0, 1, 2, ... within each value of `keys`, in order of appearance."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(keys) else keys
    lengths = np.diff(np.r_[starts, len(keys)])
    position = np.empty(len(keys), dtype=np.int64)
    position[order] = np.arange(len(keys)) - np.repeat(starts, lengths)
    return position
