"""Judge quality from a pilot file, and how uncertain a plan from it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.analysis.label_plan import Design, Goal, JudgeQuality, UnitCosts, plan_study
from cje.calibration.rewards.reward_model import fit_reward_model
from cje.checks import check_seed
from cje.data import Dataset
from cje.data.folds import get_folds
from cje.diagnostics.dependence import cluster_dependence
from cje.diagnostics.judge_quality import MIN_LABELS as MIN_PILOT_LABELS
from cje.diagnostics.judge_quality import unexplained_share
from cje.errors import CJEError
from cje.estimators.direct.label_pool import inverse_propensity
from cje.hints import by_interface
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["MIN_PILOT_LABELS", "RANGE", "Pilot", "PilotPlan", "measure_pilot", "plan_from_pilot"]


RANGE = (0.04, 0.96)


@dataclass(frozen=True)
class Pilot:
    """Judge quality measured on a pilot, with bootstrap resamples.

    Attributes
    ----------
    quality : JudgeQuality
        Pooled over the pilot's policies, on the label's own scale.
    draws : tuple of JudgeQuality
        The same on bootstrap resamples of the pilot's prompts.
    n_labels, n_policies : int
    """

    quality: JudgeQuality
    draws: tuple[JudgeQuality, ...]
    n_labels: int
    n_policies: int


@dataclass(frozen=True)
class PilotPlan:
    """A plan from a pilot: the point plan, and the 80% planning range.

    `labels_range` and `prompts_range` are the 4% and 96% points of the plans that resamples of the
    pilot would have made; from 50 labels such a range holds the right number about four times in
    five (benchmarks/plan.py: the resamples share one fitted calibration, so plain 10% and 90%
    points would hold it in two of three). `cautious` is the design at the upper end.
    """

    design: Design
    cautious: Design
    labels_range: tuple[int, int]
    prompts_range: tuple[int, int]
    pilot: Pilot

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "design": self.design.to_dict(),
            "cautious": self.cautious.to_dict(),
            "labels_range": list(self.labels_range),
            "prompts_range": list(self.prompts_range),
            "quality": self.pilot.quality.__dict__,
            "pilot_labels": self.pilot.n_labels,
        }


def measure_pilot(data: Dataset, *, n_draws: int = 200, seed: int = 42) -> Pilot:
    """Measure sd, R2 and correlations between policies, with a bootstrap over prompts.

    R2 compares out-of-fold errors of the calibration with the spread of the labels within a policy.
    Correlations use the prompts that at least two policies share; with fewer than 10 doubly
    labelled prompts the residual correlation is set to zero, the cautious value. Several
    draws of one policy are averaged first: they are not policies that share a prompt. Labels are
    weighted by 1 / label_propensity where the data have it. Where clusters contain the prompts,
    whole clusters are resampled, and the sd is larger by the root of the design effect of labels
    that err alike, for as many labels per cluster as in the pilot.
    """
    labelled = np.flatnonzero(np.isfinite(data.oracle_label) & np.isfinite(data.judge_score))
    if len(labelled) < MIN_PILOT_LABELS:
        raise CJEError(
            f"a pilot needs at least {MIN_PILOT_LABELS} labelled rows",
            value=len(labelled),
            hint="label more rows, or plan from assumed quality: "
            + by_interface("sd and r2, without a pilot", "cje plan --sd ... --r2 ..."),
        )
    folds = get_folds(data.units, 5, seed)
    scores, labels = data.judge_score[labelled], data.oracle_label[labelled]
    weight = inverse_propensity(data, labelled)
    model = fit_reward_model(scores, labels, folds=folds[labelled], n_folds=5, weights=weight)
    error = labels - model.predict_oof(scores, folds[labelled])
    judged = np.flatnonzero(np.isfinite(data.judge_score))
    reward = model.predict(data.judge_score[judged])
    rows = _PilotRows(
        label_policy=data.policy.codes[labelled],
        label_prompt=data.prompt_id.codes[labelled],
        label=labels,
        error=error,
        weight=weight,
        policy=data.policy.codes[judged],
        prompt=data.prompt_id.codes[judged],
        reward=reward,
        n_policies=data.policy.n_names,
        n_prompts=data.prompt_id.n_names,
    )
    width = data.oracle_scale.width * _dependence(data, labelled, error)
    quality = rows.quality(np.ones(rows.n_prompts), width)
    rng = check_seed(seed)
    unit = np.zeros(rows.n_prompts, dtype=np.int64)
    unit[data.prompt_id.codes] = data.units.codes
    n = data.units.n_names
    draws = [
        rows.quality(rng.multinomial(n, np.full(n, 1 / n))[unit], width) for _ in range(n_draws)
    ]
    return Pilot(quality, tuple(draws), len(labelled), len(np.unique(rows.policy)))


def _dependence(data: Dataset, labelled: IntArray, error: FloatArray) -> float:
    """Factor by which correlated errors within clusters widen the label part of an interval."""
    if data.cluster is None:
        return 1.0
    prompts, clusters = data.prompt_id.codes[labelled], data.cluster.codes[labelled]
    found = cluster_dependence("cluster", error, prompts, clusters)
    return 1.0 if found is None else found.factor


def plan_from_pilot(
    data: Dataset,
    goal: Goal,
    costs: UnitCosts | None = None,
    *,
    n_policies: int | None = None,
    max_prompts: int | None = None,
    n_draws: int = 200,
    seed: int = 42,
) -> PilotPlan:
    """Plan a study from a pilot, with the 80% planning range."""
    pilot = measure_pilot(data, n_draws=n_draws, seed=seed)
    count = n_policies or max(pilot.n_policies, 1 if goal.kind == "value" else 2)

    def plan(quality: JudgeQuality) -> Design:
        return plan_study(quality, goal, costs, n_policies=count, max_prompts=max_prompts)

    designs = [plan(quality) for quality in pilot.draws]
    labels = np.quantile([d.n_labels for d in designs], RANGE)
    prompts = np.quantile([d.n_prompts for d in designs], RANGE)
    upper = max(designs, key=lambda d: -abs(d.n_labels - labels[1]))
    return PilotPlan(
        plan(pilot.quality),
        upper,
        (int(labels[0]), int(np.ceil(labels[1]))),
        (int(prompts[0]), int(np.ceil(prompts[1]))),
        pilot,
    )


@dataclass(frozen=True)
class _PilotRows:
    """The pilot as arrays; a resample of prompts is a vector of multiplicities."""

    label_policy: IntArray
    label_prompt: IntArray
    label: FloatArray
    error: FloatArray
    weight: FloatArray
    policy: IntArray
    prompt: IntArray
    reward: FloatArray
    n_policies: int
    n_prompts: int

    def quality(self, multiplicity: Any, width: float) -> JudgeQuality:
        """Judge quality with prompt g counted `multiplicity[g]` times."""
        counts = np.asarray(multiplicity, dtype=np.float64)
        w = counts[self.label_prompt] * self.weight
        # Sums to Kish's effective number of labels; a prompt drawn twice counts as two prompts.
        w *= w.sum() / max(float(w @ self.weight), 1e-300)
        total = np.bincount(self.label_policy, w, self.n_policies)
        mean = np.bincount(self.label_policy, w * self.label, self.n_policies) / np.maximum(
            total, 1.0
        )
        free = max(float(total.sum()) - np.count_nonzero(total), 1.0)
        spread = float(w @ (self.label - mean[self.label_policy]) ** 2) / free
        n_labels = max(float(w.sum()), 1.0)
        squares = self.error**2
        missed = float(w @ squares) / n_labels
        left = unexplained_share(missed, spread, n_labels) if spread > 0 else 1.0
        r2 = float(np.clip(1.0 - left, 0.0, 1.0))
        fourth = float(w @ squares**2) * float(w.sum()) / max(float(w @ squares) ** 2, 1e-300)
        return JudgeQuality(
            max(np.sqrt(spread), 1e-6) * width,
            r2,
            self._correlation(self.reward, self.policy, self.prompt, counts, 10),
            self._correlation(self.error, self.label_policy, self.label_prompt, counts, 10),
            max(fourth, 1.0),
            self._rate(w),
        )

    def _rate(self, w: FloatArray) -> float | None:
        """Mean of labels of 0 and 1; None for other labels, and if all are equal."""
        if not ((self.label == 0.0) | (self.label == 1.0)).all():
            return None
        rate = float(w @ self.label) / float(w.sum())
        return rate if 0.0 < rate < 1.0 else None

    def _correlation(
        self, value: FloatArray, policy: IntArray, prompt: IntArray, counts: FloatArray, least: int
    ) -> float:
        """Intraclass correlation of prompts after removing each policy's mean; 0 if too few.

        One value per prompt and policy, the mean of its draws.
        """
        cell, at = np.unique(prompt * self.n_policies + policy, return_inverse=True)
        value = np.bincount(at, value) / np.bincount(at)
        prompt, policy = cell // self.n_policies, cell % self.n_policies
        w = counts[prompt]
        total = np.maximum(np.bincount(policy, w, self.n_policies), 1.0)
        centred = value - (np.bincount(policy, w * value, self.n_policies) / total)[policy]
        size = cluster_sums(np.ones(len(value)), prompt, self.n_prompts)
        several = counts * (size >= 2)
        if float(several.sum()) < least:
            return 0.0
        summed = cluster_sums(centred, prompt, self.n_prompts)
        squares = cluster_sums(centred**2, prompt, self.n_prompts)
        # Mean product over ordered pairs of one prompt, relative to the mean square.
        pairs = float(several @ (summed**2 - squares)) / float(several @ (size * (size - 1.0)))
        spread = float(counts @ squares) / float(counts @ size)
        return float(np.clip(pairs / spread, -0.99, 0.99)) if spread > 0 else 0.0
