"""Canonical columns of all sources -> a checked `Dataset` on [0, 1]."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from cje.data import columns
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.judge_score import MAX_VARIANCE
from cje.data.problems import BadRows, Origin
from cje.data.raters import RaterLabels
from cje.data.scale import Scale, infer_scale
from cje.data.scale_checks import far_from_scale, policy_on_another_scale
from cje.errors import CJEError
from cje.findings import Finding
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
    raters: LongLabels | None = None
    findings: list[Finding] = field(default_factory=list)

    def dataset(self, wishes: Wishes) -> Dataset:
        """Check everything, map to [0, 1], and build the data set."""
        if not self.frame.height:
            raise CJEError("there are no rows", hint="; ".join(self.bad.notes()) or None)
        self._check_names()
        self._check_finite(wishes.require)
        self._gather_raters()
        judge_scale = self._scale("judge_score", wishes.judge_scale)
        oracle_scale = self._scale("oracle_label", wishes.oracle_scale)
        self._check_one_scale("judge_score", judge_scale, wishes.judge_scale)
        self._check_one_scale("oracle_label", oracle_scale, wishes.oracle_scale)
        self._check_ranges(judge_scale)
        self._check_target_list(wishes.target_policies)
        prompt, policy, draws = self._identify(wishes.number_repeats)
        self._check_policies(policy, wishes.min_rows)
        logprobs, targets = self._targets(wishes.target_policies)
        variance = self._number("judge_variance")
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

    def refuse(self, wrong: BoolArray, column: str, what: str, hint: str | None = None) -> None:
        """Report the rows of a mask; with skipping on, remove them."""
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        value = self.frame[column][row] if column in self.frame.columns else ...
        self.bad.found(
            f"{column} {what}",
            where=f"{self.origin.name(row)}, field {self._shown(column)}",
            value=value,
            hint=hint,
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
                    hint = "fill it in, or pass skip_bad_rows=True to drop and count such rows"
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
                hint="one row has no standard error: add rows, remove the policy, or pass "
                "min_rows=1 to read it all the same",
            )

    # ---- scales ----------------------------------------------------------------------------------

    def _scale(self, column: str, declared: Scale | None) -> Scale:
        """The declared scale, checked; or the usual one that holds all values, reported."""
        values = self._values_on(column)
        if declared is not None:
            self._check_on_scale(column, declared)
            return declared
        found = infer_scale(values) if values.size else (Scale(), "")
        if found is None:
            raise CJEError(
                f"{column} is on no usual scale",
                value=(float(values.min()), float(values.max())),
                hint=f"declare it: {_scale_argument(column)}=(low, high)",
            )
        scale, reason = found
        if not scale.is_unit:
            self.notes.append(
                f"{column} taken to be on {scale} ({reason}); "
                f"declare another with {_scale_argument(column)}=(low, high)"
            )
        return scale

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
            raise CJEError(
                f"{column} is on two scales: {least:g} to {most:g} for policy "
                f"{policy.names[code]!r}, {values.min():g} to {values.max():g} overall",
                where=self.origin.name(int(rows[np.argmax(policy.codes[rows] == code)])),
                hint="bring all policies to one scale; or, if they are on one, declare it: "
                f"{_scale_argument(column)}=({scale.low:g}, {scale.high:g})",
            )

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

    def _check_on_scale(self, column: str, scale: Scale) -> None:
        hint = f"correct the value, or declare the right {_scale_argument(column)}=(low, high)"
        what = f"is outside its scale {scale}"
        if column == "oracle_label" and self.raters is not None:
            outside = ~scale.contains(self.raters.value)
            if outside.any():
                first = int(np.argmax(outside))
                self.bad.found(
                    f"{column} {what}",
                    where=f"{self.origin.name(int(self.raters.row[first]))}, "
                    f"field {self._shown(column)}",
                    value=float(self.raters.value[first]),
                    hint=hint,
                    count=int(outside.sum()),
                )
                wrong = np.zeros(self.frame.height, dtype=bool)
                wrong[self.raters.row[outside]] = True
                self.drop(wrong)
            return
        self._check_between(column, scale.low, scale.high, what, hint)

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
            self.bad.found(
                "duplicate row: this policy, prompt_id and draw_idx occurred before",
                where=self.origin.name(row),
                value=columns.row_key(policy, prompt, draws, row),
                hint="remove it; or, if these are several responses to one prompt, number them in "
                "a column draw_idx or pass repeats='draws'",
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
            hint="name the targets with target_policies=[...]; never pad with a default",
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
            "(name them with target_policies=[...])"
        )
        return matrix, order

    # ---- raters ----------------------------------------------------------------------------------

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
    return "judge_scale" if column == "judge_score" else "oracle_scale"


def _hashed(prompt: Codes) -> Codes:
    """Short stable names for prompts known by their text only."""
    names = tuple(
        hashlib.blake2b(text.encode(), digest_size=10).hexdigest() for text in prompt.vocabulary
    )
    return Codes(prompt.codes, names)
