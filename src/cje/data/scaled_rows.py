"""The scales of scores and labels: declared, or recognised; values off them are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cje.data.checked_rows import CheckedRows, LongLabels
from cje.data.codes import Codes
from cje.data.judges import JUDGE
from cje.data.scale import Scale, infer_scale, outside_the_bulk
from cje.data.scale_checks import ScaleError, far_from_scale, policy_on_another_scale
from cje.errors import CJEError
from cje.hints import flag_option, option_hint, scale_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["ScaledRows"]


@dataclass
class ScaledRows(CheckedRows):
    """Checked rows whose scores and labels are put on scales."""

    def _scale(self, column: str, declared: Scale | None) -> Scale:
        """The declared scale, checked; or the usual one that holds all values, reported."""
        values = self._values_on(column)
        if declared is not None:
            hint = f"correct the value, or declare the right {scale_hint(_scale_argument(column))}"
            what = f"is outside its scale {declared}"
            self._refuse_outside(column, ~declared.contains(values), what, hint)
            return declared
        counts = self._counts_on(column)
        odd = outside_the_bulk(values, counts)
        if odd is not None:
            self._settled(column, lambda: self._refuse_far(column, values, *odd))
            values = self._values_on(column)
        found = infer_scale(values) if values.size else (Scale(), "")
        if found is None:
            low, high = self._range_on(column)
            argument = _scale_argument(column)
            error = CJEError(
                f"the range of {column} is not that of a usual scale",
                value=(low, high),
                hint=f"declare it: {scale_hint(argument)}",
                answers=[flag_option(argument, f"{low:g},{high:g}")],
            )
            raise error if low == high else ScaleError(error, argument, Scale(low, high))
        scale, reason = found
        if not scale.is_unit:
            self.notes.append(
                f"{column} taken to be on {scale} ({reason}); "
                f"declare another with {scale_hint(_scale_argument(column))}"
            )
        return scale

    def _range_on(self, column: str) -> tuple[float, float]:
        """Least and greatest value; of one of several judges, over all that share its scale."""
        alike = [c for c in self.frame.columns if column.startswith(JUDGE) and c.startswith(JUDGE)]
        found = [values for c in alike or [column] if (values := self._values_on(c)).size]
        return float(min(v.min() for v in found)), float(max(v.max() for v in found))

    def _settled(self, column: str, check: Callable[[], None]) -> None:
        """Run a check of a scale; its error says which argument would settle it."""
        values = self._values_on(column)
        low, high = float(values.min()), float(values.max())
        try:
            check()
        except CJEError as error:
            raise ScaleError(error, _scale_argument(column), Scale(low, high)) from error

    def _refuse_far(
        self, column: str, values: FloatArray, scale: Scale, outside: BoolArray
    ) -> None:
        """Values far outside the scale of nearly all others are errors, not a wider scale."""
        counts = self._counts_on(column)
        others = int((~outside).sum() if counts is None else counts[~outside].sum())
        wide = infer_scale(values)
        low, high = float(values.min()), float(values.max())
        argument = _scale_argument(column)
        ends = (wide[0].low, wide[0].high) if wide else (low, high)
        self._refuse_outside(
            column,
            outside,
            f"is far outside {scale}, where the other {others:,} values are",
            f"correct the value; skip it: {option_hint('skip_bad_rows', True)}; or, if the scale "
            f"is wider, declare it: {scale_hint(argument, *ends)}",
            [flag_option("skip_bad_rows"), flag_option(argument, f"{ends[0]:g},{ends[1]:g}")],
        )

    def _check_one_scale(self, column: str, scale: Scale, declared: Scale | None) -> None:
        """Refuse values of policies on different scales; note a declared scale far too wide."""
        values = self._values_on(column)
        if not values.size:
            return
        if declared is not None:
            self.findings.extend(far_from_scale(column, values, scale))
            return

        def policies() -> Codes:
            return self.policy or Codes.from_series(self.frame["policy"])

        narrow = policy_on_another_scale(
            values, lambda: policies().codes[self._rows_on(column)], scale
        )
        if narrow is not None:
            policy, rows, (code, least, most) = policies(), self._rows_on(column), narrow
            error = CJEError(
                f"{column} is on two scales: {least:g} to {most:g} for policy "
                f"{policy.names[code]!r}, {values.min():g} to {values.max():g} overall",
                where=self.origin.name(int(rows[np.argmax(policy.codes[rows] == code)])),
                hint="bring all policies to one scale; or, if they are on one, declare it: "
                f"{scale_hint(_scale_argument(column), scale.low, scale.high)}",
            )
            raise ScaleError(error, _scale_argument(column), scale)

    def _rows_on(self, column: str) -> IntArray:
        """The row of each of `_values_on`."""
        if column == "oracle_label" and self.raters is not None:
            return self.raters.row
        if column not in self.frame.columns:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.frame[column].is_not_null().to_numpy())

    def _values_on(self, column: str) -> FloatArray:
        if column == "oracle_label" and self.raters is not None:
            return self.raters.value
        if column not in self.frame.columns:
            return np.zeros(0)
        return self.frame[column].drop_nulls().to_numpy()

    def _counts_on(self, column: str) -> IntArray | None:
        """How many rows of the source each of `_values_on` stands for; None: one."""
        if self.stands_for is None:
            return None
        return self.stands_for[self._rows_on(column)]

    def _refuse_outside(
        self, column: str, outside: BoolArray, what: str, hint: str, answers: Sequence[str] = ()
    ) -> None:
        """Report the values of a mask over `_values_on`."""
        if not outside.any():
            return
        rows = self._rows_on(column)[outside]
        if column == "oracle_label" and self.raters is not None:
            self._refuse_raters(self.raters, outside, what, hint, answers)
            return
        wrong = np.zeros(self.frame.height, dtype=bool)
        wrong[rows] = True
        self.refuse(wrong, column, what, hint, answers)

    def _refuse_raters(
        self, raters: LongLabels, outside: BoolArray, what: str, hint: str, answers: Sequence[str]
    ) -> None:
        """Single labels of a mask: an error, or, with skipping on, left out and counted."""
        first = int(np.argmax(outside))
        readable = int((~outside).sum())
        if self.bad.unlabels(
            "oracle_label", what, outside, lambda i: self.origin.name(int(raters.row[i])),
            readable=readable,
        ):  # fmt: skip
            kept = np.flatnonzero(~outside)
            self.raters = LongLabels(raters.row[kept], raters.value[kept], raters.rater.take(kept))
            return
        self.bad.found(
            f"oracle_label {what}",
            where=f"{self.origin.name(int(raters.row[first]))}, "
            f"field {self._shown('oracle_label')}",
            value=float(raters.value[first]),
            hint=hint,
            answers=answers,
            count=int(outside.sum()),
        )


def _scale_argument(column: str) -> str:
    return "oracle_scale" if column == "oracle_label" else "judge_scale"
