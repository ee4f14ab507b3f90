"""The rows of all sources, and the checks of each value that need no scale.

Bad rows raise an error; with skipping on they are removed and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cje.data.codes import Codes
from cje.data.judge_score import MAX_VARIANCE
from cje.data.problems import BadRows, Origin
from cje.data.scale import Scale
from cje.errors import CJEError
from cje.findings import Finding
from cje.hints import by_interface, option_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["LOGPROB_SLACK", "CheckedRows", "LongLabels"]

LOGPROB_SLACK = 1e-6  # sums of rounded token log-probabilities may end slightly above zero


@dataclass(frozen=True)
class LongLabels:
    """Single labels in the user's own scale: row, value, and the rater's name."""

    row: IntArray
    value: FloatArray
    rater: Codes

    def keep(self, mask: BoolArray) -> LongLabels:
        new_row = np.cumsum(mask) - 1
        kept = mask[self.row]
        index = np.flatnonzero(kept)
        return LongLabels(new_row[self.row[kept]], self.value[kept], self.rater.take(index))


@dataclass
class CheckedRows:
    """The rows of all sources during the checks; bad rows raise, or are removed and counted."""

    frame: pl.DataFrame
    policy: Codes | None  # None where the frame has a policy column
    origin: Origin
    bad: BadRows
    notes: list[str] = field(default_factory=list)
    prompt_from_text: bool = False
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # column -> where it was
    unused: Sequence[tuple[str, ...]] = ()  # columns without a role
    tell_apart: Callable[[], Sequence[str]] = tuple  # unused columns that differ between repeats
    raters: LongLabels | None = None
    findings: list[Finding] = field(default_factory=list)
    stands_for: IntArray | None = None  # rows of the source that each row represents; None: itself

    # ---- bad rows --------------------------------------------------------------------------------

    def drop(self, wrong: BoolArray) -> None:
        """Remove rows (already reported to `bad`) from every column."""
        keep = ~wrong
        self.frame = self.frame.filter(pl.Series(keep))
        if self.policy is not None:
            self.policy = self.policy.take(np.flatnonzero(keep))
        if self.raters is not None:
            self.raters = self.raters.keep(keep)
        if self.stands_for is not None:
            self.stands_for = self.stands_for[keep]
        self.origin.keep(keep)
        if not self.frame.height:
            raise CJEError("no good rows are left", hint="; ".join(self.bad.notes()))

    def refuse(
        self,
        wrong: BoolArray,
        column: str,
        what: str,
        hint: str | None = None,
        answers: Sequence[str] = (),
    ) -> None:
        """Report the rows of a mask; with skipping on, remove them, or their labels only."""
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        if column in self.frame.columns:
            readable = self.frame.height - self.frame[column].null_count() - int(wrong.sum())
            if self.bad.unlabels(column, what, wrong, self.origin.name, readable=readable):
                kept = pl.when(pl.Series(~wrong)).then(pl.col(column))
                self.frame = self.frame.with_columns(kept.alias(column))
                return
        value = self.frame[column][row] if column in self.frame.columns else ...
        self.bad.found(
            f"{column} {what}",
            where=f"{self.origin.name(row)}, field {self._shown(column)}",
            value=value,
            hint=hint,
            answers=answers,
            count=int(wrong.sum()),
        )
        self.drop(wrong)

    def _shown(self, column: str) -> str:
        """The column, and its name in the source where that differs."""
        path = ".".join(self.paths.get(column, (column,)))
        return column if path == column else f"{column} (column '{path}')"

    # ---- checks ----------------------------------------------------------------------------------

    def _check_names(self) -> None:
        for column in self.frame.columns:
            if column in ("prompt_id", "policy", "cluster") or column.startswith("group:"):
                if self.frame[column].null_count():
                    self.refuse(self.frame[column].is_null().to_numpy(), column, "is missing")
                empty = (
                    (self.frame[column].cast(pl.String) == "") if self._has_empty(column) else None
                )
                if empty is not None and empty.any():
                    self.refuse(empty.to_numpy(), column, "is empty")

    def _has_empty(self, column: str) -> bool:
        series = self.frame[column]
        if series.dtype == pl.String:
            return series.str.len_bytes().min() == 0
        return True  # categories: few, so compare

    def _check_finite(self, require: Collection[str]) -> None:
        for column in self.frame.columns:
            series = self.frame[column]
            if series.dtype == pl.Float64:
                self._check_no_nan(column)
            needed = column in require or column == "draw_idx"
            if needed and self.frame[column].null_count():
                skip = option_hint("skip_bad_rows", True)
                hint = f"fill it in, or skip and count such rows: {skip}"
                self.refuse(self.frame[column].is_null().to_numpy(), column, "is missing", hint)

    def _check_no_nan(self, column: str) -> None:
        finite = self.frame[column].is_finite()
        if not finite.all():  # nulls do not count
            wrong = (~finite).fill_null(False).to_numpy()
            hint = "leave a missing value empty (null); NaN and infinity are not numbers to average"
            self.refuse(wrong, column, "is not a finite number", hint)

    def _check_ranges(self, judge_scale: Scale) -> None:
        largest = MAX_VARIANCE * judge_scale.width**2
        self._check_between(
            "judge_variance", 0.0, largest,
            f"must be in [0, {largest:g}]: no variance on this scale is larger",
        )  # fmt: skip
        self._check_between("label_propensity", np.nextafter(0.0, 1.0), 1.0, "must be in (0, 1]")
        for column in ("base_policy_logprob", *(c for _, c in self._family("target"))):
            self._check_between(
                column, -np.inf, LOGPROB_SLACK,
                "is positive; a log-probability of text is at most 0",
                hint="is it a negative log-likelihood? then change its sign",
            )  # fmt: skip

    def _check_between(
        self, column: str, low: float, high: float, what: str, hint: str | None = None
    ) -> None:
        if column not in self.frame.columns:
            return
        series = self.frame[column]
        least, most = series.min(), series.max()
        if least is not None and (least < low or most > high):  # type: ignore[operator]
            wrong = ((series < low) | (series > high)).fill_null(False).to_numpy()
            self.refuse(wrong, column, what, hint)

    def _check_policies(self, policy: Codes, least: int) -> None:
        counts = policy.counts()
        for code in np.flatnonzero((counts < least) & (counts > 0)).tolist():
            row = int(np.argmax(policy.codes == code))
            raise CJEError(
                f"policy {policy.names[code]!r} has {counts[code]} row",
                where=self.origin.name(row),
                value=policy.names[code],
                hint="one row has no standard error: add rows, or remove the policy"
                + by_interface("; min_rows=1 reads it anyway", ""),
            )

    # ---- columns ---------------------------------------------------------------------------------

    def frame_number(self, column: str) -> FloatArray:
        """A float column; null becomes NaN."""
        values = self.frame[column].to_numpy()
        values.setflags(write=False)
        return values

    def _number(self, column: str) -> FloatArray | None:
        if column not in self.frame.columns or self.frame[column].null_count() == self.frame.height:
            return None
        return self.frame_number(column)

    def _text(self, column: str) -> pl.Series | None:
        return self.frame[column].fill_null("") if column in self.frame.columns else None

    def _family(self, family: str) -> list[tuple[str, str]]:
        prefix = f"{family}:"
        return [(c[len(prefix) :], c) for c in self.frame.columns if c.startswith(prefix)]
