"""Canonical columns of all sources -> a checked `Dataset` on [0, 1]."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from cje.data import columns
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.judge_score import MAX_VARIANCE
from cje.data.judges import JUDGE, covariate_name, joined_judges, mean_of_judges
from cje.data.problems import BadRows, Origin
from cje.data.raters import RaterLabels, rows_of_raters
from cje.data.scale import Scale, infer_scale, outside_the_bulk
from cje.data.scale_checks import ScaleError, far_from_scale, policy_on_another_scale
from cje.data.versions import files_question, repeats_question
from cje.errors import CJEError
from cje.findings import Finding
from cje.hints import by_interface, flag_option, option_hint, scale_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Assembly", "LongLabels", "Wishes"]

_LOGPROB_SLACK = 1e-6  # sums of rounded token log-probabilities may end a hair above zero


@dataclass(frozen=True)
class Wishes:
    """What the caller of `read` asked for, as far as values go."""

    judge_scale: Scale | None = None
    oracle_scale: Scale | None = None
    target_policies: Sequence[str] | None = None
    require: Collection[str] = ("judge_score",)
    number_repeats: bool = False
    min_rows: int = 2


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
class Assembly:
    """The rows of all sources while they are checked; bad rows raise, or leave and are counted."""

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

    def dataset(self, wishes: Wishes) -> Dataset:
        """Check everything, map to [0, 1], and build the data set."""
        if not self.frame.height:
            raise CJEError("there are no rows", hint="; ".join(self.bad.notes()) or None)
        self._check_names()
        self._gather_rows_of_raters()
        self._check_finite(wishes.require)
        self._gather_raters()
        judges = [name for name, _ in self._family("judge")]
        if judges:
            judge_scale = self._gather_judges(judges, wishes)
        else:
            judge_scale = self._scale("judge_score", wishes.judge_scale)
            self._check_one_scale("judge_score", judge_scale, wishes.judge_scale)
        oracle_scale = self._scale("oracle_label", wishes.oracle_scale)
        self._check_one_scale("oracle_label", oracle_scale, wishes.oracle_scale)
        self._check_ranges(judge_scale)
        self._check_target_list(wishes.target_policies)
        prompt, policy, draws = self._identify(wishes.number_repeats)
        self._check_policies(policy, wishes.min_rows)
        logprobs, targets = self._targets(wishes.target_policies)
        variance = self._number("judge_variance")
        skipped = {"rows": self.bad.n_skipped, "labels": self.bad.lost_labels}
        return Dataset.from_arrays(
            prompt_id=prompt,
            policy=policy,
            draw_idx=draws,
            judge_score=_mapped(self._number("judge_score"), judge_scale),
            judge_variance=None if variance is None else variance / judge_scale.width**2,
            oracle_label=_mapped(self._number("oracle_label"), oracle_scale),
            rater_labels=self._rater_labels(oracle_scale),
            label_propensity=self._number("label_propensity"),
            base_policy_logprob=self._number("base_policy_logprob"),
            target_policy_logprobs=logprobs,
            target_policies=targets,
            rewards=_mapped(self._number("rewards"), oracle_scale),
            covariates={name: self.frame_number(c) for name, c in self._family("covariate")},
            groups={name: Codes.from_series(self.frame[c]) for name, c in self._family("group")},
            prompt=self._text("prompt"),
            response=self._text("response"),
            judge_scale=judge_scale,
            oracle_scale=oracle_scale,
            cluster=self._clusters(prompt),
            metadata={
                "reading": (*self.notes, *self.bad.notes()),
                "columns": {name: ".".join(path) for name, path in self.paths.items()},
                "sources": self.origin.sources(),
                "findings": tuple(self.findings),
                "unused": tuple(self.unused),
                **({"judges": tuple(map(covariate_name, judges))} if judges else {}),
                **({"skipped": skipped} if any(skipped.values()) else {}),
            },
        )

    # ---- bad rows --------------------------------------------------------------------------------

    def drop(self, wrong: BoolArray) -> None:
        """Remove rows (already reported to `bad`) from everything row-long."""
        keep = ~wrong
        self.frame = self.frame.filter(pl.Series(keep))
        if self.policy is not None:
            self.policy = self.policy.take(np.flatnonzero(keep))
        if self.raters is not None:
            self.raters = self.raters.keep(keep)
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
                missing = self.frame[column].is_null()
                if missing.any():
                    self.refuse(missing.to_numpy(), column, "is missing")
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
            if column in require or column == "draw_idx":
                missing = self.frame[column].is_null()
                if missing.any():
                    skip = option_hint("skip_bad_rows", True)
                    hint = f"fill it in, or skip and count such rows: {skip}"
                    self.refuse(missing.to_numpy(), column, "is missing", hint)

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
                column, -np.inf, _LOGPROB_SLACK,
                "is positive, which no log-probability of text is",
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
                + by_interface("; min_rows=1 reads it all the same", ""),
            )

    # ---- scales ----------------------------------------------------------------------------------

    def _scale(self, column: str, declared: Scale | None) -> Scale:
        """The declared scale, checked; or the usual one that holds all values, reported."""
        values = self._values_on(column)
        if declared is not None:
            hint = f"correct the value, or declare the right {scale_hint(_scale_argument(column))}"
            what = f"is outside its scale {declared}"
            self._refuse_outside(column, ~declared.contains(values), what, hint)
            return declared
        odd = outside_the_bulk(values)
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
        """Values far outside the scale of nearly all others are errors, and no wider scale."""
        count = int(outside.sum())
        wide = infer_scale(values)
        low, high = float(values.min()), float(values.max())
        argument = _scale_argument(column)
        ends = (wide[0].low, wide[0].high) if wide else (low, high)
        self._refuse_outside(
            column,
            outside,
            f"is far outside {scale}, where the other {len(values) - count:,} values are",
            f"correct the value; skip it: {option_hint('skip_bad_rows', True)}; or, if the scale "
            f"is wider, declare it: {scale_hint(argument, *ends)}",
            [flag_option("skip_bad_rows"), flag_option(argument, f"{ends[0]:g},{ends[1]:g}")],
        )

    def _check_one_scale(self, column: str, scale: Scale, declared: Scale | None) -> None:
        """Refuse values of policies on different scales; note a declared scale far too wide."""
        rows = self._rows_on(column)
        values = self._values_on(column)
        if not values.size:
            return
        if declared is not None:
            self.findings.extend(far_from_scale(column, values, scale))
            return
        policy = self.policy or Codes.from_series(self.frame["policy"])
        narrow = policy_on_another_scale(values, policy.codes[rows], scale)
        if narrow is not None:
            code, least, most = narrow
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

    # ---- columns ---------------------------------------------------------------------------------

    def _identify(self, number_repeats: bool) -> tuple[Codes, Codes, IntArray | None]:
        """Prompt, policy and draw of each row; repeats are refused, skipped or numbered."""
        while True:
            prompt = Codes.from_series(self.frame["prompt_id"])
            policy = self.policy or Codes.from_series(self.frame["policy"])
            draws = self._draws()
            if draws is None and number_repeats:
                break
            repeated = columns.repeated_rows(policy, prompt, draws)
            if not len(repeated):
                break
            row = int(repeated[0])
            if self.origin.in_several_pieces(columns.rows_like(policy, prompt, draws, row)):
                what, hint, answers = files_question()
            else:
                what = "duplicate row: this policy, prompt_id and draw_idx occurred before"
                hint, answers = repeats_question(list(self.tell_apart()), self.paths.get("policy"))
            self.bad.found(
                what,
                where=self.origin.name(row),
                value=columns.row_key(policy, prompt, draws, row),
                hint=hint,
                answers=answers,
                count=len(repeated),
            )
            wrong = np.zeros(self.frame.height, dtype=bool)
            wrong[repeated] = True
            self.drop(wrong)
        if self.prompt_from_text:
            prompt = _hashed(prompt)
        # the text of ids is most of the memory, and no longer needed
        self.frame = self.frame.drop("prompt_id", "policy", strict=False)
        return prompt, policy, draws

    def _clusters(self, prompt: Codes) -> Codes | None:
        if "cluster" not in self.frame.columns:
            return None
        given = Codes.from_series(self.frame["cluster"])
        found = columns.cluster_codes(given, prompt)
        assert found is not None
        merged = given.compact().n_names - found.compact().n_names
        if merged:
            self.notes.append(
                f"cluster: {merged:,} clusters share a prompt with another one and are one with it"
            )
        return found

    def _draws(self) -> IntArray | None:
        if "draw_idx" not in self.frame.columns:
            return None
        return self.frame["draw_idx"].to_numpy()

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

    def _targets(self, names: Sequence[str] | None) -> tuple[Any, tuple[str, ...] | None]:
        if "target_list" in self.frame.columns:
            return self._target_list(names)
        found = dict(self._family("target"))
        if not found:
            return None, None
        unknown = [name for name in names or () if name not in found]
        if unknown:
            raise CJEError(
                "no log-probabilities for a target policy",
                value=unknown[0],
                hint=f"the data have: {', '.join(found)}",
            )
        order = tuple(names) if names else tuple(found)
        return {name: self.frame_number(found[name]) for name in order}, order

    def _check_target_list(self, names: Sequence[str] | None) -> None:
        """Every row must list one finite log-probability a target policy."""
        if "target_list" not in self.frame.columns:
            return
        lengths = self.frame["target_list"].list.len()
        usual = len(names) if names else int(lengths.mode().max() or 0)  # type: ignore[arg-type]
        self.refuse(
            (lengths != usual).fill_null(True).to_numpy() | (usual == 0), "target_list",
            f"must hold {usual or 'some'} log-probabilities, one per target policy",
            hint=f"{_name_targets()}; never pad with a default",
        )  # fmt: skip
        flat = self.frame["target_list"].explode().to_numpy()
        wrong = ~(np.isfinite(flat) & (flat <= _LOGPROB_SLACK))
        self.refuse(
            np.asarray(wrong.reshape(-1, usual).any(axis=1)), "target_list",
            "must hold finite log-probabilities, none of them positive",
        )  # fmt: skip

    def _target_list(self, names: Sequence[str] | None) -> tuple[FloatArray, tuple[str, ...]]:
        flat = self.frame["target_list"].explode().to_numpy()
        matrix = flat.reshape(self.frame.height, -1)
        if names:
            return matrix, tuple(names)
        order = tuple(f"target_{k}" for k in range(matrix.shape[1]))
        self.notes.append(
            f"the target log-probabilities have no names; called {', '.join(order)} "
            f"({_name_targets()})"
        )
        return matrix, order

    # ---- judges ----------------------------------------------------------------------------------

    def _gather_judges(self, judges: Sequence[str], wishes: Wishes) -> Scale:
        """Several judges' columns as their mean and a covariate each; returns the mean's scale."""
        scales = []
        for column in (f"{JUDGE}{name}" for name in judges):
            scales.append(self._scale(column, wishes.judge_scale))
            self._check_one_scale(column, scales[-1], wishes.judge_scale)
        scores = [self.frame_number(f"{JUDGE}{name}") for name in judges]
        mean, scale, single = mean_of_judges(scores, scales)
        gaps = int(sum(np.isnan(x[~np.isnan(mean)]).sum() for x in scores))
        self.frame = joined_judges(self.frame, judges, mean, single)
        self.notes.append(
            f"judge_score is the mean of {len(judges)} judges ({', '.join(judges)}), which enter "
            "the calibration together"
            + (f"; {gaps} missing scores taken as the mean of the row's others" if gaps else "")
        )
        if "judge_score" in wishes.require and np.isnan(mean).any():
            skip = option_hint("skip_bad_rows", True)
            self.refuse(
                np.isnan(mean), "judge_score", "is missing: no judge has scored the row",
                f"score it, or skip and count such rows: {skip}",
            )  # fmt: skip
        return scale

    # ---- raters ----------------------------------------------------------------------------------

    def _gather_rows_of_raters(self) -> None:
        """Rows that differ only in their rater and label are one response with several labels."""
        if not {"rater", "oracle_label"} <= set(self.frame.columns):
            return
        found = rows_of_raters(self.frame, self.policy)
        if found is None:
            return
        keep, row, value, rater = found
        self.raters = LongLabels(row, value, rater)
        self.frame = self.frame.drop("oracle_label")
        self.drop(~keep)
        self.notes.append(f"{len(keep)} rows by rater are {int(keep.sum())} responses")

    def _gather_raters(self) -> None:
        """Rater columns, or lists of labels, in long form."""
        family = self._family("rater")
        if family:
            rows, values, codes = [], [], []
            for k, (_, column) in enumerate(family):
                given = self.frame[column].is_not_null().to_numpy()
                rows.append(np.flatnonzero(given))
                values.append(self.frame[column].drop_nulls().to_numpy())
                codes.append(np.full(int(given.sum()), k))
            self.raters = _sorted_labels(
                np.concatenate(rows),
                np.concatenate(values),
                Codes(np.concatenate(codes), tuple(name for name, _ in family)),
            )
        elif "rater_list" in self.frame.columns:
            long = (
                self.frame.select(pl.int_range(pl.len()).alias("row"), "rater_list")
                .explode("rater_list")
                .drop_nulls()
            )
            row, value = long["row"].to_numpy(), long["rater_list"].to_numpy()
            if not np.isfinite(value).all():
                wrong = np.zeros(self.frame.height, dtype=bool)
                wrong[row[~np.isfinite(value)]] = True
                self.refuse(wrong, "rater_list", "holds a label that is not finite")
                return self._gather_raters()
            labels = RaterLabels.from_arrays(row, np.zeros(len(row)))  # numbers the raters
            self.raters = LongLabels(row, value, labels.rater)
        elif self.raters is None and {"rater", "oracle_label"} <= set(self.frame.columns):
            labelled = self.frame["oracle_label"].is_not_null() & self.frame["rater"].is_not_null()
            if labelled.sum() == self.frame["oracle_label"].count() > 0:  # every label has one
                at = np.flatnonzero(labelled.to_numpy())
                names = Codes.from_series(self.frame["rater"].filter(labelled).cast(pl.String))
                self.raters = LongLabels(at, self.frame["oracle_label"].to_numpy()[at], names)
        if self.raters is not None:
            self.notes.append(
                f"{len(self.raters.row)} labels by {self.raters.rater.n_names} raters; "
                "oracle_label is their mean"
            )
        return None

    def _rater_labels(self, scale: Scale) -> RaterLabels | None:
        if self.raters is None:
            return None
        value = scale.to_unit(self.raters.value)
        return RaterLabels.from_arrays(self.raters.row, value, self.raters.rater)


def _sorted_labels(row: IntArray, value: FloatArray, rater: Codes) -> LongLabels:
    order = np.argsort(row, kind="stable")
    return LongLabels(row[order], value[order], rater.take(order))


def _mapped(values: FloatArray | None, scale: Scale) -> FloatArray | None:
    return None if values is None else scale.to_unit(values)


def _scale_argument(column: str) -> str:
    return "oracle_scale" if column == "oracle_label" else "judge_scale"


def _hashed(prompt: Codes) -> Codes:
    """Short stable names for prompts known by their text only."""
    names = tuple(
        hashlib.blake2b(text.encode(), digest_size=10).hexdigest() for text in prompt.vocabulary
    )
    return Codes(prompt.codes, names)


def _name_targets() -> str:
    return "name the targets" + by_interface(
        " with target_policies=[...]", " in the data: a column per target"
    )
