"""Canonical columns of all sources -> a checked `Dataset` on [0, 1]."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cje.data import columns
from cje.data.checked_rows import LOGPROB_SLACK, LongLabels
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.judges import JUDGE, covariate_name, joined_judges, mean_of_judges
from cje.data.raters import RaterLabels, rows_of_raters
from cje.data.scale import Scale
from cje.data.scaled_rows import ScaledRows
from cje.data.versions import files_question, repeats_question
from cje.errors import CJEError
from cje.hints import by_interface, option_hint
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Assembly", "LongLabels", "ValueOptions"]


@dataclass(frozen=True)
class ValueOptions:
    """Options of `read` that concern values."""

    judge_scale: Scale | None = None
    oracle_scale: Scale | None = None
    target_policies: Sequence[str] | None = None
    require: Collection[str] = ("judge_score",)
    number_repeats: bool = False
    min_rows: int = 2


@dataclass
class Assembly(ScaledRows):
    """Checked rows on their scales, gathered to the columns of a `Dataset`."""

    def dataset(self, options: ValueOptions) -> Dataset:
        """Check everything, map to [0, 1], and build the data set."""
        if not self.frame.height:
            raise CJEError("there are no rows", hint="; ".join(self.bad.notes()) or None)
        self._check_names()
        self._gather_rows_of_raters()
        self._check_finite(options.require)
        self._gather_raters()
        judges = [name for name, _ in self._family("judge")]
        if judges:
            judge_scale = self._gather_judges(judges, options)
        else:
            judge_scale = self._scale("judge_score", options.judge_scale)
            self._check_one_scale("judge_score", judge_scale, options.judge_scale)
        oracle_scale = self._scale("oracle_label", options.oracle_scale)
        self._check_one_scale("oracle_label", oracle_scale, options.oracle_scale)
        self._check_ranges(judge_scale)
        self._check_target_list(options.target_policies)
        prompt, policy, draws = self._identify(options.number_repeats)
        self._check_policies(policy, options.min_rows)
        logprobs, targets = self._targets(options.target_policies)
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
                what = columns.DUPLICATE_ROW
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
                f"cluster: {merged:,} clusters share a prompt with another one and are merged "
                f"with it"
            )
        return found

    def _draws(self) -> IntArray | None:
        if "draw_idx" not in self.frame.columns:
            return None
        return self.frame["draw_idx"].to_numpy()

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
        """Every row must list one finite log-probability per target policy."""
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
        wrong = ~(np.isfinite(flat) & (flat <= LOGPROB_SLACK))
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

    def _gather_judges(self, judges: Sequence[str], options: ValueOptions) -> Scale:
        """Several judges' columns as their mean and a covariate each; returns the mean's scale."""
        scales = []
        for column in (f"{JUDGE}{name}" for name in judges):
            scales.append(self._scale(column, options.judge_scale))
            self._check_one_scale(column, scales[-1], options.judge_scale)
        scores = [self.frame_number(f"{JUDGE}{name}") for name in judges]
        mean, scale, single = mean_of_judges(scores, scales)
        gaps = int(sum(np.isnan(x[~np.isnan(mean)]).sum() for x in scores))
        self.frame = joined_judges(self.frame, judges, mean, single)
        self.notes.append(
            f"judge_score is the mean of {len(judges)} judges ({', '.join(judges)}), which enter "
            "the calibration together"
            + (f"; {gaps} missing scores taken as the mean of the row's others" if gaps else "")
        )
        if "judge_score" in options.require and np.isnan(mean).any():
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
